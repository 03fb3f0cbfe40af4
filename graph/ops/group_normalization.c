#include "graph/ops/_move.h"
#include "graph/ops/_norm.h"

/* Scale and bias have a number for each group in opsets 18 to 20, for each channel from 21 on. */
static bool by_group(const qn_node *n) { return n->opset < 21; }

static qn_status infer(qn_call *c)
{
	const qn_shape *x = &c->in[0].shape;
	int64_t groups = qn_node_int(c->node, "num_groups", 0);
	QN_TRY(qn_move_need_rank(c, 0));
	if (x->rank < 3)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the input has rank %d: [N, C, ...] is needed", x->rank);
	if (groups < 1 || (qn_dim_is_const(x->dim[1]) && x->dim[1].k % groups))
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "num_groups is %lld, which does not divide the channels", (long long)groups);
	for (int i = 1; i < 3; i++)
		QN_TRY(qn_norm_channels(c, i, by_group(c->node) ? qn_dim_const(groups) : x->dim[1]));
	return qn_infer_same(c);
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0];
	int64_t groups = qn_node_int(c->node, "num_groups", 1), space = 1;
	for (int a = 2; a < x->rank; a++)
		space *= x->dim[a];
	qn_norm h = {.rows = x->dim[0] * groups, .n = x->dim[1] / groups * space, .scale = c->x[1], .bias = c->x[2]};
	h.entries = by_group(c->node) ? groups : x->dim[1];
	h.span = by_group(c->node) ? h.n : space;
	h.epsilon = (double)qn_node_float(c->node, "epsilon", 1e-5f);
	return qn_norm_rows(c, x, &c->y[0], &h);
}

static qn_status emit(qn_emit *e)
{
	const qn_shape *s = &e->node->in[0]->fact.shape;
	qn_dims *dims = e->graph->dims;
	int64_t groups = qn_node_int(e->node, "num_groups", 1);
	qn_dim rest = qn_dim_floordiv(dims, s->dim[1], qn_dim_const(groups));
	for (int a = 2; a < s->rank; a++)
		rest = qn_dim_mul(dims, rest, s->dim[a]);
	qn_shape rows = {.rank = 3, .dim = {s->dim[0], qn_dim_const(groups), rest}};
	const char *x = qn_norm_emit_wide(e, qn_emit_ref(e, e->node->in[0]));
	x = qn_emit_temp(e, "groups", "reshape(%s, shape=%s)", x, qn_emit_shape(e, &rows));
	const char *y = qn_norm_emit_narrow(e, qn_norm_emit_rows(e, x, "[2]", (double)qn_node_float(e->node, "epsilon", 1e-5f)));
	if (by_group(e->node))
		y = qn_arena_printf(e->arena, "add(mul(%s, %s), %s)", y, qn_norm_channel_param(e, 1, 3), qn_norm_channel_param(e, 2, 3));
	y = qn_arena_printf(e->arena, "reshape(%s, shape=%s)", y, qn_emit_shape(e, s));
	if (!by_group(e->node))
		y = qn_arena_printf(e->arena, "add(mul(%s, %s), %s)", y, qn_norm_channel_param(e, 1, s->rank), qn_norm_channel_param(e, 2, s->rank));
	qn_emit_output(e, 0, "%s", y);
	return QUERN_OK;
}

const qn_op qn_op_group_normalization = {
	.name = "GroupNormalization",
	.since = 18,
	.min_in = 3,
	.max_in = 3,
	.infer = infer,
	.eval = eval,
	.emit = emit,
};
