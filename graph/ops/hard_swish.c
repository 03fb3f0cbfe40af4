#include "graph/ops/_unary.h"

QN_UNARY_FLOAT(x * qn_clamp01(x * (1.0f / 6.0f) + 0.5f), x * qn_clamp01_64(x / 6.0 + 0.5))

static qn_status eval(qn_call *c)
{
	return qn_unary_eval(c, &(qn_unary){.f32 = map_f32, .f64 = map_f64}, NULL);
}

static qn_status emit(qn_emit *e)
{
	const char *x = qn_emit_ref(e, e->node->in[0]);
	qn_emit_output(e, 0, "mul(%s, max(0.0, min(1.0, add(mul(%s, %s), 0.5))))", x, x, qn_emit_float(e, 1.0 / 6.0));
	return QUERN_OK;
}

const qn_op qn_op_hard_swish = {
	.name = "HardSwish",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_ELEMENTWISE,
	.infer = qn_infer_same,
	.eval = eval,
	.emit = emit,
};
