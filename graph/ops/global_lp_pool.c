#include "graph/ops/_pool.h"

static qn_status infer(qn_call *c)
{
	if (qn_node_int(c->node, "p", 2) < 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "p is %lld, it must be at least 1", (long long)qn_node_int(c->node, "p", 2));
	return qn_global_pool_infer(c);
}

static qn_status eval(qn_call *c)
{
	return qn_global_pool_eval(c, QN_POOL_LP);
}

static qn_status emit(qn_emit *e)
{
	int rank = e->node->in[0]->fact.shape.rank;
	const char *x = qn_emit_ranked(e, e->node->in[0], rank);
	int64_t p = qn_node_int(e->node, "p", 2);
	const char *power = qn_emit_temp(e, "power", p == 2 ? "square(%s)" : "pow(abs(%s), %lld.0)", x, (long long)p);
	const char *sum = qn_emit_temp(e, "sum", "sum_reduce(%s, axes=%s)", power, qn_spatial_axes(e, rank));
	if (p == 2)
		qn_emit_output(e, 0, "sqrt(%s)", sum);
	else
		qn_emit_output(e, 0, "pow(%s, %s)", sum, qn_emit_float(e, 1.0 / (double)p));
	return QUERN_OK;
}

const qn_op qn_op_global_lp_pool = {
	.name = "GlobalLpPool", .since = 2, .min_in = 1, .max_in = 1, .infer = infer, .eval = eval, .emit = emit};
