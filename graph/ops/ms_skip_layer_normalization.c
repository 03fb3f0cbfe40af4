/* SkipLayerNormalization of com.microsoft: the norm of input + skip (+ bias). */
#include "graph/ops/_build.h"

static const qn_limit limits[] = {
	{QN_LIMIT_OUTPUT, "mean", 1, 0},
	{QN_LIMIT_OUTPUT, "inv_std_var", 2, 0},
};

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	QN_TRY(qn_build_refuse(b, limits, QN_LEN(limits)));
	for (int i = 0; i < 3; i++)
		QN_TRY(qn_build_rank(b, i, (const char *const[]){"input", "skip", "gamma"}[i], 1, i == 2 ? 1 : 3));
	qn_value *x = qn_build_op2(b, "Add", "sum", n->in[0], n->in[1]);
	if (qn_build_in(b, 4))
		x = qn_build_op2(b, "Add", "sum.biased", x, n->in[4]);
	qn_build_give(b, 0, qn_build_norm(b, "norm", x, n->in[2], qn_build_in(b, 3), false, qn_node_float(n, "epsilon", 1e-12f)));
	qn_build_give(b, 3, x);
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_ms_skip_layer_normalization = {
	.name = "SkipLayerNormalization",
	.domain = "com.microsoft",
	.min_in = 3,
	.max_in = 5,
	.max_out = 4,
	.lower = lower,
};
