#include "graph/ops/_unary.h"

QN_UNARY_FLOAT(x != x ? x : (float)((x > 0.0f) - (x < 0.0f)), x != x ? x : (double)((x > 0.0) - (x < 0.0)))
QN_UNARY_INT(u ? x != 0 : (x > 0) - (x < 0))

static bool map_dim(qn_dims *t, qn_dim x, qn_dim *out)
{
	int64_t low, high;
	bool has_low = qn_dim_lower(t, x, &low), has_high = qn_dim_upper(t, x, &high);
	if (has_low && has_high && low == 0 && high == 0)
		*out = qn_dim_const(0);
	else if (has_low && low > 0)
		*out = qn_dim_const(1);
	else if (has_high && high < 0)
		*out = qn_dim_const(-1);
	else
		return false;
	return true;
}

static qn_status eval(qn_call *c)
{
	return qn_unary_eval(c, &(qn_unary){.f32 = map_f32, .f64 = map_f64, .i64 = map_i64, .dim = map_dim}, NULL);
}

static qn_status emit(qn_emit *e) { return qn_unary_emit(e, "sign"); }

const qn_op qn_op_sign = {
	.name = "Sign",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_ELEMENTWISE,
	.dims_in = 1,
	.infer = qn_infer_same,
	.eval = eval,
	.emit = emit,
};
