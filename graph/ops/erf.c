#include "graph/ops/_gelu.h"

QN_UNARY_FLOAT(qn_erf(x), erf(x))

QN_VECTOR static void engine_f32(const float *in, float *out, int64_t n, const float *p)
{
	(void)p;
	QN_SIMD for (int64_t i = 0; i < n; i++) out[i] = qn_erf_engine(in[i]);
}

static qn_status eval(qn_call *c)
{
	return qn_unary_eval(c, &(qn_unary){.f32 = c->ctx->engine_math ? engine_f32 : map_f32, .f64 = map_f64}, NULL);
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
