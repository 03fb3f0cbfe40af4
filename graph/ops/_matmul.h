/* _matmul.h - the broadcasting matrix product of MatMul and its integer relatives. */
#ifndef QN_OPS_MATMUL_H
#define QN_OPS_MATMUL_H

#include "graph/emit.h"
#include "graph/ops/_gemm.h"

/* The shape rule; fails on operands of rank 0 and contraction dims that differ. */
qn_status qn_matmul_shape(qn_call *c, const qn_shape *a, const qn_shape *b, qn_shape *out);
/* The product of two tensors of those shapes, as g->batch products; `g->type` is left to the caller. */
void qn_matmul_plan(qn_call *c, const qn_tensor *a, const qn_tensor *b, qn_gemm *g);
/* The einsum of the product, without temporaries where a broadcast is between unequal ranks. `a` and `b` are NNEF expressions. */
const char *qn_matmul_emit(qn_emit *e, const char *a, const qn_shape *sa, const char *b, const qn_shape *sb, const char *acc);

#endif
