/* dim.c - the tables of atoms and expressions, and sums and products of polynomials. */
#include "graph/dim_expr.h"

#define OTHER_ATOMS (UINT32_C(1) << 31)
enum { FIRST_SLOTS = 64 };

qn_dims *qn_dims_new(qn_arena *a)
{
	qn_dims *t = QN_NEW(a, qn_dims, 1);
	t->arena = a;
	return t;
}

unsigned qn_dims_generation(const qn_dims *t)
{
	return t->generation;
}

/* --- interning --------------------------------------------------------------------------------------------- */
static uint32_t mix(uint32_t h, uint64_t v)
{
	uint64_t x = (h ^ v) * 0x9e3779b97f4a7c15u;
	return (uint32_t)(x ^ x >> 32);
}

static uint32_t hash_text(const char *s)
{
	uint32_t h = 17;
	for (; *s; s++)
		h = mix(h, (uint8_t)*s);
	return h;
}

static uint32_t hash_dim(uint32_t h, qn_dim d)
{
	return d.expr ? mix(h, d.expr->hash) : mix(mix(h, 1), (uint64_t)d.k);
}

static uint32_t hash_atom(const qn_atom *a)
{
	return a->kind == QN_ATOM_SYMBOL ? hash_text(a->text) : hash_dim(hash_dim(mix(3, a->kind), a->a), a->b);
}

static bool same_atom(const qn_atom *x, const qn_atom *y)
{
	if (x->kind != y->kind)
		return false;
	return x->kind == QN_ATOM_SYMBOL ? strcmp(x->text, y->text) == 0 : qn_dim_equal(x->a, y->a) && qn_dim_equal(x->b, y->b);
}

static void insert_slot(uint32_t *slots, size_t n, uint32_t hash, uint32_t id)
{
	size_t at = hash & (n - 1);
	while (slots[at])
		at = (at + 1) & (n - 1);
	slots[at] = id + 1;
}

static void grow_atom_slots(qn_dims *t)
{
	if (t->n_atoms * 2 < t->n_atom_slots)
		return;
	size_t n = t->n_atom_slots ? t->n_atom_slots * 2 : FIRST_SLOTS;
	t->atom_slots = QN_NEW(t->arena, uint32_t, n);
	t->n_atom_slots = n;
	for (size_t i = 0; i < t->n_atoms; i++)
		insert_slot(t->atom_slots, t->n_atom_slots, hash_atom(t->atoms[i]), (uint32_t)i);
}

static void grow_expr_slots(qn_dims *t)
{
	if (t->n_exprs * 2 < t->n_expr_slots)
		return;
	size_t n = t->n_expr_slots ? t->n_expr_slots * 2 : FIRST_SLOTS;
	t->expr_slots = QN_NEW(t->arena, uint32_t, n);
	t->n_expr_slots = n;
	for (size_t i = 0; i < t->n_exprs; i++)
		insert_slot(t->expr_slots, t->n_expr_slots, t->exprs[i]->hash, (uint32_t)i);
}

static bool same_terms(const qn_expr *e, const qn_term *terms, int n)
{
	if (e->n != n)
		return false;
	for (int i = 0; i < n; i++) {
		const qn_term *x = &e->term[i], *y = &terms[i];
		if (x->k != y->k || x->n != y->n || (x->n && memcmp(x->atom, y->atom, (size_t)x->n * sizeof x->atom[0]) != 0))
			return false;
	}
	return true;
}

static bool measure(const qn_term *terms, int n, int *size, int *depth)
{
	*size = *depth = 0;
	for (int i = 0; i < n; i++) {
		++*size;
		for (int j = 0; j < terms[i].n && *size <= QN_EXPR_MAX_SIZE; j++) {
			const qn_atom *a = terms[i].atom[j];
			*size += a->size;
			if (a->depth > *depth)
				*depth = a->depth;
		}
		if (*size > QN_EXPR_MAX_SIZE)
			return false;
	}
	return *depth <= QN_EXPR_MAX_DEPTH;
}

static qn_expr *new_expr(qn_dims *t, const qn_term *terms, int n, uint32_t hash)
{
	qn_expr *e = QN_NEW(t->arena, qn_expr, 1);
	qn_term *copy = QN_NEW(t->arena, qn_term, n);
	for (int i = 0; i < n; i++) {
		copy[i] = terms[i];
		if (terms[i].n) {
			qn_atom **atoms = QN_NEW(t->arena, qn_atom *, terms[i].n);
			memcpy(atoms, terms[i].atom, (size_t)terms[i].n * sizeof *atoms);
			copy[i].atom = atoms;
		}
	}
	e->id = (uint32_t)t->n_exprs;
	e->hash = hash;
	e->n = n;
	e->term = copy;
	return e;
}

