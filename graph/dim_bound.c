/* dim_bound.c - bounds of expressions, what follows from them about order, minimum and maximum. */
#include "graph/dim_expr.h"

/* Ways of looking at one expression before its bound is given up. */
enum { MAX_LOOKS = 500, MAX_OPERANDS = 16 };

typedef struct range {
	bool has_low, has_high;
	int64_t low, high;
} range;

static bool lower(qn_dims *t, qn_dim d, int *looks, int64_t *low);

static bool upper(qn_dims *t, qn_dim d, int *looks, int64_t *high)
{
	qn_dim minus = qn_poly_sub(t, qn_dim_const(0), d);
	if (!lower(t, minus, looks, high) || *high == INT64_MIN)
		return false;
	*high = -*high;
	return true;
}

static range range_of(qn_dims *t, qn_dim d, int *looks)
{
	range r = {0};
	r.has_low = lower(t, d, looks, &r.low);
	r.has_high = upper(t, d, looks, &r.high);
	return r;
}

static range range_of_quotient(range a, range b)
{
	range r = {0};
	if (!b.has_low || b.low < 0)
		return r;
	int64_t least = b.low ? b.low : 1; /* a divisor is not 0 */
	if (a.has_low) {
		r.has_low = true;
		r.low = a.low < 0 ? qn_floor_div(a.low, least) : b.has_high && b.high > 0 ? a.low / b.high : 0;
	}
	if (a.has_high) {
		r.has_high = true;
		r.high = a.high >= 0 ? a.high / least : b.has_high && b.high > 0 ? qn_floor_div(a.high, b.high) : -1;
	}
	return r;
}

static range range_of_atom(qn_dims *t, const qn_atom *atom, int *looks)
{
	if (atom->kind == QN_ATOM_SYMBOL)
		return (range){.has_low = true};
	range a = range_of(t, atom->a, looks), b = range_of(t, atom->b, looks), r;
	if (atom->kind == QN_ATOM_DIV)
		return range_of_quotient(a, b);
	bool least = atom->kind == QN_ATOM_MIN;
	bool low_a = a.has_low && (!b.has_low || (a.low < b.low) == least);
	bool high_a = a.has_high && (!b.has_high || (a.high < b.high) == least);
	r.has_low = least ? a.has_low && b.has_low : a.has_low || b.has_low;
	r.has_high = least ? a.has_high || b.has_high : a.has_high && b.has_high;
	r.low = low_a ? a.low : b.low;
	r.high = high_a ? a.high : b.high;
	return r;
}

static range multiply(range a, range b)
{
	range r = {0};
	if (a.has_low && b.has_low && a.low >= 0 && b.low >= 0) {
		r.has_low = !__builtin_mul_overflow(a.low, b.low, &r.low);
		r.has_high = a.has_high && b.has_high && !__builtin_mul_overflow(a.high, b.high, &r.high);
		return r;
	}
	if (!a.has_low || !a.has_high || !b.has_low || !b.has_high)
		return r;
	int64_t corner[4];
	if (__builtin_mul_overflow(a.low, b.low, &corner[0]) || __builtin_mul_overflow(a.low, b.high, &corner[1]) ||
		__builtin_mul_overflow(a.high, b.low, &corner[2]) || __builtin_mul_overflow(a.high, b.high, &corner[3]))
		return r;
	r = (range){true, true, corner[0], corner[0]};
	for (int i = 1; i < 4; i++) {
		r.low = corner[i] < r.low ? corner[i] : r.low;
		r.high = corner[i] > r.high ? corner[i] : r.high;
	}
	return r;
}

/* The least value of k times the atoms of the term, one of them left out (`skip` -1: none). */
static bool lower_of_term(qn_dims *t, const qn_term *term, int64_t k, int skip, int *looks, int64_t *low)
{
	range r = {true, true, 1, 1};
	for (int i = 0; i < term->n; i++)
		if (i != skip)
			r = multiply(r, range_of_atom(t, term->atom[i], looks));
	if (k >= 0 ? !r.has_low : !r.has_high)
		return false;
	return !__builtin_mul_overflow(k, k >= 0 ? r.low : r.high, low);
}

/* Replaces one atom of a term by an expression: d - term + (term / atom) * by */
static qn_dim replace(qn_dims *t, qn_dim d, const qn_term *term, int skip, qn_dim by)
{
	qn_atom *rest[QN_EXPR_MAX_SIZE];
	int n = 0;
	for (int i = 0; i < term->n; i++)
		if (i != skip)
			rest[n++] = term->atom[i];
	d = qn_poly_sub(t, d, qn_poly_term(t, term));
	return qn_poly_add(t, d, qn_poly_mul_term(t, by, &(qn_term){term->k, n, rest}));
}

