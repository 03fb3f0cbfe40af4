#include "graph/ops/_build.h"

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	QN_TRY(qn_build_rank(b, 0, "X", 1, QN_MAX_RANK));
	QN_TRY(qn_build_rank(b, 1, "W", 1, QN_MAX_RANK));
	qn_value *x = qn_build_op2(b, "MatMul", "product", n->in[0], n->in[1]);
	if (qn_build_in(b, 2))
		x = qn_build_op2(b, "Add", "biased", x, n->in[2]);
	x = qn_build_op1(b, "Gelu", "gelu", x);
	qn_node_set_string(g, x->producer, "approximate", "tanh");
	qn_build_give(b, 0, x);
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_gemm_fast_gelu = {
	.name = "GemmFastGelu",
	.domain = "com.microsoft",
	.min_in = 2,
	.max_in = 3,
	.lower = lower,
};
