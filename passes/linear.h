/* linear.h - shared by the files of the linear pass: nodes with their facts set, and rewritings that are more than an exchange of
 * operators. */
#ifndef QN_LINEAR_H
#define QN_LINEAR_H

#include "graph/op.h"

/* A node with one output of the type of in[0] and the shape given. Over a constant it is a recipe of the same weight. */
qn_value *qn_linear_apply(qn_graph *g, qn_node *before, const char *op, const char *name, qn_value *const *in, int n_in, qn_shape shape);
/* v itself where nothing moves. */
qn_value *qn_linear_transpose(qn_graph *g, qn_node *before, const char *name, qn_value *v, const int64_t *perm);
qn_value *qn_linear_reshape(qn_graph *g, qn_node *before, const char *name, qn_value *v, const qn_shape *to);
/* What n makes is reshaped, then permuted, for all who read it. */
void qn_linear_continue(qn_graph *g, qn_node *n, const qn_shape *split, const int64_t *perm);

/* linear_einsum.c: an equation with a constant operand that shares no axis with the result and the other operand at once. */
void qn_linear_from_einsum(qn_graph *g, qn_node *n);
/* linear_conv.c: a convolution that looks at one position. */
void qn_linear_from_conv(qn_graph *g, qn_node *n);
/* linear_batch.c: a product with a stack of constant matrices, one for each expert. */
void qn_linear_from_batch(qn_graph *g, qn_node *n);

#endif