static bool lower_by_operands(qn_dims *t, qn_dim d, const qn_term *term, int skip, int *looks, int64_t *low)
{
	const qn_atom *atom = term->atom[skip];
	int64_t x, y;
	bool has_x = lower(t, replace(t, d, term, skip, atom->a), looks, &x);
	bool has_y = lower(t, replace(t, d, term, skip, atom->b), looks, &y);
	bool any = (atom->kind == QN_ATOM_MAX) == (term->k > 0); /* d is at least both, else it is one of both */
	if (any ? !has_x && !has_y : !has_x || !has_y)
		return false;
	if (!has_x || !has_y)
		*low = has_x ? x : y;
	else
		*low = any == (x > y) ? x : y;
	return true;
}

/* With a / b - (b - 1) / b <= floor(a / b) <= a / b put in, which needs b > 0. */
static bool lower_by_quotient(qn_dims *t, qn_dim d, const qn_term *term, int skip, int *looks, int64_t *low)
{
	const qn_atom *atom = term->atom[skip];
	qn_dim b = atom->b, top = atom->a, q, r;
	int64_t least;
	if (!lower(t, b, looks, &least) || least < 0)
		return false;
	if (term->k > 0)
		top = qn_poly_sub(t, top, qn_poly_sub(t, b, qn_dim_const(1)));
	qn_dim factor = qn_poly_term(t, term), rest = qn_poly_sub(t, d, factor);
	if (qn_dim_is_huge(top) || qn_dim_is_huge(rest))
		return false;
	factor = replace(t, factor, term, skip, qn_dim_const(1));
	if (qn_poly_divide(t, factor, b, &q, &r) && qn_dim_is(r, 0))
		return lower(t, qn_poly_add(t, rest, qn_poly_mul(t, q, top)), looks, low);
	if (b.expr)
		return false;
	qn_dim scaled = qn_poly_add(t, qn_poly_mul(t, rest, b), qn_poly_mul(t, factor, top));
	if (!lower(t, scaled, looks, low))
		return false;
	*low = -qn_floor_div(-*low, b.k); /* an integer: round up */
	return true;
}

/* How soon a term is to be rewritten, 0 first. Splitting d into two cases loses nothing; a quotient without its floor
 * loses less than 1; taking one operand for both forgets the other, so that comes last. */
static int turn(qn_dims *t, const qn_term *term, const qn_atom *atom, int *looks)
{
	if (atom->kind != QN_ATOM_DIV && (atom->kind == QN_ATOM_MIN) == (term->k > 0))
		return 0;
	int64_t alone;
	bool urgent = !lower_of_term(t, term, term->k, -1, looks, &alone);
	return (atom->kind == QN_ATOM_DIV ? 1 : 3) + !urgent;
}

/* Rewrites a term that holds an atom other than a symbol, where the other factors are not negative. */
static bool lower_by_term(qn_dims *t, qn_dim d, int *looks, int64_t *low)
{
	const qn_term *best = NULL;
	int skip = 0, best_turn = 0;
	for (int i = 0; i < d.expr->n; i++) {
		const qn_term *term = &d.expr->term[i];
		int at = 0;
		while (at < term->n && term->atom[at]->kind == QN_ATOM_SYMBOL)
			at++;
		int64_t rest;
		if (at == term->n || !lower_of_term(t, term, 1, at, looks, &rest) || rest < 0)
			continue;
		int its_turn = turn(t, term, term->atom[at], looks);
		if (!best || its_turn < best_turn) {
			best = term;
			skip = at;
			best_turn = its_turn;
		}
	}
	if (!best)
		return false;
	if (best->atom[skip]->kind == QN_ATOM_DIV)
		return lower_by_quotient(t, d, best, skip, looks, low);
	return lower_by_operands(t, d, best, skip, looks, low);
}

static bool lower(qn_dims *t, qn_dim d, int *looks, int64_t *low)
{
	if (!d.expr) {
		*low = d.k;
		return !qn_dim_is_huge(d);
	}
	qn_expr *e = t->exprs[d.expr->id];
	if (e->lower_state == QN_LOWER_UNKNOWN) {
		if (--*looks < 0)
			return false;
		int64_t sum = 0, part;
		bool have = true;
		for (int i = 0; i < e->n && have; i++)
			have = lower_of_term(t, &e->term[i], e->term[i].k, -1, looks, &part) && !__builtin_add_overflow(sum, part, &sum);
		if (lower_by_term(t, d, looks, &part) && (!have || part > sum)) {
			have = true;
			sum = part;
		}
		if (!have && *looks < 0)
			return false; /* a later question may have more room */
		e->lower_state = have ? QN_LOWER_KNOWN : QN_LOWER_NONE;
		e->lower = sum;
	}
	*low = e->lower;
	return e->lower_state == QN_LOWER_KNOWN;
}

bool qn_poly_lower(qn_dims *t, qn_dim d, int64_t *low)
{
	int looks = MAX_LOOKS;
	return lower(t, d, &looks, low);
}

bool qn_poly_upper(qn_dims *t, qn_dim d, int64_t *high)
{
	int looks = MAX_LOOKS;
	return upper(t, d, &looks, high);
}

bool qn_dim_lower(qn_dims *t, qn_dim d, int64_t *low)
{
	d = qn_dim_resolve(t, d);
	*low = d.k;
	return !d.expr || qn_poly_lower(t, d, low);
}

