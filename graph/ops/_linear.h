/* _linear.h - what the target-level linear layers share: y[..., N] from x[..., K] and a constant weight stored [N, K]. */
#ifndef QN_OPS_LINEAR_H
#define QN_OPS_LINEAR_H

#include "graph/emit.h"

/* Input 0 is x (f32, rank >= 1), input 1 the weight, rank 2. Input `bias`, where present, is f32 [N]. Fills output 0. */
qn_status qn_linear_infer(qn_call *c, int bias);
/* The einsum of an activation (an expression of rank `rank`) with the weight, summed in `acc`. */
const char *qn_linear_einsum(qn_emit *e, const char *x, int rank, const char *w, const char *acc);
/* y[i] += bias[i % n] over rows * n elements. */
void qn_linear_add_bias(qn_call *c, float *y, const float *bias, int64_t rows, int64_t n);

#endif