/* The polynomial of n normalized terms, which are copied when it is new. */
static qn_dim intern(qn_dims *t, const qn_term *terms, int n)
{
	if (n == 0)
		return qn_dim_const(0);
	if (n == 1 && terms[0].n == 0)
		return qn_dim_const(terms[0].k);
	uint32_t hash = 5;
	for (int i = 0; i < n; i++) {
		hash = mix(hash, (uint64_t)terms[i].k);
		for (int j = 0; j < terms[i].n; j++)
			hash = mix(hash, terms[i].atom[j]->order);
	}
	grow_expr_slots(t);
	for (size_t at = hash & (t->n_expr_slots - 1); t->expr_slots[at]; at = (at + 1) & (t->n_expr_slots - 1)) {
		qn_expr *e = t->exprs[t->expr_slots[at] - 1];
		if (e->hash == hash && same_terms(e, terms, n))
			return (qn_dim){e, 0};
	}
	int size, depth;
	if (!measure(terms, n, &size, &depth))
		return qn_dim_huge();
	qn_expr *e = new_expr(t, terms, n, hash);
	e->size = size;
	e->depth = depth;
	QN_GROW(t->arena, t->exprs, t->n_exprs, t->cap_exprs);
	t->exprs[t->n_exprs++] = e;
	insert_slot(t->expr_slots, t->n_expr_slots, hash, e->id);
	return (qn_dim){e, 0};
}

static qn_atom *intern_atom(qn_dims *t, const qn_atom *like)
{
	grow_atom_slots(t);
	uint32_t hash = hash_atom(like);
	for (size_t at = hash & (t->n_atom_slots - 1); t->atom_slots[at]; at = (at + 1) & (t->n_atom_slots - 1)) {
		qn_atom *a = t->atoms[t->atom_slots[at] - 1];
		if (same_atom(a, like))
			return a;
	}
	qn_atom *a = QN_NEW(t->arena, qn_atom, 1);
	*a = *like;
	a->order = a->kind == QN_ATOM_SYMBOL ? t->n_symbols : OTHER_ATOMS + (uint32_t)t->n_atoms;
	if (a->kind == QN_ATOM_SYMBOL)
		a->text = qn_arena_strdup(t->arena, like->text);
	a->self = qn_poly_term(t, &(qn_term){1, 1, &a});
	QN_GROW(t->arena, t->atoms, t->n_atoms, t->cap_atoms);
	/* nothing below can unwind: the tables never hold half an atom */
	insert_slot(t->atom_slots, t->n_atom_slots, hash, (uint32_t)t->n_atoms);
	t->atoms[t->n_atoms++] = a;
	t->n_symbols += a->kind == QN_ATOM_SYMBOL;
	return a;
}

qn_dim qn_poly_atom(qn_dims *t, qn_atom_kind kind, qn_dim a, qn_dim b)
{
	int size = 1 + (a.expr ? a.expr->size : 1) + (b.expr ? b.expr->size : 1);
	int da = a.expr ? a.expr->depth : 0, db = b.expr ? b.expr->depth : 0;
	qn_atom like = {.kind = kind, .a = a, .b = b, .size = size, .depth = 1 + (da > db ? da : db)};
	if (size > QN_EXPR_MAX_SIZE || like.depth > QN_EXPR_MAX_DEPTH)
		return qn_dim_huge();
	return intern_atom(t, &like)->self;
}

qn_dim qn_dim_symbol(qn_dims *t, const char *text)
{
	qn_atom like = {.kind = QN_ATOM_SYMBOL, .text = text, .size = 1};
	return qn_dim_resolve(t, intern_atom(t, &like)->self);
}

/* --- order ------------------------------------------------------------------------------------------------- */
int qn_monomial_compare(const qn_term *a, const qn_term *b)
{
	for (int i = 0; i < a->n && i < b->n; i++)
		if (a->atom[i] != b->atom[i])
			return a->atom[i]->order < b->atom[i]->order ? -1 : 1;
	return (a->n < b->n) - (a->n > b->n);
}

int qn_poly_compare(qn_dim a, qn_dim b)
{
	qn_term one_a, one_b;
	const qn_term *x, *y;
	int n = qn_dim_terms(a, &one_a, &x), m = qn_dim_terms(b, &one_b, &y);
	for (int i = 0; i < n && i < m; i++) {
		int c = qn_monomial_compare(&x[i], &y[i]);
		if (c || x[i].k != y[i].k)
			return c ? c : x[i].k < y[i].k ? -1 : 1;
	}
	return (n < m) - (n > m);
}

