/* concat.c - puts tensors one behind the other along an axis. */
#include "graph/ops/_move.h"

static qn_status find_axis(qn_call *c, int rank, int *axis)
{
	const qn_attr *a = qn_node_attr(c->node, "axis");
	if (!a)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "there is no axis");
	return qn_call_axis(c, a->i, rank, axis);
}

static qn_status infer(qn_call *c)
{
	qn_shape *y = &c->out[0].shape;
	int axis = 0;
	for (int i = 0; i < c->node->n_in; i++) {
		const qn_shape *s = &c->in[i].shape;
		QN_TRY(qn_move_need_rank(c, i));
		if (i == 0) {
			QN_TRY(find_axis(c, s->rank, &axis));
			c->out[0].type = c->in[0].type;
			*y = *s;
			continue;
		}
		if (c->in[i].type != c->in[0].type)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "input %d is %s, input 0 is %s", i, qn_dtype_name(c->in[i].type),
				qn_dtype_name(c->in[0].type));
		if (s->rank != y->rank)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "input %d has rank %d, input 0 has rank %d", i, s->rank, y->rank);
		for (int k = 0; k < y->rank; k++) {
			if (k == axis) {
				y->dim[k] = qn_dim_add(c->dims, y->dim[k], s->dim[k]);
			} else {
				QN_TRY(qn_call_equate(c, y->dim[k], s->dim[k], "sizes beside the axis must agree"));
				y->dim[k] = qn_dim_resolve(c->dims, y->dim[k]);
			}
		}
	}
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	int rank = c->y[0].rank, axis;
	QN_TRY(find_axis(c, rank, &axis));
	size_t elem = qn_dtype_size(c->y[0].type);
	int64_t ss[QN_MAX_RANK], ds[QN_MAX_RANK], at = 0;
	qn_move_strides(rank, c->y[0].dim, ds);
	for (int i = 0; i < c->node->n_in; i++) {
		const qn_tensor *x = c->x[i];
		qn_move_strides(rank, x->dim, ss);
		qn_move_box(rank, x->dim, x->data, ss, QN_OUT(c, 0, char) + (size_t)(at * ds[axis]) * elem, ds, elem, c->threads);
		at += x->dim[axis];
	}
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	const qn_node *n = e->node;
	int axis, parts = 0, only = 0;
	QN_TRY(find_axis(&c, c.out[0].shape.rank, &axis));
	qn_text list = {.arena = e->arena};
	for (int i = 0; i < n->n_in; i++) {
		if (qn_dim_is(c.in[i].shape.dim[axis], 0))
			continue;
		qn_text_add(&list, "%s%s", parts++ ? ", " : "", qn_emit_ref(e, n->in[i]));
		only = i;
	}
	if (parts < 2)
		qn_move_emit_alias(e, 0, only);
	else
		qn_emit_output(e, 0, "concat([%s], axis=%d)", list.s, axis);
	return QUERN_OK;
}

const qn_op qn_op_concat = {
	.name = "Concat", .since = 4, .min_in = 1, .max_in = -1, .traits = QN_SMALL, .dims_in = 0xffffffffu,
	.infer = infer, .eval = eval, .emit = emit};
