/* dim_bind.c - bindings of symbols: solving a == b, and putting the solutions into expressions. */
#include "graph/dim_expr.h"

enum { MAX_REWRITES = 16, LONGEST_CHAIN = 64, MOST_MULTIPLE = 1 << 16 };

/* --- resolving --------------------------------------------------------------------------------------------- */
static qn_dim resolve_atom(qn_dims *t, qn_atom *atom)
{
	if (atom->bound)
		return qn_dim_resolve(t, atom->value);
	if (atom->kind == QN_ATOM_SYMBOL)
		return atom->self;
	qn_dim a = qn_dim_resolve(t, atom->a), b = qn_dim_resolve(t, atom->b);
	if (qn_dim_equal(a, atom->a) && qn_dim_equal(b, atom->b))
		return atom->self;
	return atom->kind == QN_ATOM_DIV ? qn_poly_floordiv(t, a, b) : qn_poly_minmax(t, atom->kind, a, b);
}

static qn_dim resolve_terms(qn_dims *t, const qn_expr *e)
{
	qn_dim sum = qn_dim_const(0);
	for (int i = 0; i < e->n; i++) {
		qn_dim product = qn_dim_const(e->term[i].k);
		for (int j = 0; j < e->term[i].n; j++)
			product = qn_poly_mul(t, product, resolve_atom(t, e->term[i].atom[j]));
		sum = qn_poly_add(t, sum, product);
	}
	return sum;
}

qn_dim qn_dim_resolve(qn_dims *t, qn_dim d)
{
	if (!d.expr || t->stamp == 0)
		return d;
	qn_expr *e = t->exprs[d.expr->id];
	if (e->stamp != t->stamp) {
		e->resolved = resolve_terms(t, e);
		e->stamp = t->stamp;
	}
	return e->resolved;
}

/* --- questions about expressions --------------------------------------------------------------------------- */
static bool contains(qn_dim d, const qn_atom *symbol)
{
	for (int i = 0; d.expr && i < d.expr->n; i++) {
		for (int j = 0; j < d.expr->term[i].n; j++) {
			const qn_atom *x = d.expr->term[i].atom[j];
			if (x == symbol || (x->kind != QN_ATOM_SYMBOL && (contains(x->a, symbol) || contains(x->b, symbol))))
				return true;
		}
	}
	return false;
}

static bool contains_minmax(qn_dim d)
{
	for (int i = 0; d.expr && i < d.expr->n; i++) {
		for (int j = 0; j < d.expr->term[i].n; j++) {
			const qn_atom *x = d.expr->term[i].atom[j];
			if (x->kind == QN_ATOM_MIN || x->kind == QN_ATOM_MAX)
				return true;
			if (x->kind == QN_ATOM_DIV && (contains_minmax(x->a) || contains_minmax(x->b)))
				return true;
		}
	}
	return false;
}

static qn_atom *lone_symbol(qn_dim d)
{
	qn_atom *x = qn_dim_lone(d);
	return x && x->kind == QN_ATOM_SYMBOL ? x : NULL;
}

/* --- solving ----------------------------------------------------------------------------------------------- */
static bool bind(qn_dims *t, qn_atom *symbol, qn_dim value)
{
	int64_t high;
	bool negative = value.expr ? qn_poly_upper(t, value, &high) && high < 0 : value.k < 0;
	if (negative || qn_dim_is_huge(value))
		return false;
	QN_GROW(t->arena, t->bound, t->n_bound, t->cap_bound);
	symbol->bound = true;
	symbol->value = value;
	t->bound[t->n_bound++] = symbol;
	t->stamp++;
	return true;
}

/* d == 0 for a symbol that occurs in one place of d, with coefficient 1 or -1; of several the one created last. */
static bool solve_linear(qn_dims *t, qn_dim d)
{
	for (uint32_t before = UINT32_MAX;;) {
		const qn_term *best = NULL;
		for (int i = 0; i < d.expr->n; i++) {
			const qn_term *x = &d.expr->term[i];
			const qn_atom *s = qn_term_lone(x);
			if (s && s->kind == QN_ATOM_SYMBOL && (x->k == 1 || x->k == -1) && s->order < before &&
				(!best || s->order > best->atom[0]->order))
				best = x;
		}
		if (!best)
			return false;
		qn_dim rest = qn_poly_sub(t, d, qn_poly_term(t, best));
		qn_dim value = qn_poly_mul_term(t, rest, &(qn_term){-best->k, 0, NULL});
		if (!contains(rest, best->atom[0]) && bind(t, best->atom[0], value))
			return true;
		before = best->atom[0]->order;
	}
}

