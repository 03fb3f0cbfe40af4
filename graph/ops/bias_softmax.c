/* BiasSoftmax of com.microsoft: softmax(scores + bias). */
#include "graph/ops/_build.h"

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	QN_TRY(qn_build_need(b, 2));
	QN_TRY(qn_build_rank(b, 0, "data", 1, QN_MAX_RANK));
	int rank = n->in[0]->fact.shape.rank;
	int64_t axis = qn_node_int(n, "axis", 1);
	if (axis != rank - 1 && axis != -1)
		return qn_build_fail(b, QUERN_ERR_UNSUPPORTED,
			"attribute 'axis' = %lld takes more than the last of %d axes together, which is not "
			"supported",
			(long long)axis, rank);
	qn_build_give(b, 0, qn_build_softmax(b, "softmax", qn_build_op2(b, "Add", "biased", n->in[0], n->in[1])));
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_bias_softmax = {
	.name = "BiasSoftmax",
	.domain = "com.microsoft",
	.min_in = 2,
	.max_in = 2,
	.lower = lower,
};
