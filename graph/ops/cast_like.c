/* CastLike: Cast to the type of input 1, whose content plays no part. It stays only where facts come too late for lowering, as in a run
 * whose shapes depend on the data. */
#include "graph/ops/_build.h"
#include "graph/ops/_cast.h"

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_infer_same(c));
	c->out[0].type = c->in[1].type;
	return QUERN_OK;
}

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	qn_value *y = qn_build_cast(b, "cast", n->in[0], n->in[1]->fact.type);
	qn_cast_copy_rules(g, n, y->producer);
	qn_build_give(b, 0, y);
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_cast_like = {
	.name = "CastLike",
	.min_in = 2,
	.max_in = 2,
	.traits = QN_KEEPS_WEIGHT | QN_SMALL,
	.dims_in = 1,
	.infer = infer,
	.eval = qn_cast_eval,
	.lower = lower,
	.emit = qn_cast_emit,
};
