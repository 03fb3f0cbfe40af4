/* FusedGemm and FusedConv of com.microsoft: Gemm or Conv with an activation, Conv with a further addend before it. */
#include "graph/ops/_build.h"

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	QN_TRY(qn_build_need(b, 2));
	bool conv = strcmp(n->op_type, "FusedConv") == 0;
	qn_value *x = qn_graph_apply(
		g, n, conv ? "Conv" : "Gemm", qn_arena_printf(g->arena, "%s/product", n->name), n->in, n->n_in < 3 ? n->n_in : 3);
	/* the activation's attributes ride along unread */
	x->producer->attrs = n->attrs;
	x->producer->n_attrs = n->n_attrs;
	if (qn_build_in(b, 3))
		x = qn_build_op2(b, "Add", "added", x, n->in[3]);
	QN_TRY(qn_build_activation(b, x, &x));
	qn_build_give(b, 0, x);
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_fused_gemm = {
	.name = "FusedGemm",
	.domain = "com.microsoft",
	.also = "com.microsoft:FusedConv",
	.min_in = 2,
	.max_in = 4,
	.lower = lower,
};
