/* BiasAdd of com.microsoft: x + bias + skip. */
#include "graph/ops/_build.h"

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	QN_TRY(qn_build_need(b, 3));
	qn_build_give(b, 0, qn_build_op2(b, "Add", "added", qn_build_op2(b, "Add", "biased", n->in[0], n->in[1]), n->in[2]));
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_bias_add = {
	.name = "BiasAdd",
	.domain = "com.microsoft",
	.min_in = 3,
	.max_in = 3,
	.lower = lower,
};
