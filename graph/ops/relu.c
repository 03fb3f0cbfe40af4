#include "graph/ops/_unary.h"

QN_UNARY_FLOAT(x < 0.0f ? 0.0f : x, x < 0.0 ? 0.0 : x)
QN_UNARY_INT(!u && x < 0 ? 0 : x)

static bool map_dim(qn_dims *t, qn_dim x, qn_dim *out)
{
	*out = qn_dim_max(t, x, qn_dim_const(0));
	return true;
}

static qn_status eval(qn_call *c)
{
	return qn_unary_eval(c, &(qn_unary){.f32 = map_f32, .f64 = map_f64, .i64 = map_i64, .dim = map_dim}, NULL);
}

static qn_status emit(qn_emit *e)
{
	const char *x = qn_emit_ref(e, e->node->in[0]);
	qn_emit_output(e, 0, "max(%s, 0.0)", x);
	return QUERN_OK;
}

const qn_op qn_op_relu = {
	.name = "Relu",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_ELEMENTWISE | QN_HOMOGENEOUS,
	.dims_in = 1,
	.infer = qn_infer_same,
	.eval = eval,
	.emit = emit,
};
