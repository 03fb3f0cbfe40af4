#include "graph/ops/_pool.h"

static qn_status infer(qn_call *c)
{
	if (qn_node_int(c->node, "p", 2) < 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "p is %lld, it must be at least 1", (long long)qn_node_int(c->node, "p", 2));
	return qn_pool_infer(c);
}

static qn_status eval(qn_call *c)
{
	return qn_pool_eval(c, QN_POOL_LP);
}

static qn_status emit(qn_emit *e)
{
	const qn_node *n = e->node;
	const char *window, *x = qn_emit_ranked(e, n->in[0], n->in[0]->fact.shape.rank);
	int64_t p = qn_node_int(n, "p", 2);
	QN_TRY(qn_pool_window(e, &window));
	const char *power = qn_emit_temp(e, "power", p == 2 ? "square(%s)" : "pow(abs(%s), %lld.0)", x, (long long)p);
	const char *sum = qn_emit_temp(e, "sum", "box(%s, %s, border='ignore', normalize=false)", power, window);
	if (p == 2)
		qn_emit_output(e, 0, "sqrt(%s)", sum);
	else
		qn_emit_output(e, 0, "pow(%s, %s)", sum, qn_emit_float(e, 1.0 / (double)p));
	return QUERN_OK;
}

const qn_op qn_op_lp_pool = {.name = "LpPool", .since = 2, .min_in = 1, .max_in = 1, .infer = infer, .eval = eval, .emit = emit};
