#include "graph/ops/_pool.h"

static qn_status eval(qn_call *c)
{
	return qn_global_pool_eval(c, QN_POOL_MAX);
}

static qn_status emit(qn_emit *e)
{
	int rank = e->node->in[0]->fact.shape.rank;
	qn_emit_output(e, 0, "max_reduce(%s, axes=%s)", qn_emit_ranked(e, e->node->in[0], rank), qn_spatial_axes(e, rank));
	return QUERN_OK;
}

const qn_op qn_op_global_max_pool = {
	.name = "GlobalMaxPool", .min_in = 1, .max_in = 1, .infer = qn_global_pool_infer, .eval = eval, .emit = emit};
