/* dim.h - dimensions as exact integer expressions over named symbols.
 *
 * A qn_dim is a constant, or a pointer to an interned expression in a normal form (a polynomial over atoms; an atom
 * is a symbol, a floor quotient, a minimum or a maximum), so that two equal expressions are the same pointer and
 * equality is ==. Every symbol stands for an integer >= 0; what something is divided by counts as not 0.
 *
 * The constant INT64_MAX means "too large": a result whose coefficients overflow, or whose expression outgrows what
 * any model needs, is that constant, and arithmetic on it gives it again (times 0 is 0), so that later size checks
 * fail cleanly. Every dim is <= INT64_MAX and >= INT64_MIN, so slices "to the end" come out right through min and max.
 *
 * Symbols can be bound, by the user (--set) or because a graph cannot hold otherwise (a broadcast of `a` with `b`
 * needs a == b): qn_dim_equate. A binding changes the normal form of older expressions: pass them through
 * qn_dim_resolve, or infer again from the start, which is what the shapes pass does while `generation` moves. */
#ifndef QN_DIM_H
#define QN_DIM_H

#include "graph/tensor.h"

typedef struct qn_expr qn_expr;
typedef struct qn_dim {
	const qn_expr *expr; /* NULL: the constant k */
	int64_t k;           /* 0 where expr is set */
} qn_dim;

typedef struct qn_dims qn_dims; /* the table of symbols and expressions of a graph */

qn_dims *qn_dims_new(qn_arena *a);
unsigned qn_dims_generation(const qn_dims *t); /* grows with each binding */

static inline qn_dim qn_dim_const(int64_t k) { return (qn_dim){NULL, k}; }
static inline bool qn_dim_is_const(qn_dim d) { return d.expr == NULL; }
static inline bool qn_dim_is(qn_dim d, int64_t k) { return d.expr == NULL && d.k == k; }
static inline bool qn_dim_equal(qn_dim a, qn_dim b) { return a.expr == b.expr && a.k == b.k; }

/* The symbol of that original text (any text: "batch", "past + 1", " "); the same text gives the same symbol. */
qn_dim qn_dim_symbol(qn_dims *t, const char *text);
qn_dim qn_dim_add(qn_dims *t, qn_dim a, qn_dim b);
qn_dim qn_dim_sub(qn_dims *t, qn_dim a, qn_dim b);
qn_dim qn_dim_mul(qn_dims *t, qn_dim a, qn_dim b);
qn_dim qn_dim_floordiv(qn_dims *t, qn_dim a, qn_dim b); /* exact quotients simplify; b constant 0 gives 0 */
qn_dim qn_dim_ceildiv(qn_dims *t, qn_dim a, qn_dim b);
qn_dim qn_dim_mod(qn_dims *t, qn_dim a, qn_dim b);      /* sign of b, as Python */
qn_dim qn_dim_min(qn_dims *t, qn_dim a, qn_dim b);
qn_dim qn_dim_max(qn_dims *t, qn_dim a, qn_dim b);
/* a / b only where it is exact for all values of the symbols. */
bool qn_dim_exact_div(qn_dims *t, qn_dim a, qn_dim b, qn_dim *q);

/* Bounds that hold for every value of the symbols; false when there is none. */
bool qn_dim_lower(qn_dims *t, qn_dim d, int64_t *low);
bool qn_dim_upper(qn_dims *t, qn_dim d, int64_t *high);
typedef enum { QN_UNDECIDED = -1, QN_FALSE = 0, QN_TRUE = 1 } qn_tristate;
qn_tristate qn_dim_eq(qn_dims *t, qn_dim a, qn_dim b);
qn_tristate qn_dim_lt(qn_dims *t, qn_dim a, qn_dim b);
qn_tristate qn_dim_le(qn_dims *t, qn_dim a, qn_dim b);

/* Makes a == b hold by binding symbols. False when it cannot (two constants that differ, no symbol to solve for). Where products
 * meet products, factors are paired in order of first creation; what both sides share is taken out first. Two ways hold for some sizes
 * only, those that the exported program was made for: a minimum or maximum that must be one of its operands is taken to be that
 * (min(S, 8) == S; see qn_dims_assumption), and where quotients of one symbol agree only for multiples (2 (S / 4) == S / 2), the symbol
 * becomes that many times a new one, "(S/4)". */
bool qn_dim_equate(qn_dims *t, qn_dim a, qn_dim b);
/* The i-th minimum or maximum that was taken as one of its operands: "min(S,8) is S"; NULL past the last. */
const char *qn_dims_assumption(const qn_dims *t, qn_arena *a, size_t i);
qn_dim qn_dim_resolve(qn_dims *t, qn_dim d); /* with all bindings put in */

/* As text, for messages and for NNEF. `name` gives a symbol's spelling; NULL: its original text. */
typedef const char *(*qn_symbol_name_fn)(void *user, const char *text);
const char *qn_dim_text(qn_arena *a, qn_dim d, qn_symbol_name_fn name, void *user);
/* Calls fn for each symbol in d, repeats included. */
void qn_dim_each_symbol(qn_dim d, void (*fn)(void *user, const char *text), void *user);
/* The value under an assignment of the symbols (value(user, text) -> integer). False on division by zero or overflow. */
bool qn_dim_eval(qn_dim d, int64_t (*value)(void *user, const char *text), void *user, int64_t *out);

/* --- shapes -------------------------------------------------------------------------------------------- */
typedef struct qn_shape {
	int rank; /* -1: not known */
	qn_dim dim[QN_MAX_RANK];
} qn_shape;

qn_dim qn_shape_count(qn_dims *t, const qn_shape *s); /* the rank has to be known */
bool qn_shape_is_const(const qn_shape *s);
bool qn_shape_equal(const qn_shape *a, const qn_shape *b);
const char *qn_shape_text(qn_arena *a, const qn_shape *s); /* "[batch, seq, 64]"; "[?]" where the rank is not known */
qn_shape qn_shape_of(const qn_tensor *t);

#endif
