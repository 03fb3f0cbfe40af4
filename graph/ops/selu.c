#include "graph/ops/_unary.h"

QN_UNARY_FLOAT(p[1] * qn_select(x > 0.0f, x, p[0] * qn_expm1(x)), p[1] * (x > 0.0 ? x : p[0] * expm1(x)))

/* the defaults of the specification, as f32 */
#define ALPHA 1.67326319f
#define GAMMA 1.05070102f

static qn_status eval(qn_call *c)
{
	const double p[QN_UNARY_PARAMS] = {
		(double)qn_node_float(c->node, "alpha", ALPHA),
		(double)qn_node_float(c->node, "gamma", GAMMA),
	};
	return qn_unary_eval(c, &(qn_unary){.f32 = map_f32, .f64 = map_f64}, p);
}

static qn_status emit(qn_emit *e)
{
	const char *x = qn_emit_ref(e, e->node->in[0]);
	const char *alpha = qn_emit_float(e, (double)qn_node_float(e->node, "alpha", ALPHA));
	const char *gamma = qn_emit_float(e, (double)qn_node_float(e->node, "gamma", GAMMA));
	qn_emit_output(e, 0, "mul(select(gt(%s, 0.0), %s, mul(sub(exp(%s), 1.0), %s)), %s)", x, x, x, alpha, gamma);
	return QUERN_OK;
}

const qn_op qn_op_selu = {
	.name = "Selu",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_ELEMENTWISE,
	.infer = qn_infer_same,
	.eval = eval,
	.emit = emit,
};
