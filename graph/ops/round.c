#include "graph/ops/_unary.h"

QN_UNARY_FLOAT(rintf(x), rint(x))

/* An element known as a symbolic integer is whole already. */
static bool map_dim(qn_dims *t, qn_dim x, qn_dim *out)
{
	(void)t;
	*out = x;
	return true;
}

static qn_status eval(qn_call *c)
{
	return qn_unary_eval(c, &(qn_unary){.f32 = map_f32, .f64 = map_f64, .dim = map_dim}, NULL);
}

static qn_status emit(qn_emit *e) { return qn_unary_emit(e, "tract_core_round_even"); }

const qn_op qn_op_round = {
	.name = "Round",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_ELEMENTWISE,
	.dims_in = 1,
	.infer = qn_infer_same,
	.eval = eval,
	.emit = emit,
};