static bool equate(qn_dims *t, qn_dim a, qn_dim b, int rewrites);

/* x y == z w: the factors in order of creation are made equal pair by pair. */
static bool solve_products(qn_dims *t, qn_dim d, int rewrites)
{
	if (d.expr->n != 2)
		return false;
	const qn_term *x = &d.expr->term[0], *y = &d.expr->term[1];
	if (x->n != y->n || x->k != -y->k || (x->k != 1 && x->k != -1))
		return false;
	for (int i = 0; i < x->n; i++)
		if (x->atom[i]->kind != QN_ATOM_SYMBOL || y->atom[i]->kind != QN_ATOM_SYMBOL)
			return false;
	for (int i = 0; i < x->n; i++)
		if (!equate(t, x->atom[i]->self, y->atom[i]->self, rewrites))
			return false;
	return true;
}

/* floor(p / q) == r by the one solution that is exact: p == q r */
static bool solve_quotient(qn_dims *t, qn_dim d, int rewrites)
{
	for (int i = 0; i < d.expr->n; i++) {
		const qn_term *x = &d.expr->term[i];
		const qn_atom *atom = qn_term_lone(x);
		if (!atom || atom->kind != QN_ATOM_DIV || (x->k != 1 && x->k != -1))
			continue;
		qn_dim rest = qn_poly_sub(t, d, qn_poly_term(t, x));
		qn_dim r = qn_poly_mul_term(t, rest, &(qn_term){-x->k, 0, NULL});
		if (equate(t, atom->a, qn_poly_mul(t, atom->b, r), rewrites))
			return true;
	}
	return false;
}

/* A minimum or maximum in d, with coefficient 1 or -1, for which d == 0 says that it is one of its operands. */
static bool settle_extreme(qn_dims *t, qn_dim d)
{
	for (int i = 0; i < d.expr->n; i++) {
		const qn_term *x = &d.expr->term[i];
		qn_atom *atom = qn_term_lone(x);
		if (!atom || (atom->kind != QN_ATOM_MIN && atom->kind != QN_ATOM_MAX) || (x->k != 1 && x->k != -1))
			continue;
		qn_dim rest = qn_poly_sub(t, d, qn_poly_term(t, x));
		qn_dim value = qn_poly_mul_term(t, rest, &(qn_term){-x->k, 0, NULL});
		if (qn_dim_equal(value, atom->a) || qn_dim_equal(value, atom->b))
			return bind(t, atom, value);
	}
	return false;
}

const char *qn_dims_assumption(const qn_dims *t, qn_arena *a, size_t i)
{
	for (size_t k = 0; k < t->n_bound; k++)
		if (t->bound[k]->kind != QN_ATOM_SYMBOL && i-- == 0)
			return qn_arena_printf(a, "%s is %s", qn_dim_text(a, t->bound[k]->self, NULL, NULL), qn_dim_text(a, t->bound[k]->value, NULL, NULL));
	return NULL;
}

/* s where d is s or s + k */
static qn_atom *shifted_symbol(qn_dims *t, qn_dim d)
{
	if (!d.expr || d.expr->n > 2 || (d.expr->n == 2 && d.expr->term[1].n))
		return NULL;
	return lone_symbol(qn_poly_term(t, &d.expr->term[0]));
}

