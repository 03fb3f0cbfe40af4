/* _conv.h - convolution by columns: patches of the input become a matrix, the rest is a matrix product. */
#ifndef QN_OPS_CONV_H
#define QN_OPS_CONV_H

#include "graph/ops/_gemm.h"
#include "graph/ops/_window.h"

/* The shape rule of Conv and its integer relatives for input x and weight w [M, C/groups, kernel]. */
qn_status qn_conv_shape(qn_call *c, const qn_shape *x, const qn_shape *w, qn_shape *out);

typedef struct qn_conv {
	qn_window window;
	int64_t batch, groups, c_in, c_out; /* channels of a group */
	int64_t in[QN_MAX_SPATIAL], out[QN_MAX_SPATIAL], before[QN_MAX_SPATIAL];
	int64_t in_size, out_size, kernel_size; /* products of the above */
	qn_dtype type; /* QN_F32, QN_F64; QN_I32: operands are small integers held as f32, the result i32 */
	int x_max, w_max; /* for QN_I32: bounds of their magnitude */
} qn_conv;

/* Fills all but the type. */
qn_status qn_conv_plan(qn_call *c, const qn_tensor *x, const qn_tensor *w, const qn_tensor *y, qn_conv *v);
void qn_conv_run(qn_call *c, const qn_conv *v, const void *x, const void *w, void *y);

#endif
