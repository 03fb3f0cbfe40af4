/* dim_div.c - quotients. Symbols count as positive where something is divided by them: a model whose divisor is 0 fails anyway. */
#include "graph/dim_expr.h"

enum { MAX_STEPS = 256, MAX_NESTING = 32 };

static uint64_t magnitude(int64_t k)
{
	return k < 0 ? -(uint64_t)k : (uint64_t)k;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t r = a % b;
		a = b;
		b = r;
	}
	return a;
}

uint64_t qn_poly_content(qn_dim d, bool constant)
{
	qn_term one;
	const qn_term *x;
	int n = qn_dim_terms(d, &one, &x);
	uint64_t g = 0;
	for (int i = 0; i < n; i++)
		if (x[i].n || constant)
			g = gcd(g, magnitude(x[i].k));
	return g;
}

/* Keeps of `parts` what also occurs in the term. */
static int intersect(qn_atom **parts, int n, const qn_term *term)
{
	int kept = 0;
	for (int i = 0, j = 0; i < n && j < term->n;) {
		if (parts[i] == term->atom[j]) {
			parts[kept++] = parts[i++];
			j++;
		} else if (parts[i]->order < term->atom[j]->order) {
			i++;
		} else {
			j++;
		}
	}
	return kept;
}

int qn_poly_common(qn_dim d, qn_atom **parts)
{
	if (!d.expr)
		return 0;
	const qn_term *x = d.expr->term;
	int n = x[0].n;
	memcpy(parts, x[0].atom, (size_t)n * sizeof *parts);
	for (int i = 1; i < d.expr->n && n; i++)
		n = intersect(parts, n, &x[i]);
	return n;
}

/* a / b of monomials into `out`, which has room for the atoms of a; the length, or -1 where b does not divide a. */
static int divide_monomial(qn_atom **out, const qn_term *a, const qn_term *b)
{
	int n = 0, j = 0;
	for (int i = 0; i < a->n; i++) {
		if (j < b->n && a->atom[i] == b->atom[j])
			j++;
		else
			out[n++] = a->atom[i];
	}
	return j == b->n ? n : -1;
}

qn_dim qn_poly_shrink(qn_dims *t, qn_dim a, int64_t k, const qn_term *monomial)
{
	if (!a.expr)
		return qn_dim_const(a.k / k);
	qn_dim sum = qn_dim_const(0);
	qn_atom *parts[QN_EXPR_MAX_SIZE];
	for (int i = 0; i < a.expr->n; i++) {
		const qn_term *x = &a.expr->term[i];
		int n = divide_monomial(parts, x, monomial);
		sum = qn_poly_add(t, sum, qn_poly_term(t, &(qn_term){x->k / k, n, parts}));
	}
	return sum;
}

bool qn_poly_divide(qn_dims *t, qn_dim a, qn_dim b, qn_dim *q, qn_dim *r)
{
	qn_term one_a, one_b;
	const qn_term *x, *y;
	qn_atom *parts[QN_EXPR_MAX_SIZE];
	*q = *r = qn_dim_const(0);
	if (qn_dim_terms(b, &one_b, &y) == 0 || qn_dim_is_huge(a) || qn_dim_is_huge(b))
		return false;
	for (int step = 0; qn_dim_terms(a, &one_a, &x) > 0; step++) {
		if (step == MAX_STEPS || (x->k == INT64_MIN && y->k == -1))
			return false;
		qn_term lead = *x;
		int n = divide_monomial(parts, &lead, y);
		/* a constant remainder gets the sign of a positive divisor, so that a quotient by a constant has one form only */
		int64_t k = n < 0 ? 0 : lead.n ? lead.k / y->k : qn_floor_div(lead.k, y->k);
		qn_dim part = qn_poly_term(t, &(qn_term){k, n < 0 ? 0 : n, parts});
		*q = qn_poly_add(t, *q, part);
		a = qn_poly_sub(t, a, qn_poly_mul(t, part, b));
		if (qn_dim_is_huge(*q) || qn_dim_is_huge(a))
			return false;
		if (qn_dim_terms(a, &one_a, &x) > 0 && qn_monomial_compare(x, &lead) == 0) {
			lead.k = x->k;
			part = qn_poly_term(t, &lead);
			*r = qn_poly_add(t, *r, part);
			a = qn_poly_sub(t, a, part);
		}
	}
	return !qn_dim_is_huge(*r);
}

/* The only quotient by a positive constant that is a term of its own in d; NULL where there is none or several. */
static const qn_atom *inner_quotient(qn_dim d)
{
	const qn_atom *found = NULL;
	for (int i = 0; d.expr && i < d.expr->n; i++) {
		const qn_term *x = &d.expr->term[i];
		for (int j = 0; j < x->n; j++) {
			if (x->atom[j]->kind != QN_ATOM_DIV)
				continue;
			if (found || x->n != 1 || x->k != 1 || x->atom[j]->b.expr || x->atom[j]->b.k <= 0)
				return NULL;
			found = x->atom[j];
		}
	}
	return found;
}

/* Divides numerator and denominator by what they share; false where that is nothing. */
static bool cancel(qn_dims *t, qn_dim *a, qn_dim *b)
{
	bool constant = !b->expr; /* then floor((g m + k) / (g c)) = floor((m + floor(k / g)) / c) */
	uint64_t g = gcd(qn_poly_content(*a, !constant), qn_poly_content(*b, true));
	qn_atom *parts[QN_EXPR_MAX_SIZE];
	int n = qn_poly_common(*a, parts);
	for (int i = 0; b->expr && i < b->expr->n && n; i++)
		n = intersect(parts, n, &b->expr->term[i]);
	if (constant)
		n = 0;
	if ((g <= 1 && n == 0) || g > INT64_MAX || (!a->expr && !b->expr))
		return false;
	int64_t k = (int64_t)g;
	qn_term one = {1, n, parts};
	if (constant && a->expr->term[a->expr->n - 1].n == 0) {
		int64_t last = a->expr->term[a->expr->n - 1].k;
		qn_dim rounded = qn_poly_add(t, *a, qn_dim_const(k * qn_floor_div(last, k) - last));
		if (qn_dim_is_huge(rounded))
			return false;
		a->expr = rounded.expr;
	}
	*a = qn_poly_shrink(t, *a, k, &one);
	*b = qn_poly_shrink(t, *b, k, &one);
	return true;
}

