#include "graph/ops/_unary.h"

QN_UNARY_FLOAT(x * qn_select(x < 0.0f, p[0], 1.0f), x < 0.0 ? p[0] * x : x)

static qn_status eval(qn_call *c)
{
	const double p[QN_UNARY_PARAMS] = {(double)qn_node_float(c->node, "alpha", 0.01f)};
	return qn_unary_eval(c, &(qn_unary){.f32 = map_f32, .f64 = map_f64}, p);
}

static qn_status emit(qn_emit *e)
{
	const char *x = qn_emit_ref(e, e->node->in[0]);
	qn_emit_output(e, 0, "select(lt(%s, 0.0), mul(%s, %s), %s)", x, x, qn_emit_float(e, (double)qn_node_float(e->node, "alpha", 0.01f)), x);
	return QUERN_OK;
}

const qn_op qn_op_leaky_relu = {
	.name = "LeakyRelu",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_ELEMENTWISE | QN_HOMOGENEOUS,
	.infer = qn_infer_same,
	.eval = eval,
	.emit = emit,
};
