/* squeeze.c - drops axes of size 1. Without axes, those whose size is known to be 1: a symbolic size stays. */
#include "graph/ops/_move.h"

static qn_status find_axes(qn_call *c, bool *drop)
{
	const qn_shape *s = &c->in[0].shape;
	const int64_t *axes = NULL;
	int n;
	QN_TRY(qn_call_ints_attr_or_in(c, "axes", 1, &axes, &n));
	for (int i = 0; n < 0 && i < s->rank; i++)
		drop[i] = qn_dim_is(s->dim[i], 1);
	for (int i = 0; i < n; i++) {
		int a;
		QN_TRY(qn_call_axis(c, axes[i], s->rank, &a));
		drop[a] = true;
	}
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	const qn_shape *s = &c->in[0].shape;
	bool drop[QN_MAX_RANK] = {false};
	QN_TRY(find_axes(c, drop));
	qn_shape *y = &c->out[0].shape;
	c->out[0].type = c->in[0].type;
	y->rank = 0;
	for (int i = 0; i < s->rank; i++) {
		if (!drop[i])
			y->dim[y->rank++] = s->dim[i];
		else
			QN_TRY(qn_call_equate(c, s->dim[i], qn_dim_const(1), "an axis to drop must have size 1"));
	}
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	bool drop[QN_MAX_RANK] = {false};
	QN_TRY(find_axes(&c, drop));
	int64_t axes[QN_MAX_RANK];
	int n = 0;
	for (int i = 0; i < c.in[0].shape.rank; i++)
		if (drop[i])
			axes[n++] = i;
	if (n)
		qn_emit_output(e, 0, "squeeze(%s, axes=%s)", qn_emit_ref(e, e->node->in[0]), qn_emit_ints(e, axes, n));
	else
		qn_move_emit_alias(e, 0, 0);
	return QUERN_OK;
}

const qn_op qn_op_squeeze = {.name = "Squeeze",
	.min_in = 1,
	.max_in = 2,
	.traits = QN_LAYOUT | QN_KEEPS_WEIGHT | QN_SMALL,
	.dims_in = 1,
	.infer = infer,
	.eval = qn_move_copy_eval,
	.emit = emit};
