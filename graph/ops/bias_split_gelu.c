/* BiasSplitGelu of com.microsoft: the left half of x + bias times the GELU of the right half. */
#include "graph/ops/_build.h"

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	QN_TRY(qn_build_need(b, 2));
	QN_TRY(qn_build_rank(b, 0, "X", 1, QN_MAX_RANK));
	const qn_shape *s = &n->in[0]->fact.shape;
	int64_t width;
	QN_TRY(qn_build_known(b, s->dim[s->rank - 1], "the last dimension of X", &width));
	if (width % 2)
		return qn_build_fail(b, QUERN_ERR_SHAPE, "the last dimension of X, %lld, is odd", (long long)width);
	const int64_t half[] = {width / 2, width / 2};
	qn_value *part[2];
	qn_build_split(b, "halves", qn_build_op2(b, "Add", "biased", n->in[0], n->in[1]), -1, half, 2, part);
	qn_build_give(b, 0, qn_build_op2(b, "Mul", "gated", part[0], qn_build_op1(b, "Gelu", "gelu", part[1])));
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_bias_split_gelu = {
	.name = "BiasSplitGelu",
	.domain = "com.microsoft",
	.min_in = 2,
	.max_in = 2,
	.lower = lower,
};
