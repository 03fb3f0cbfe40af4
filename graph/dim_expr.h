/* dim_expr.h - how dim*.c hold an expression; nobody else looks inside.
 *
 * A polynomial is an array of terms in descending order (see qn_monomial_compare), without zero coefficients and
 * interned: equal polynomials are one object. A monomial is an array of atoms in ascending order, repeats included.
 * The order is lexicographic, hence kept when both sides are multiplied by a monomial, which long division needs.
 *
 * The functions here work on what they are given; only the public ones of dim.h put bindings in first. */
#ifndef QN_DIM_EXPR_H
#define QN_DIM_EXPR_H

#include "graph/dim.h"

typedef enum qn_atom_kind { QN_ATOM_SYMBOL, QN_ATOM_DIV, QN_ATOM_MIN, QN_ATOM_MAX } qn_atom_kind;

typedef struct qn_atom {
	qn_atom_kind kind;
	uint32_t order;   /* symbols by creation, then all others by creation */
	const char *text; /* of a symbol */
	qn_dim a, b;      /* operands of the other kinds */
	qn_dim self;      /* the atom alone as an expression */
	bool bound;       /* it stands for `value` */
	qn_dim value;
	int size, depth; /* of the expression tree below */
} qn_atom;

typedef struct qn_term {
	int64_t k;
	int n; /* atoms; 0 in the constant term, which is the last one */
	qn_atom *const *atom;
} qn_term;

struct qn_expr {
	uint32_t id, hash;
	int n;
	const qn_term *term;
	int size, depth;
	/* memory of qn_dim_resolve: `resolved` holds as of that state of the bindings */
	unsigned stamp;
	qn_dim resolved;
	enum { QN_LOWER_UNKNOWN, QN_LOWER_NONE, QN_LOWER_KNOWN } lower_state;
	int64_t lower;
};

struct qn_dims {
	qn_arena *arena;
	unsigned generation;
	unsigned stamp;  /* moves with each binding made or taken back */
	qn_atom **bound; /* in the order of their bindings */
	size_t n_bound, cap_bound;
	qn_expr **exprs; /* by id */
	size_t n_exprs, cap_exprs;
	uint32_t *expr_slots; /* open addressing: id + 1 */
	size_t n_expr_slots;
	qn_atom **atoms;
	size_t n_atoms, cap_atoms;
	uint32_t *atom_slots;
	size_t n_atom_slots;
	uint32_t n_symbols;
	int nesting;    /* of quotients being simplified */
	qn_term *terms; /* a polynomial under construction */
	size_t cap_terms;
	qn_atom **parts; /* the atoms of its terms where they are new */
	size_t cap_parts;
};

/* Trees larger than this are given up (see QN_DIM_HUGE): models never come near it, made-up files do. */
enum { QN_EXPR_MAX_SIZE = 2048, QN_EXPR_MAX_DEPTH = 64 };

/* What overflows or outgrows the limits; arithmetic on it gives it again. */
#define QN_DIM_HUGE INT64_MAX
static inline qn_dim qn_dim_huge(void)
{
	return qn_dim_const(QN_DIM_HUGE);
}
static inline bool qn_dim_is_huge(qn_dim d)
{
	return qn_dim_is(d, QN_DIM_HUGE);
}

/* The terms of d; `one` is storage for the term of a constant. Zero has none. */
static inline int qn_dim_terms(qn_dim d, qn_term *one, const qn_term **terms)
{
	if (d.expr) {
		*terms = d.expr->term;
		return d.expr->n;
	}
	*one = (qn_term){d.k, 0, NULL};
	*terms = one;
	return d.k != 0;
}

static inline int64_t qn_floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int qn_monomial_compare(const qn_term *a, const qn_term *b); /* < 0: a comes first */
/* Structural, for a stable order of operands; constants last. */
int qn_poly_compare(qn_dim a, qn_dim b);
qn_dim qn_poly_add(qn_dims *t, qn_dim a, qn_dim b);
qn_dim qn_poly_sub(qn_dims *t, qn_dim a, qn_dim b);
qn_dim qn_poly_mul(qn_dims *t, qn_dim a, qn_dim b);
qn_dim qn_poly_mul_term(qn_dims *t, qn_dim a, const qn_term *by);
qn_dim qn_poly_term(qn_dims *t, const qn_term *term);
/* Divides each term; the caller has made sure that all are multiples. */
qn_dim qn_poly_shrink(qn_dims *t, qn_dim a, int64_t k, const qn_term *monomial);
qn_dim qn_poly_atom(qn_dims *t, qn_atom_kind kind, qn_dim a, qn_dim b);
/* a = q * b + r. Steps stop at the first leading terms that do not divide; false where that overflows or takes too long. */
bool qn_poly_divide(qn_dims *t, qn_dim a, qn_dim b, qn_dim *q, qn_dim *r);
qn_dim qn_poly_floordiv(qn_dims *t, qn_dim a, qn_dim b);
qn_dim qn_poly_minmax(qn_dims *t, qn_atom_kind kind, qn_dim a, qn_dim b);
/* False for QN_DIM_HUGE, so that no conclusion is drawn from an overflow. */
bool qn_poly_lower(qn_dims *t, qn_dim d, int64_t *low);
bool qn_poly_upper(qn_dims *t, qn_dim d, int64_t *high);
bool qn_poly_le(qn_dims *t, qn_dim a, qn_dim b);

/* The only atom of a term, where the term is k * atom. */
static inline qn_atom *qn_term_lone(const qn_term *t)
{
	return t->n == 1 ? t->atom[0] : NULL;
}
/* The atom where d is 1 * atom, else NULL. */
static inline qn_atom *qn_dim_lone(qn_dim d)
{
	return d.expr && d.expr->n == 1 && d.expr->term[0].k == 1 ? qn_term_lone(&d.expr->term[0]) : NULL;
}
/* The greatest divisor of all coefficients (`constant`: of the constant term too); 0 for no terms. */
uint64_t qn_poly_content(qn_dim d, bool constant);
/* The monomial that divides all terms, in `parts` (room for the atoms of the first term); its length. */
int qn_poly_common(qn_dim d, qn_atom **parts);

#endif
