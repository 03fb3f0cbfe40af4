#include "graph/ops/_unary.h"

QN_UNARY_FLOAT(sqrtf(x), sqrt(x))

static bool map_dim(qn_dims *t, qn_dim x, qn_dim *out)
{
	(void)t;
	int64_t root = qn_dim_is_const(x) && x.k >= 0 ? (int64_t)sqrt((double)x.k) : -1;
	*out = qn_dim_const(root);
	return root >= 0 && root * root == x.k;
}

static qn_status eval(qn_call *c)
{
	return qn_unary_eval(c, &(qn_unary){.f32 = map_f32, .f64 = map_f64, .dim = map_dim}, NULL);
}

static qn_status emit(qn_emit *e) { return qn_unary_emit(e, "sqrt"); }

const qn_op qn_op_sqrt = {
	.name = "Sqrt",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_ELEMENTWISE,
	.dims_in = 1,
	.infer = qn_infer_same,
	.eval = eval,
	.emit = emit,
};
