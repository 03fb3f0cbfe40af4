/* center_crop_pad.c - some axes cut or padded with zeros, evenly on both sides, to a given size; an odd element more or less is at the end.
 */
#include "graph/ops/_move.h"

static qn_status find_target(qn_call *c, qn_shape *y)
{
	QN_TRY(qn_move_need_rank(c, 0));
	const qn_attr *a = qn_node_attr(c->node, "axes");
	const qn_dim *d = NULL;
	int n;
	*y = c->in[0].shape;
	QN_TRY(qn_call_dims(c, 1, &d, &n));
	if (n < 0)
		return qn_call_data_dependent(c, 1, "the target size");
	if (n != (a ? (int)a->n : y->rank))
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%d sizes for %d axes", n, a ? (int)a->n : y->rank);
	for (int i = 0; i < n; i++) {
		int axis;
		QN_TRY(qn_call_axis(c, a ? a->ints[i] : i, y->rank, &axis));
		if (qn_dim_is_const(d[i]) && d[i].k < 0)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "axis %d has a target size of %lld", axis, (long long)d[i].k);
		y->dim[axis] = d[i];
	}
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	QN_TRY(find_target(c, &c->out[0].shape));
	c->out[0].type = c->in[0].type;
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *y = &c->y[0];
	size_t elem = qn_dtype_size(x->type);
	int64_t ss[QN_MAX_RANK], ds[QN_MAX_RANK], dim[QN_MAX_RANK], from = 0, to = 0;
	qn_move_strides(x->rank, x->dim, ss);
	qn_move_strides(x->rank, y->dim, ds);
	for (int i = 0; i < x->rank; i++) {
		int64_t more = y->dim[i] - x->dim[i];
		dim[i] = more < 0 ? y->dim[i] : x->dim[i];
		if (more < 0)
			from += -more / 2 * ss[i];
		else
			to += more / 2 * ds[i];
	}
	qn_move_box(x->rank, dim, (const char *)x->data + (size_t)from * elem, ss, QN_OUT(c, 0, char) + (size_t)to * elem, ds, elem,
		c->threads);
	return QUERN_OK;
}

static const char *pad_axis(qn_emit *e, const char *x, const qn_shape *now, int axis, qn_dim more)
{
	static const int64_t zero[2] = {0};
	qn_dims *t = e->graph->dims;
	qn_dim part[2] = {qn_dim_floordiv(t, more, qn_dim_const(2)), {0}};
	part[1] = qn_dim_sub(t, more, part[0]);
	const char *fill[2];
	for (int k = 0; k < 2; k++) {
		qn_shape s = *now;
		s.dim[axis] = part[k];
		fill[k] = qn_move_emit_full(e, "zero", e->node->in[0]->fact.type, zero, &s);
	}
	if (qn_dim_is(part[0], 0))
		return qn_emit_temp(e, "padded", "concat([%s, %s], axis=%d)", x, fill[1], axis);
	return qn_emit_temp(e, "padded", "concat([%s, %s, %s], axis=%d)", fill[0], x, fill[1], axis);
}

static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	qn_shape now = c.in[0].shape, want;
	const char *x = qn_emit_ref(e, e->node->in[0]);
	QN_TRY(find_target(&c, &want));
	for (int i = 0; i < now.rank; i++) {
		qn_dim more = qn_dim_sub(c.dims, want.dim[i], now.dim[i]), less = qn_dim_sub(c.dims, now.dim[i], want.dim[i]);
		if (qn_dim_is(more, 0))
			continue;
		qn_tristate cut = qn_dim_lt(c.dims, want.dim[i], now.dim[i]);
		if (cut == QN_UNDECIDED)
			return qn_emit_fail(e, "axis %d: whether %s is cut or padded to %s depends on the symbols; bind one with --set", i,
				qn_dim_text(e->arena, now.dim[i], NULL, NULL), qn_dim_text(e->arena, want.dim[i], NULL, NULL));
		if (cut == QN_TRUE) {
			qn_dim begin = qn_dim_floordiv(c.dims, less, qn_dim_const(2));
			x = qn_emit_temp(e, "cut", "%s", qn_move_emit_slice(e, x, i, begin, qn_dim_add(c.dims, begin, want.dim[i])));
		} else {
			x = pad_axis(e, x, &now, i, more);
		}
		now.dim[i] = want.dim[i];
	}
	qn_emit_output(e, 0, "%s", x);
	return QUERN_OK;
}

const qn_op qn_op_center_crop_pad = {
	.name = "CenterCropPad", .since = 18, .min_in = 2, .max_in = 2, .infer = infer, .eval = eval, .emit = emit};
