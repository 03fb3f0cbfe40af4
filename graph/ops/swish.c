#include "graph/ops/_unary.h"

QN_UNARY_FLOAT(x * qn_sigmoid(p[0] * x), x / (1.0 + exp(-p[0] * x)))
QN_UNARY_ENGINE(p[0] == 1.0f ? qn_engine_silu(x) : x * qn_engine_sigmoid(x * p[0]))

static qn_status eval(qn_call *c)
{
	const double p[QN_UNARY_PARAMS] = {(double)qn_node_float(c->node, "alpha", 1.0f)};
	return qn_unary_eval(c, c->ctx->engine_math ? &as_engine : &(qn_unary){.f32 = map_f32, .f64 = map_f64}, p);
}

static qn_status emit(qn_emit *e)
{
	const char *x = qn_emit_ref(e, e->node->in[0]);
	double alpha = (double)qn_node_float(e->node, "alpha", 1.0f);
	if (alpha == 1.0 && e->target == QN_TARGET_TRACT)
		qn_emit_output(e, 0, "tract_core_silu(%s)", x);
	else
		qn_emit_output(e, 0, "mul(%s, sigmoid(mul(%s, %s)))", x, x, qn_emit_float(e, alpha));
	return QUERN_OK;
}

const qn_op qn_op_swish = {
	.name = "Swish",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_ELEMENTWISE,
	.infer = qn_infer_same,
	.eval = eval,
	.emit = emit,
};
