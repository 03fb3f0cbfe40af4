#include "graph/ops/_unary.h"

static bool is_inf(double v, const double *p) { return (p[0] != 0.0 && v == INFINITY) || (p[1] != 0.0 && v == -INFINITY); }

static qn_status eval(qn_call *c)
{
	const double p[] = {
		(double)qn_node_int(c->node, "detect_positive", 1),
		(double)qn_node_int(c->node, "detect_negative", 1),
	};
	return qn_unary_test(c, is_inf, p);
}

static qn_status emit(qn_emit *e)
{
	qn_value *v = e->node->in[0];
	if (v->fact.type == QN_F64 && v->producer && !v->is_const && v->producer->op == qn_op_find("", "Cast")) /* a float widened only for the test */
		v = v->producer->in[0];
	const char *x = qn_emit_ref(e, v);
	if (!qn_dtype_is_float(v->fact.type) || v->fact.type == QN_F64)
		return qn_emit_fail(e, "the engine has no test for infinity on f64");
	qn_emit_output(e, 0, "tract_core_is_inf(%s, detect_positive=%s, detect_negative=%s)", x,
		qn_node_int(e->node, "detect_positive", 1) ? "true" : "false", qn_node_int(e->node, "detect_negative", 1) ? "true" : "false");
	return QUERN_OK;
}

const qn_op qn_op_is_inf = {
	.name = "IsInf",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_ELEMENTWISE,
	.infer = qn_unary_test_infer,
	.eval = eval,
	.emit = emit,
};
