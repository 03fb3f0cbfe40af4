/* one_hot.c - a new axis of length depth that holds the on value at the index and the off value elsewhere; an index outside
 * [-depth, depth) gives off values only. */
#include "graph/ops/_move.h"

static qn_status find_depth(qn_call *c, qn_dim *depth)
{
	const qn_tensor *t = c->in[1].value;
	if (!t)
		return qn_call_data_dependent(c, 1, "the depth");
	if (qn_tensor_count(t) != 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the depth is not a scalar");
	*depth = t->type == QN_DIM ? *(const qn_dim *)t->data : qn_dim_const(qn_tensor_get_i64(t, 0));
	if (qn_dim_is_const(*depth) && depth->k < 0)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the depth is %lld", (long long)depth->k);
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	const qn_shape *i = &c->in[0].shape;
	qn_shape *y = &c->out[0].shape;
	qn_dim depth;
	int axis;
	QN_TRY(find_depth(c, &depth));
	if (i->rank == QN_MAX_RANK)
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "the result has rank %d, more than %d", i->rank + 1, QN_MAX_RANK);
	QN_TRY(qn_call_axis(c, qn_node_int(c->node, "axis", -1), i->rank + 1, &axis));
	c->out[0].type = c->in[2].type;
	y->rank = i->rank + 1;
	for (int k = 0; k < y->rank; k++)
		y->dim[k] = k == axis ? depth : i->dim[k - (k > axis)];
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	int axis;
	if (qn_tensor_count(c->x[2]) != 2)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the values are %lld numbers, not the off and the on value",
			(long long)qn_tensor_count(c->x[2]));
	QN_TRY(qn_call_axis(c, qn_node_int(c->node, "axis", -1), c->y[0].rank, &axis));
	int64_t depth = c->y[0].dim[axis], inner = 1, n = qn_tensor_count(c->x[0]);
	for (int k = axis + 1; k < c->y[0].rank; k++)
		inner *= c->y[0].dim[k];
	size_t elem = qn_dtype_size(c->y[0].type);
	const char *values = c->x[2]->data;
	char *y = QN_OUT(c, 0, char);
	qn_move_fill(y, values, elem, qn_tensor_count(&c->y[0]));
	for (int64_t k = 0; k < n; k++) {
		double at = qn_tensor_get(c->x[0], k);
		int64_t i = at >= -9e15 && at <= 9e15 ? (int64_t)at : depth;
		if (qn_move_wrap(&i, depth))
			memcpy(y + (size_t)((k / inner * depth + i) * inner + k % inner) * elem, values + elem, elem);
	}
	return QUERN_OK;
}

/* A comparison with the positions: the engine's own one_hot ends the process on an index out of range. */
static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	qn_dim depth;
	int axis, rank = c.in[0].shape.rank;
	QN_TRY(find_depth(&c, &depth));
	QN_TRY(qn_call_axis(&c, qn_node_int(e->node, "axis", -1), rank + 1, &axis));
	const char *i = qn_emit_ref(e, e->node->in[0]);
	if (c.in[0].type != QN_I64)
		i = qn_emit_temp(e, "index", "tract_core_cast(%s, to='i64')", i);
	const char *size = qn_emit_temp(e, "depth", "tract_core_cast(%s, to='i64')", qn_emit_dim(e, depth));
	i = qn_emit_temp(e, "index", "unsqueeze(select(lt(%s, 0.0), %s + %s, %s), axes=[%d])", i, i, size, i, axis);
	const char *steps = qn_move_emit_steps(e, depth, axis, rank + 1);
	const char *values = qn_emit_ref(e, e->node->in[2]);
	int64_t axes[QN_MAX_RANK];
	for (int k = 0; k < rank; k++)
		axes[k] = k;
	const char *v[2];
	for (int k = 0; k < 2; k++) {
		v[k] = qn_move_emit_slice(e, values, 0, qn_dim_const(k), qn_dim_const(k + 1));
		if (rank)
			v[k] = qn_arena_printf(e->arena, "unsqueeze(%s, axes=%s)", v[k], qn_emit_ints(e, axes, rank));
	}
	qn_emit_output(e, 0, "select(eq(%s, %s), %s, %s)", i, steps, v[1], v[0]);
	return QUERN_OK;
}

const qn_op qn_op_one_hot = {.name = "OneHot", .since = 9, .min_in = 3, .max_in = 3, .infer = infer, .eval = eval, .emit = emit};
