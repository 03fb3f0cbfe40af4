#include "graph/ops/_move.h"
#include "graph/ops/_norm.h"

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	if (c->in[0].shape.rank < 3)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the input has rank %d: [N, C, ...] with an axis to normalize over is needed", c->in[0].shape.rank);
	for (int i = 1; i < 3; i++)
		QN_TRY(qn_norm_channels(c, i, c->in[0].shape.dim[1]));
	return qn_infer_same(c);
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0];
	qn_norm h = {.rows = x->dim[0] * x->dim[1], .n = 1, .scale = c->x[1], .bias = c->x[2], .entries = x->dim[1]};
	for (int a = 2; a < x->rank; a++)
		h.n *= x->dim[a];
	h.span = h.n;
	h.epsilon = (double)qn_node_float(c->node, "epsilon", 1e-5f);
	return qn_norm_rows(c, x, &c->y[0], &h);
}

static qn_status emit(qn_emit *e)
{
	int rank = e->node->in[0]->fact.shape.rank;
	int64_t axes[QN_MAX_RANK];
	for (int a = 2; a < rank; a++)
		axes[a - 2] = a;
	const char *x = qn_norm_emit_wide(e, qn_emit_ref(e, e->node->in[0]));
	const char *rows = qn_norm_emit_rows(e, x, qn_emit_ints(e, axes, rank - 2), (double)qn_node_float(e->node, "epsilon", 1e-5f));
	qn_emit_output(e, 0, "add(mul(%s, %s), %s)", qn_norm_emit_narrow(e, rows), qn_norm_channel_param(e, 1, rank),
		qn_norm_channel_param(e, 2, rank));
	return QUERN_OK;
}

const qn_op qn_op_instance_normalization = {
	.name = "InstanceNormalization",
	.since = 6,
	.min_in = 3,
	.max_in = 3,
	.infer = infer,
	.eval = eval,
	.emit = emit,
};
