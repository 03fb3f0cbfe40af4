#include "graph/ops/_unary.h"

QN_UNARY_FLOAT(fabsf(x), fabs(x))
QN_UNARY_INT(!u && x < 0 ? (int64_t)(0 - (uint64_t)x) : x)

static bool map_dim(qn_dims *t, qn_dim x, qn_dim *out)
{
	*out = qn_dim_max(t, x, qn_dim_sub(t, qn_dim_const(0), x));
	return true;
}

static qn_status eval(qn_call *c)
{
	return qn_unary_eval(c, &(qn_unary){.f32 = map_f32, .f64 = map_f64, .i64 = map_i64, .dim = map_dim}, NULL);
}

static qn_status emit(qn_emit *e) { return qn_unary_emit(e, "abs"); }

const qn_op qn_op_abs = {
	.name = "Abs",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_ELEMENTWISE | QN_HOMOGENEOUS,
	.dims_in = 1,
	.infer = qn_infer_same,
	.eval = eval,
	.emit = emit,
};
