/* _reduce_shape.c - axes, shapes and text of reductions. */
#include "graph/ops/_move.h"
#include "graph/ops/_reduce.h"

qn_status qn_reduce_axes(qn_call *c, bool *reduced)
{
	const int64_t *axes = NULL;
	int n, rank = c->in[0].shape.rank;
	QN_TRY(qn_call_ints_attr_or_in(c, "axes", 1, &axes, &n));
	bool all = n <= 0 && !qn_node_int(c->node, "noop_with_empty_axes", 0);
	for (int a = 0; a < rank; a++)
		reduced[a] = all;
	for (int i = 0; i < n; i++) {
		int axis;
		QN_TRY(qn_call_axis(c, axes[i], rank, &axis));
		if (reduced[axis])
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "axis %d is reduced twice", axis);
		reduced[axis] = true;
	}
	return QUERN_OK;
}

qn_status qn_reduce_infer(qn_call *c)
{
	bool reduced[QN_MAX_RANK], keep = qn_node_int(c->node, "keepdims", 1) != 0;
	const qn_shape *x = &c->in[0].shape;
	QN_TRY(qn_move_need_rank(c, 0));
	QN_TRY(qn_reduce_axes(c, reduced));
	qn_shape y = {.rank = 0};
	for (int a = 0; a < x->rank; a++) {
		if (!reduced[a])
			y.dim[y.rank++] = x->dim[a];
		else if (keep)
			y.dim[y.rank++] = qn_dim_const(1);
	}
	c->out[0] = (qn_fact){.type = c->in[0].type, .shape = y};
	return QUERN_OK;
}

qn_status qn_reduce_emit_axes(qn_emit *e, const char **axes)
{
	qn_call c = qn_move_call(e);
	bool reduced[QN_MAX_RANK];
	int64_t list[QN_MAX_RANK];
	int n = 0;
	QN_TRY(qn_reduce_axes(&c, reduced));
	for (int a = 0; a < c.in[0].shape.rank; a++)
		if (reduced[a])
			list[n++] = a;
	*axes = n ? qn_emit_ints(e, list, n) : NULL;
	return QUERN_OK;
}

qn_status qn_reduce_emit_done(qn_emit *e, const char *axes, const char *kept)
{
	bool squeeze = axes && !qn_node_int(e->node, "keepdims", 1);
	if (squeeze)
		qn_emit_output(e, 0, "squeeze(%s, axes=%s)", kept, axes);
	else
		qn_emit_output(e, 0, "%s", strchr(kept, '(') ? kept : qn_arena_printf(e->arena, "copy(%s)", kept));
	return QUERN_OK;
}

qn_status qn_reduce_emit(qn_emit *e, const char *verb)
{
	const char *axes, *x = qn_emit_ref(e, e->node->in[0]);
	QN_TRY(qn_reduce_emit_axes(e, &axes));
	return qn_reduce_emit_done(e, axes, axes ? qn_arena_printf(e->arena, "%s(%s, axes=%s)", verb, x, axes) : x);
}

qn_status qn_reduce_emit_extreme(qn_emit *e, const char *verb, const char *limit)
{
	const qn_value *v = e->node->in[0];
	const char *axes, *x = qn_emit_ref(e, e->node->in[0]);
	bool empty = false;
	QN_TRY(qn_reduce_emit_axes(e, &axes));
	if (!axes)
		return qn_reduce_emit_done(e, axes, x);
	for (int a = 0; a < v->fact.shape.rank; a++)
		empty |= qn_dim_is(v->fact.shape.dim[a], 0);
	x = qn_arena_printf(e->arena, "%s(%s, axes=%s)", verb, x, axes);
	if (empty && qn_dtype_is_float(v->fact.type))
		x = qn_arena_printf(e->arena, "add(%s, %s)", x, limit);
	return qn_reduce_emit_done(e, axes, x);
}
