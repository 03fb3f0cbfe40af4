#include "graph/ops/_gelu.h"

QN_UNARY_FLOAT(qn_erf(x), erf(x))
QN_UNARY_ENGINE(qn_engine_erf(x))

static qn_status eval(qn_call *c)
{
	return qn_unary_eval(c, c->ctx->engine_math ? &as_engine : &(qn_unary){.f32 = map_f32, .f64 = map_f64}, NULL);
}

static qn_status emit(qn_emit *e)
{
	qn_emit_output(e, 0, "%s", qn_erf_emit(e, qn_emit_ref(e, e->node->in[0])));
	return QUERN_OK;
}

const qn_op qn_op_erf = {
	.name = "Erf",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_ELEMENTWISE,
	.infer = qn_infer_same,
	.eval = eval,
	.emit = emit,
};
