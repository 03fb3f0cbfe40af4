/* canon.h - shared by the files of the canonicalize pass: looking at decomposed arithmetic. */
#ifndef QN_CANON_H
#define QN_CANON_H

#include "passes/passes.h"

/* The operator that makes v, when it has that ai.onnx name; else NULL. */
qn_node *qn_canon_made_by(const qn_value *v, const char *op);
/* A resident float constant of one element. */
bool qn_canon_scalar(const qn_value *v, double *out);
bool qn_canon_near(double a, double b); /* to 1e-3 relative: exporters round their constants differently */
/* v as a product: its factors that are no scalar constants, and the product of those that are. Goes through Mul, Div by a constant and Neg as long as nothing
 * else reads the part. *n is 0 when there are more than `max`. */
void qn_canon_factors(qn_value *v, qn_value **factors, int max, int *n, double *scale);
/* v == other + constant? Returns the other operand, or NULL. */
qn_value *qn_canon_plus(const qn_value *v, double *constant);
/* x for x * x or x ^ 2, else NULL. */
qn_value *qn_canon_square_of(const qn_value *v);

/* canon_gelu.c, canon_norm.c: rewrite the node when the form ends there. */
void qn_canon_activation(qn_graph *g, qn_node *n);
void qn_canon_norm(qn_graph *g, qn_node *n);

#endif
