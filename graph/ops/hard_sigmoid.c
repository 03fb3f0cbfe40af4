#include "graph/ops/_unary.h"

QN_UNARY_FLOAT(qn_clamp01(p[0] * x + p[1]), qn_clamp01_64(p[0] * x + p[1]))

static qn_status eval(qn_call *c)
{
	const double p[QN_UNARY_PARAMS] = {
		(double)qn_node_float(c->node, "alpha", 0.2f),
		(double)qn_node_float(c->node, "beta", 0.5f),
	};
	return qn_unary_eval(c, &(qn_unary){.f32 = map_f32, .f64 = map_f64}, p);
}

static qn_status emit(qn_emit *e)
{
	const char *x = qn_emit_ref(e, e->node->in[0]);
	qn_emit_output(e, 0, "max(0.0, min(1.0, add(mul(%s, %s), %s)))", x, qn_emit_float(e, (double)qn_node_float(e->node, "alpha", 0.2f)), qn_emit_float(e, (double)qn_node_float(e->node, "beta", 0.5f)));
	return QUERN_OK;
}

const qn_op qn_op_hard_sigmoid = {
	.name = "HardSigmoid",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_ELEMENTWISE,
	.infer = qn_infer_same,
	.eval = eval,
	.emit = emit,
};
