/* _matmul_int.h - products of 8-bit operands with zero points, summed in i32. */
#ifndef QN_OPS_MATMUL_INT_H
#define QN_OPS_MATMUL_INT_H

#include "graph/emit.h"

/* Checks the operands in inputs a and b and their zero points (a scalar; one a row of A; one a column of B); fills the shape of
 * output 0. */
qn_status qn_matmul_int_infer(qn_call *c, int a, int b, int a_zero, int b_zero);
void qn_matmul_int_run(qn_call *c, const qn_tensor *a, const qn_tensor *a_zero, const qn_tensor *b, const qn_tensor *b_zero, int32_t *y);
/* The i32 product as an expression. Zero points may be NULL. */
const char *qn_matmul_int_emit(qn_emit *e, qn_value *a, qn_value *a_zero, qn_value *b, qn_value *b_zero);

#endif