bool qn_dim_upper(qn_dims *t, qn_dim d, int64_t *high)
{
	d = qn_dim_resolve(t, d);
	*high = d.k;
	return !d.expr || qn_poly_upper(t, d, high);
}

/* --- order ------------------------------------------------------------------------------------------------- */
bool qn_poly_le(qn_dims *t, qn_dim a, qn_dim b)
{
	if (!a.expr && !b.expr)
		return a.k <= b.k;
	/* the ends of the type, as in a slice "to the end" */
	if (qn_dim_is(b, INT64_MAX) || qn_dim_is(a, INT64_MIN))
		return true;
	int64_t low;
	return qn_poly_lower(t, qn_poly_sub(t, b, a), &low) && low >= 0;
}

static bool poly_lt(qn_dims *t, qn_dim a, qn_dim b)
{
	if (!a.expr && !b.expr)
		return a.k < b.k;
	int64_t low;
	return qn_poly_lower(t, qn_poly_sub(t, b, a), &low) && low > 0;
}

qn_tristate qn_dim_lt(qn_dims *t, qn_dim a, qn_dim b)
{
	a = qn_dim_resolve(t, a);
	b = qn_dim_resolve(t, b);
	return poly_lt(t, a, b) ? QN_TRUE : qn_poly_le(t, b, a) ? QN_FALSE : QN_UNDECIDED;
}

qn_tristate qn_dim_le(qn_dims *t, qn_dim a, qn_dim b)
{
	a = qn_dim_resolve(t, a);
	b = qn_dim_resolve(t, b);
	return qn_poly_le(t, a, b) ? QN_TRUE : poly_lt(t, b, a) ? QN_FALSE : QN_UNDECIDED;
}

qn_tristate qn_dim_eq(qn_dims *t, qn_dim a, qn_dim b)
{
	a = qn_dim_resolve(t, a);
	b = qn_dim_resolve(t, b);
	if (qn_dim_equal(a, b))
		return QN_TRUE;
	if ((!a.expr && !b.expr) || poly_lt(t, a, b) || poly_lt(t, b, a))
		return QN_FALSE;
	if (qn_poly_le(t, a, b) && qn_poly_le(t, b, a))
		return QN_TRUE; /* such as s == s/2 + (s + 1)/2, where the normal forms differ */
	qn_dim d = qn_poly_sub(t, a, b);
	if (d.expr && d.expr->term[d.expr->n - 1].n == 0) { /* 2 s == 3 has no solution */
		int64_t k = d.expr->term[d.expr->n - 1].k;
		if ((k < 0 ? -(uint64_t)k : (uint64_t)k) % qn_poly_content(d, false) != 0)
			return QN_FALSE;
	}
	return QN_UNDECIDED;
}

/* --- minimum and maximum ----------------------------------------------------------------------------------- */
static void collect(qn_dim d, qn_atom_kind kind, qn_dim *list, int *n)
{
	const qn_atom *atom = qn_dim_lone(d);
	if (atom && atom->kind == kind && *n < MAX_OPERANDS) {
		collect(atom->a, kind, list, n);
		collect(atom->b, kind, list, n);
	} else {
		list[(*n)++] = d;
	}
}

static void sort(qn_dim *list, int n)
{
	for (int i = 1; i < n; i++) {
		qn_dim d = list[i];
		int at = i;
		for (; at > 0 && qn_poly_compare(d, list[at - 1]) < 0; at--)
			list[at] = list[at - 1];
		list[at] = d;
	}
}

qn_dim qn_poly_minmax(qn_dims *t, qn_atom_kind kind, qn_dim a, qn_dim b)
{
	qn_dim list[2 * MAX_OPERANDS + QN_EXPR_MAX_DEPTH];
	bool least = kind == QN_ATOM_MIN;
	int n = 0, m = 0;
	collect(a, kind, list, &n);
	collect(b, kind, list, &n);
	sort(list, n);
	for (int i = 0; i < n; i++) { /* the first m are those needed so far */
		qn_dim d = list[i];
		bool needed = true;
		for (int j = 0; j < m && needed; j++)
			needed = !qn_poly_le(t, least ? list[j] : d, least ? d : list[j]);
		if (!needed)
			continue;
		int left = 0;
		for (int j = 0; j < m; j++)
			if (!qn_poly_le(t, least ? d : list[j], least ? list[j] : d))
				list[left++] = list[j];
		list[left++] = d;
		m = left;
	}
	qn_dim all = list[0];
	for (int i = 1; i < m; i++)
		all = qn_poly_atom(t, kind, all, list[i]);
	return all;
}

qn_dim qn_dim_min(qn_dims *t, qn_dim a, qn_dim b)
{
	return qn_dim_resolve(t, qn_poly_minmax(t, QN_ATOM_MIN, qn_dim_resolve(t, a), qn_dim_resolve(t, b)));
}

qn_dim qn_dim_max(qn_dims *t, qn_dim a, qn_dim b)
{
	return qn_dim_resolve(t, qn_poly_minmax(t, QN_ATOM_MAX, qn_dim_resolve(t, a), qn_dim_resolve(t, b)));
}
