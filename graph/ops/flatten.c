/* flatten.c - two axes: the product of those before `axis`, and of the rest. */
#include "graph/ops/_move.h"

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	const qn_shape *s = &c->in[0].shape;
	int64_t axis = qn_node_int(c->node, "axis", 1);
	int at = s->rank;
	if (axis != s->rank)
		QN_TRY(qn_call_axis(c, axis, s->rank, &at));
	qn_dim before = qn_dim_const(1), after = qn_dim_const(1);
	for (int i = 0; i < at; i++)
		before = qn_dim_mul(c->dims, before, s->dim[i]);
	for (int i = at; i < s->rank; i++)
		after = qn_dim_mul(c->dims, after, s->dim[i]);
	c->out[0].type = c->in[0].type;
	c->out[0].shape = (qn_shape){2, {before, after}};
	return QUERN_OK;
}

const qn_op qn_op_flatten = {.name = "Flatten",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_LAYOUT | QN_KEEPS_WEIGHT | QN_SMALL,
	.dims_in = 1,
	.infer = infer,
	.eval = qn_move_copy_eval,
	.emit = qn_move_emit_reshape};
