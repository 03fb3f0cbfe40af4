/* compress.c - keeps the slices along an axis (without axis: the elements of the flattened input) whose condition is true. */
#include "graph/ops/_move.h"

static int64_t count_of(const qn_tensor *t, int64_t limit)
{
	int64_t n = qn_tensor_count(t), found = 0;
	for (int64_t i = 0; i < n && (limit < 0 || i < limit); i++)
		found += qn_tensor_get(t, i) != 0;
	return found;
}

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	const qn_attr *a = qn_node_attr(c->node, "axis");
	const qn_tensor *t = c->in[1].value;
	int axis = 0;
	qn_dim n;
	if (a)
		QN_TRY(qn_call_axis(c, a->i, c->in[0].shape.rank, &axis));
	qn_dim size = a ? c->in[0].shape.dim[axis] : qn_shape_count(c->dims, &c->in[0].shape);
	if (t && t->type != QN_DIM)
		n = qn_dim_const(count_of(t, qn_dim_is_const(size) ? size.k : -1));
	else
		n = qn_dim_symbol(c->dims, qn_arena_printf(c->scratch, "?elements of '%s' that are true", c->node->in[1]->name));
	c->out[0].type = c->in[0].type;
	c->out[0].shape = c->in[0].shape;
	if (a)
		c->out[0].shape.dim[axis] = n;
	else
		c->out[0].shape = (qn_shape){1, {n}};
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *keep = c->x[1];
	const qn_attr *a = qn_node_attr(c->node, "axis");
	int axis = 0;
	int64_t dim[QN_MAX_RANK] = {0}, outer = 1, inner = 1, size = qn_tensor_count(x);
	if (a) {
		QN_TRY(qn_call_axis(c, a->i, x->rank, &axis));
		size = x->dim[axis];
		for (int i = 0; i < x->rank; i++) {
			dim[i] = x->dim[i];
			outer *= i < axis ? x->dim[i] : 1;
			inner *= i > axis ? x->dim[i] : 1;
		}
	}
	dim[axis] = count_of(keep, size);
	qn_call_resize(c, 0, a ? x->rank : 1, dim);
	int64_t n = qn_tensor_count(keep) < size ? qn_tensor_count(keep) : size;
	size_t run = (size_t)inner * qn_dtype_size(x->type);
	char *y = QN_OUT(c, 0, char);
	for (int64_t o = 0; o < outer && run; o++)
		for (int64_t i = 0; i < n; i++) {
			if (qn_tensor_get(keep, i) == 0)
				continue;
			memcpy(y, (const char *)x->data + (size_t)(o * size + i) * run, run);
			y += run;
		}
	return QUERN_OK;
}

/* A constant condition is a gather of the positions that it keeps. */
static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	const qn_tensor *t;
	QN_TRY(qn_move_const(e, 1, &t));
	const qn_attr *a = qn_node_attr(e->node, "axis");
	int axis = 0;
	if (!t)
		return qn_emit_fail(
			e, "the condition '%s' is not constant, so the size of the result depends on the data", e->node->in[1]->name);
	if (a)
		QN_TRY(qn_call_axis(&c, a->i, c.in[0].shape.rank, &axis));
	qn_dim size = a ? c.in[0].shape.dim[axis] : qn_shape_count(c.dims, &c.in[0].shape);
	int64_t limit = qn_dim_is_const(size) ? size.k : -1, count = count_of(t, limit), n = qn_tensor_count(t);
	qn_tensor *index = qn_tensor_new(e->arena, QN_I64, 1, &count);
	for (int64_t i = 0, at = 0; i < n && (limit < 0 || i < limit); i++)
		if (qn_tensor_get(t, i) != 0)
			((int64_t *)(uintptr_t)index->data)[at++] = i;
	const char *x = qn_emit_ref(e, e->node->in[0]);
	if (!a && c.in[0].shape.rank != 1)
		x = qn_arena_printf(e->arena, "reshape(%s, shape=[%s])", x, qn_emit_dim(e, size));
	qn_emit_output(e, 0, "tract_core_gather(%s, %s, axis=%d)", x, qn_emit_constant(e, "kept", index), axis);
	return QUERN_OK;
}

const qn_op qn_op_compress = {
	.name = "Compress", .since = 9, .min_in = 2, .max_in = 2, .traits = QN_DYNAMIC_OUTPUT, .infer = infer, .eval = eval, .emit = emit};
