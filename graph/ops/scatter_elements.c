/* scatter_elements.c - y = x; y[i][index[i][j][k]][k] = update[i][j][k] for axis 1, by assignment or a reduction. */
#include "graph/ops/_scatter.h"

static qn_status infer(qn_call *c)
{
	for (int i = 0; i < 3; i++)
		QN_TRY(qn_move_need_rank(c, i));
	const qn_shape *x = &c->in[0].shape, *i = &c->in[1].shape, *u = &c->in[2].shape;
	int axis;
	qn_scatter r;
	QN_TRY(qn_call_axis(c, qn_node_int(c->node, "axis", 0), x->rank, &axis));
	QN_TRY(qn_scatter_of(c, &r));
	if (i->rank != x->rank || u->rank != x->rank)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "data, indices and updates have ranks %d, %d and %d", x->rank, i->rank, u->rank);
	for (int k = 0; k < x->rank; k++) {
		QN_TRY(qn_call_equate(c, i->dim[k], u->dim[k], "indices and updates must have one shape"));
		if (k != axis && qn_dim_lt(c->dims, x->dim[k], i->dim[k]) == QN_TRUE)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "axis %d: there are more indices than data", k);
	}
	return qn_infer_same(c);
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *i = c->x[1];
	int axis;
	qn_scatter r;
	const int64_t *index;
	QN_TRY(qn_call_axis(c, qn_node_int(c->node, "axis", 0), x->rank, &axis));
	QN_TRY(qn_scatter_of(c, &r));
	QN_TRY(qn_move_indices(c, 1, x->dim[axis], &index));
	if (x->type == QN_DIM && r != QN_SCATTER_NONE) {
		c->undecided = true;
		return QUERN_OK;
	}
	int64_t stride[QN_MAX_RANK], at[QN_MAX_RANK] = {0}, n = qn_tensor_count(i), base = 0;
	qn_move_strides(x->rank, x->dim, stride);
	size_t elem = qn_dtype_size(x->type);
	char *y = QN_OUT(c, 0, char);
	qn_move_bytes(y, x->data, qn_tensor_bytes(x), c->threads);
	for (int64_t k = 0; k < n; k++) {
		qn_scatter_apply(
			r, x->type, y + (size_t)(base + index[k] * stride[axis]) * elem, (const char *)c->x[2]->data + (size_t)k * elem, 1);
		for (int d = x->rank - 1; d >= 0; d--) {
			int64_t step = d == axis ? 0 : stride[d];
			base += step;
			if (++at[d] < i->dim[d])
				break;
			base -= step * i->dim[d];
			at[d] = 0;
		}
	}
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	int axis;
	qn_scatter r;
	const char *i;
	QN_TRY(qn_call_axis(&c, qn_node_int(e->node, "axis", 0), c.in[0].shape.rank, &axis));
	QN_TRY(qn_scatter_of(&c, &r));
	const qn_tensor *t;
	QN_TRY(qn_move_const(e, 1, &t));
	if (t)
		QN_TRY(qn_move_emit_indices(e, 1, &c.in[0].shape.dim[axis], 1, &i));
	else
		i = qn_emit_ref(e, e->node->in[1]); /* negative indices are right in the engine */
	qn_emit_output(e, 0, "tract_core_scatter_elements(%s, %s, %s, axis=%d, reduction='%s')", qn_emit_ref(e, e->node->in[0]), i,
		qn_emit_ref(e, e->node->in[2]), axis, qn_scatter_name(r));
	return QUERN_OK;
}

const qn_op qn_op_scatter_elements = {
	.name = "ScatterElements", .also = ":Scatter", .min_in = 3, .max_in = 3, .dims_in = 5, .infer = infer, .eval = eval, .emit = emit};
