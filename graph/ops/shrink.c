#include "graph/ops/_unary.h"

/* p: bias, lambd */
QN_UNARY_FLOAT(x < -p[1] ? x + p[0] : (x > p[1] ? x - p[0] : 0.0f), x < -p[1] ? x + p[0] : (x > p[1] ? x - p[0] : 0.0))
QN_UNARY_INT((double)x < -p[1] ? (int64_t)((double)x + p[0]) : ((double)x > p[1] ? (int64_t)((double)x - p[0]) : 0))

static qn_status eval(qn_call *c)
{
	const double p[QN_UNARY_PARAMS] = {(double)qn_node_float(c->node, "bias", 0.0f), (double)qn_node_float(c->node, "lambd", 0.5f)};
	return qn_unary_eval(c, &(qn_unary){.f32 = map_f32, .f64 = map_f64, .i64 = map_i64}, p);
}

static qn_status emit(qn_emit *e)
{
	const char *x = qn_emit_ref(e, e->node->in[0]);
	double lambd = (double)qn_node_float(e->node, "lambd", 0.5f);
	const char *bias = qn_emit_float(e, (double)qn_node_float(e->node, "bias", 0.0f));
	if (!qn_dtype_is_float(e->node->in[0]->fact.type))
		return qn_emit_fail(e, "no emission for integers");
	const char *inner = qn_emit_temp(e, "shrink", "select(gt(%s, %s), sub(%s, %s), sub(%s, %s))", x, qn_emit_float(e, lambd), x, bias, x, x);
	qn_emit_output(e, 0, "select(lt(%s, %s), add(%s, %s), %s)", x, qn_emit_float(e, -lambd), x, bias, inner);
	return QUERN_OK;
}

const qn_op qn_op_shrink = {
	.name = "Shrink",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_ELEMENTWISE,
	.infer = qn_infer_same,
	.eval = eval,
	.emit = emit,
};