/* --- arithmetic -------------------------------------------------------------------------------------------- */
static void reserve_terms(qn_dims *t, size_t n)
{
	if (n > t->cap_terms) {
		t->terms = QN_NEW(t->arena, qn_term, n * 2);
		t->cap_terms = n * 2;
	}
}

static void reserve_parts(qn_dims *t, size_t n)
{
	if (n > t->cap_parts) {
		t->parts = QN_NEW(t->arena, qn_atom *, n * 2);
		t->cap_parts = n * 2;
	}
}

qn_dim qn_poly_term(qn_dims *t, const qn_term *term)
{
	return term->k ? intern(t, term, 1) : qn_dim_const(0);
}

qn_dim qn_poly_add(qn_dims *t, qn_dim a, qn_dim b)
{
	if (qn_dim_is_huge(a) || qn_dim_is_huge(b))
		return qn_dim_huge();
	qn_term one_a, one_b;
	const qn_term *x, *y;
	int n = qn_dim_terms(a, &one_a, &x), m = qn_dim_terms(b, &one_b, &y), out = 0;
	reserve_terms(t, (size_t)(n + m));
	for (int i = 0, j = 0; i < n || j < m;) {
		int c = i == n ? 1 : j == m ? -1 : qn_monomial_compare(&x[i], &y[j]);
		qn_term sum = c <= 0 ? x[i++] : y[j++];
		if (c == 0 && __builtin_add_overflow(sum.k, y[j++].k, &sum.k))
			return qn_dim_huge();
		if (sum.k)
			t->terms[out++] = sum;
	}
	return intern(t, t->terms, out);
}

qn_dim qn_poly_sub(qn_dims *t, qn_dim a, qn_dim b)
{
	if (qn_dim_is_huge(b))
		return qn_dim_huge();
	return qn_poly_add(t, a, qn_poly_mul_term(t, b, &(qn_term){-1, 0, NULL}));
}

static void merge_atoms(qn_atom **out, const qn_term *a, const qn_term *b)
{
	for (int i = 0, j = 0; i < a->n || j < b->n;) {
		bool first = j == b->n || (i < a->n && a->atom[i]->order <= b->atom[j]->order);
		*out++ = first ? a->atom[i++] : b->atom[j++];
	}
}

qn_dim qn_poly_mul_term(qn_dims *t, qn_dim a, const qn_term *by)
{
	if (qn_dim_is(a, 0) || by->k == 0)
		return qn_dim_const(0);
	if (qn_dim_is_huge(a) || (by->n == 0 && by->k == QN_DIM_HUGE))
		return qn_dim_huge();
	qn_term one;
	const qn_term *x;
	int n = qn_dim_terms(a, &one, &x);
	size_t need = 0, used = 0;
	for (int i = 0; i < n; i++)
		need += (size_t)(x[i].n + by->n);
	reserve_terms(t, (size_t)n);
	reserve_parts(t, need + 1); /* never NULL */
	for (int i = 0; i < n; i++) {
		qn_atom **parts = t->parts + used;
		merge_atoms(parts, &x[i], by);
		t->terms[i] = (qn_term){0, x[i].n + by->n, parts};
		used += (size_t)t->terms[i].n;
		if (__builtin_mul_overflow(x[i].k, by->k, &t->terms[i].k))
			return qn_dim_huge();
	}
	return intern(t, t->terms, n);
}

qn_dim qn_poly_mul(qn_dims *t, qn_dim a, qn_dim b)
{
	qn_term one;
	const qn_term *x;
	int n = qn_dim_terms(a, &one, &x);
	qn_dim sum = qn_dim_const(0);
	for (int i = 0; i < n && !qn_dim_is_huge(sum); i++)
		sum = qn_poly_add(t, sum, qn_poly_mul_term(t, b, &x[i]));
	return sum;
}

qn_dim qn_dim_add(qn_dims *t, qn_dim a, qn_dim b)
{
	return qn_poly_add(t, qn_dim_resolve(t, a), qn_dim_resolve(t, b));
}
qn_dim qn_dim_sub(qn_dims *t, qn_dim a, qn_dim b)
{
	return qn_poly_sub(t, qn_dim_resolve(t, a), qn_dim_resolve(t, b));
}
qn_dim qn_dim_mul(qn_dims *t, qn_dim a, qn_dim b)
{
	return qn_poly_mul(t, qn_dim_resolve(t, a), qn_dim_resolve(t, b));
}

qn_dim qn_shape_count(qn_dims *t, const qn_shape *s)
{
	qn_dim n = qn_dim_const(1);
	for (int i = 0; i < s->rank; i++)
		n = qn_dim_mul(t, n, s->dim[i]);
	return n;
}
