#include "graph/ops/_unary.h"

QN_UNARY_FLOAT(x / (1.0f + fabsf(x)), x / (1.0 + fabs(x)))

static qn_status eval(qn_call *c)
{
	return qn_unary_eval(c, &(qn_unary){.f32 = map_f32, .f64 = map_f64}, NULL);
}

static qn_status emit(qn_emit *e)
{
	const char *x = qn_emit_ref(e, e->node->in[0]);
	qn_emit_output(e, 0, "div(%s, add(1.0, abs(%s)))", x, x);
	return QUERN_OK;
}

const qn_op qn_op_softsign = {
	.name = "Softsign",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_ELEMENTWISE,
	.infer = qn_infer_same,
	.eval = eval,
	.emit = emit,
};
