/* fold.h - a tensor is divided by one factor for each of its channels, and the weights that read it are multiplied: what the graph computes
 * stays the same. The factors go into constants, which become recipes over the ones before, so nothing is added to what runs. */
#ifndef QN_FOLD_H
#define QN_FOLD_H

#include "passes/plan.h"

/* Weights and their factors stay below this where f16 stores their scales. */
#define QN_FOLD_MOST_F16 60000.0f

/* v or, `reciprocal`, 1 / v as a constant [n]. */
qn_value *qn_fold_vector(qn_graph *g, const char *name, const float *v, int64_t n, bool reciprocal);
/* Whether the node is a LayerNorm or RMSNorm over the last axis, whose result its gain scales channel by channel. */
bool qn_fold_is_norm(const qn_node *n);
/* A constant of one number, or of k along the last axis, as k numbers in `scratch`; NULL where it is of another kind. */
qn_status qn_fold_numbers(qn_graph *g, qn_value *v, int64_t k, qn_arena *scratch, const float **out);

/* The norm's gain and bias divided by m [k]. *done stays false, nothing changed, where they are no constant vectors. */
qn_status qn_fold_into_norm(qn_graph *g, qn_node *n, const float *m, int64_t k, bool *done);
/* The rows and the bias of a linear layer divided by m [n], which must live as long as the plan; so does *done. */
qn_status qn_fold_into_rows(qn_graph *g, qn_layer *l, const float *m, bool *done);
/* The columns of a linear layer times the constant m [k]. */
void qn_fold_into_columns(qn_graph *g, qn_layer *l, qn_value *m);

#endif
