/* gather_elements.c - y[i][j][k] = x[i][index[i][j][k]][k] for axis 1. */
#include "graph/ops/_move.h"

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	QN_TRY(qn_move_need_rank(c, 1));
	int axis;
	QN_TRY(qn_call_axis(c, qn_node_int(c->node, "axis", 0), c->in[0].shape.rank, &axis));
	if (c->in[0].shape.rank != c->in[1].shape.rank)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the data has rank %d, the indices have rank %d", c->in[0].shape.rank, c->in[1].shape.rank);
	for (int k = 0; k < c->in[0].shape.rank; k++)
		if (k != axis && qn_dim_lt(c->dims, c->in[0].shape.dim[k], c->in[1].shape.dim[k]) == QN_TRUE)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "axis %d: there are more indices than data", k);
	c->out[0].type = c->in[0].type;
	c->out[0].shape = c->in[1].shape;
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *i = c->x[1];
	int axis;
	const int64_t *index;
	QN_TRY(qn_call_axis(c, qn_node_int(c->node, "axis", 0), x->rank, &axis));
	QN_TRY(qn_move_indices(c, 1, x->dim[axis], &index));
	int64_t stride[QN_MAX_RANK], at[QN_MAX_RANK] = {0}, n = qn_tensor_count(i), base = 0;
	qn_move_strides(x->rank, x->dim, stride);
	size_t elem = qn_dtype_size(x->type);
	char *y = QN_OUT(c, 0, char);
	for (int64_t k = 0; k < n; k++) {
		memcpy(y + (size_t)k * elem, (const char *)x->data + (size_t)(base + index[k] * stride[axis]) * elem, elem);
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
	const char *i;
	QN_TRY(qn_call_axis(&c, qn_node_int(e->node, "axis", 0), c.in[0].shape.rank, &axis));
	const qn_tensor *t;
	QN_TRY(qn_move_const(e, 1, &t));
	if (t)
		QN_TRY(qn_move_emit_indices(e, 1, &c.in[0].shape.dim[axis], 1, &i));
	else
		i = qn_emit_ref(e, e->node->in[1]); /* negative indices are right in the engine */
	qn_emit_output(e, 0, "tract_core_gather_elements(%s, %s, axis=%d)", qn_emit_ref(e, e->node->in[0]), i, axis);
	return QUERN_OK;
}

const qn_op qn_op_gather_elements = {
	.name = "GatherElements", .min_in = 2, .max_in = 2, .traits = QN_SMALL, .dims_in = 1, .infer = infer, .eval = eval, .emit = emit};