/* Quotients of one symbol (or of it and a number) by numbers, which agree where it is a multiple of all: then it is that many times a new symbol. */
static bool solve_multiple(qn_dims *t, qn_dim d)
{
	qn_atom *symbol = NULL;
	int64_t multiple = 1;
	for (int i = 0; i < d.expr->n; i++) {
		const qn_atom *x = qn_term_lone(&d.expr->term[i]);
		if (!x || x->kind != QN_ATOM_DIV || x->b.expr || x->b.k < 2)
			continue;
		qn_atom *s = shifted_symbol(t, x->a);
		if (!s || (symbol && s != symbol) || x->b.k > MOST_MULTIPLE)
			return false;
		symbol = s;
		int64_t a = multiple, b = x->b.k;
		while (b) {
			int64_t rest = a % b;
			a = b, b = rest;
		}
		multiple = multiple / a * x->b.k;
		if (multiple > MOST_MULTIPLE)
			return false;
	}
	if (!symbol)
		return false;
	qn_dim part = qn_dim_symbol(t, qn_arena_printf(t->arena, "(%s/%lld)", symbol->text, (long long)multiple));
	return bind(t, symbol, qn_poly_mul(t, part, qn_dim_const(multiple))) && qn_dim_is(qn_dim_resolve(t, d), 0);
}

/* d == 0 divided by the coefficients' common divisor and, as dims are not 0, by factors that all terms share. */
static qn_dim primitive(qn_dims *t, qn_dim d)
{
	qn_atom *parts[QN_EXPR_MAX_SIZE];
	uint64_t g = qn_poly_content(d, true);
	int n = d.expr->n > 1 ? qn_poly_common(d, parts) : 0;
	if (g > INT64_MAX || (g == 1 && n == 0))
		return d;
	return qn_poly_shrink(t, d, (int64_t)g, &(qn_term){1, n, parts});
}

static void unbind(qn_dims *t, size_t n_bound)
{
	while (t->n_bound > n_bound)
		t->bound[--t->n_bound]->bound = false;
	t->stamp++;
}

static bool has_symbolic_divisor(qn_dim d)
{
	for (int i = 0; i < d.expr->n; i++) {
		const qn_atom *x = qn_term_lone(&d.expr->term[i]);
		if (x && x->kind == QN_ATOM_DIV && x->b.expr)
			return true;
	}
	return false;
}

static bool equate(qn_dims *t, qn_dim a, qn_dim b, int rewrites)
{
	a = qn_dim_resolve(t, a);
	b = qn_dim_resolve(t, b);
	if (qn_dim_equal(a, b))
		return true;
	qn_tristate eq = qn_dim_eq(t, a, b);
	if (eq != QN_UNDECIDED || rewrites == 0 || qn_dim_is_huge(a) || qn_dim_is_huge(b))
		return eq == QN_TRUE;
	qn_dim d = qn_poly_sub(t, a, b);
	if (!d.expr)
		return false;
	if (contains_minmax(d))
		return settle_extreme(t, d);
	/* B T / b == s: an exporter's way to write the size of an axis. The factors tell which symbols are one; a symbol bound to
	 * the quotient would only hide it. */
	if (has_symbolic_divisor(d)) {
		size_t before = t->n_bound;
		if (solve_quotient(t, d, rewrites - 1))
			return true;
		unbind(t, before);
	}
	qn_atom *x = lone_symbol(a), *y = lone_symbol(b);
	if (x && (!y || x->order > y->order) && !contains(b, x))
		return bind(t, x, b);
	if (y && !contains(a, y))
		return bind(t, y, a);
	d = primitive(t, d);
	if (!d.expr)
		return false;
	if (solve_linear(t, d) || solve_products(t, d, rewrites - 1) || solve_quotient(t, d, rewrites - 1))
		return true;
	return solve_multiple(t, d);
}

bool qn_dim_equate(qn_dims *t, qn_dim a, qn_dim b)
{
	size_t before = t->n_bound;
	bool solved = equate(t, a, b, MAX_REWRITES);
	if (t->n_bound == before)
		return solved;
	/* a way that failed half way, or a solution that makes a divisor 0, leaves nothing behind */
	if (!solved || qn_dim_eq(t, a, b) != QN_TRUE) {
		unbind(t, before);
		return false;
	}
	/* values that speak of symbols bound later make chains, along which resolving recurses */
	if (before / LONGEST_CHAIN != t->n_bound / LONGEST_CHAIN)
		for (size_t i = 0; i < t->n_bound; i++)
			t->bound[i]->value = qn_dim_resolve(t, t->bound[i]->value);
	t->generation += (unsigned)(t->n_bound - before);
	return true;
}