/* floor(r / b) as an atom, or the one value that the bounds leave. */
static qn_dim quotient_atom(qn_dims *t, qn_dim r, qn_dim b)
{
	int64_t low, high;
	if (qn_poly_lower(t, r, &low) && low >= 0 && qn_poly_lower(t, qn_poly_sub(t, b, r), &high) && high >= 1)
		return qn_dim_const(0);
	qn_dim atom = qn_poly_atom(t, QN_ATOM_DIV, r, b);
	return qn_poly_lower(t, atom, &low) && qn_poly_upper(t, atom, &high) && low == high ? qn_dim_const(low) : atom;
}

/* floor(r / b) where nothing more can be taken out of r; b is not a constant <= 1. */
static qn_dim quotient(qn_dims *t, qn_dim r, qn_dim b)
{
	if (cancel(t, &r, &b))
		return qn_poly_floordiv(t, r, b);
	const qn_atom *inner = inner_quotient(r);
	int64_t low;
	if (inner && qn_poly_lower(t, b, &low) && low >= 0) { /* floor((m + floor(x / c)) / b) = floor((c m + x) / (c b)) */
		qn_dim m = qn_poly_mul(t, qn_poly_sub(t, r, inner->self), inner->b);
		qn_dim top = qn_poly_add(t, m, inner->a), bottom = qn_poly_mul(t, b, inner->b);
		if (!qn_dim_is_huge(m) && !qn_dim_is_huge(top) && !qn_dim_is_huge(bottom))
			return qn_poly_floordiv(t, top, bottom);
	}
	return quotient_atom(t, r, b);
}

static int count_terms(qn_dim d)
{
	return d.expr ? d.expr->n : d.k != 0;
}

/* Like qn_poly_divide, but leaves a alone where a part taken out would not make it shorter. */
static bool split(qn_dims *t, qn_dim a, qn_dim b, qn_dim *q, qn_dim *r)
{
	if (!qn_poly_divide(t, a, b, q, r))
		return false;
	if (count_terms(b) > 1 && !qn_dim_is(*r, 0) && count_terms(*r) >= count_terms(a)) {
		*q = qn_dim_const(0);
		*r = a;
	}
	return true;
}

qn_dim qn_poly_floordiv(qn_dims *t, qn_dim a, qn_dim b)
{
	if (qn_dim_is(b, 0))
		return b;
	if (qn_dim_is_huge(a) || qn_dim_is_huge(b))
		return qn_dim_huge();
	qn_term one;
	const qn_term *y;
	qn_dim_terms(b, &one, &y);
	if (y->k < 0) {
		a = qn_poly_sub(t, qn_dim_const(0), a);
		b = qn_poly_sub(t, qn_dim_const(0), b);
		if (qn_dim_is_huge(a) || qn_dim_is_huge(b))
			return qn_dim_huge();
	}
	if (!a.expr && !b.expr)
		return qn_dim_const(qn_floor_div(a.k, b.k));
	qn_dim q, r;
	if (t->nesting >= MAX_NESTING || !split(t, a, b, &q, &r))
		return qn_poly_atom(t, QN_ATOM_DIV, a, b);
	if (qn_dim_is(r, 0))
		return q;
	t->nesting++;
	qn_dim rest = quotient(t, r, b);
	t->nesting--;
	return qn_poly_add(t, q, rest);
}

qn_dim qn_dim_floordiv(qn_dims *t, qn_dim a, qn_dim b)
{
	return qn_poly_floordiv(t, qn_dim_resolve(t, a), qn_dim_resolve(t, b));
}

qn_dim qn_dim_ceildiv(qn_dims *t, qn_dim a, qn_dim b)
{
	a = qn_dim_resolve(t, a);
	b = qn_dim_resolve(t, b);
	int64_t low;
	if (qn_poly_lower(t, b, &low) && low >= 0) {
		qn_dim q, r;
		if (qn_dim_is_huge(a) || qn_dim_is_huge(b) || !split(t, a, b, &q, &r))
			return qn_poly_floordiv(t, qn_poly_add(t, a, qn_poly_sub(t, b, qn_dim_const(1))), b);
		if (qn_dim_is(r, 0))
			return q;
		qn_dim up = qn_poly_add(t, r, qn_poly_sub(t, b, qn_dim_const(1)));
		return qn_poly_add(t, q, qn_poly_floordiv(t, up, b));
	}
	qn_dim down = qn_poly_floordiv(t, qn_poly_sub(t, qn_dim_const(0), a), b);
	return qn_poly_sub(t, qn_dim_const(0), down);
}

qn_dim qn_dim_mod(qn_dims *t, qn_dim a, qn_dim b)
{
	a = qn_dim_resolve(t, a);
	b = qn_dim_resolve(t, b);
	return qn_poly_sub(t, a, qn_poly_mul(t, b, qn_poly_floordiv(t, a, b)));
}

bool qn_dim_exact_div(qn_dims *t, qn_dim a, qn_dim b, qn_dim *q)
{
	qn_dim r;
	return qn_poly_divide(t, qn_dim_resolve(t, a), qn_dim_resolve(t, b), q, &r) && qn_dim_is(r, 0);
}
