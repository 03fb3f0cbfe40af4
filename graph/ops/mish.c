#include "graph/ops/_unary.h"

/* tanh(log(1 + e^x)) = n / (n + 2) with n = e^x (e^x + 2); past 20 it is 1 */
static inline float mish(float x)
{
	float e = qn_exp(qn_select(x > 20.0f, 20.0f, x)), n = e * (e + 2.0f);
	return x * (n / (n + 2.0f));
}

QN_UNARY_FLOAT(mish(x), x * tanh(log1p(exp(-fabs(x))) + (x < 0.0 ? 0.0 : x)))

static qn_status eval(qn_call *c)
{
	return qn_unary_eval(c, &(qn_unary){.f32 = map_f32, .f64 = map_f64}, NULL);
}

static qn_status emit(qn_emit *e)
{
	const char *x = qn_emit_ref(e, e->node->in[0]);
	qn_emit_output(e, 0, "mul(%s, tanh(add(max(%s, 0.0), log(add(1.0, exp(neg(abs(%s))))))))", x, x, x);
	return QUERN_OK;
}

const qn_op qn_op_mish = {
	.name = "Mish",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_ELEMENTWISE,
	.infer = qn_infer_same,
	.eval = eval,
	.emit = emit,
};
