/* split.c - cuts a tensor along an axis: into given sizes, equal parts, or num_outputs parts of which the last may be smaller. */
#include "graph/ops/_move.h"

static qn_status equal_sizes(qn_call *c, qn_dim total, int n, qn_dim *size)
{
	qn_dim parts = qn_dim_const(n), part;
	bool uneven = qn_node_attr(c->node, "num_outputs") != NULL;
	if (!qn_dim_exact_div(c->dims, total, parts, &part)) {
		if (!uneven && qn_dim_is_const(total))
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "a size of %lld cannot be split into %d equal parts", (long long)total.k, n);
		part = uneven ? qn_dim_ceildiv(c->dims, total, parts) : qn_dim_floordiv(c->dims, total, parts);
	}
	qn_dim rest = total;
	for (int i = 0; i < n; i++) {
		size[i] = part;
		if (uneven && qn_dim_is_const(rest) && qn_dim_is_const(part) && rest.k < part.k)
			size[i] = rest;
		else if (uneven && i == n - 1)
			size[i] = rest;
		rest = qn_dim_sub(c->dims, rest, size[i]);
	}
	return QUERN_OK;
}

/* The axis and the size of each part. */
static qn_status find_sizes(qn_call *c, int *axis, const qn_dim **size)
{
	const qn_shape *s = &c->in[0].shape;
	QN_TRY(qn_call_axis(c, qn_node_int(c->node, "axis", 0), s->rank, axis));
	int n = c->node->n_out, count = -1;
	const qn_dim *given = NULL;
	const qn_attr *a = qn_node_attr(c->node, "split");
	qn_dim *out = QN_NEW(c->scratch, qn_dim, n + 1), total = qn_dim_const(0);
	*size = out;
	if (qn_call_has(c, 1)) {
		QN_TRY(qn_call_dims(c, 1, &given, &count));
		if (count < 0)
			return qn_call_data_dependent(c, 1, "the list of sizes");
	} else if (a) {
		count = (int)a->n;
	} else {
		return equal_sizes(c, s->dim[*axis], n, out);
	}
	if (count != n)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%d sizes for %d outputs", count, n);
	for (int i = 0; i < n; i++) {
		out[i] = given ? given[i] : qn_dim_const(a->ints[i]);
		if (qn_dim_is_const(out[i]) && out[i].k < 0)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "part %d has a size of %lld", i, (long long)out[i].k);
		total = qn_dim_add(c->dims, total, out[i]);
	}
	return qn_call_equate(c, total, s->dim[*axis], "the parts must add up to the size of the axis");
}

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	int axis;
	const qn_dim *size;
	QN_TRY(find_sizes(c, &axis, &size));
	for (int i = 0; i < c->node->n_out; i++) {
		c->out[i].type = c->in[0].type;
		c->out[i].shape = c->in[0].shape;
		c->out[i].shape.dim[axis] = size[i];
		qn_move_know_empty(c, i);
	}
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0];
	const qn_dim *size;
	int axis;
	QN_TRY(find_sizes(c, &axis, &size));
	int64_t ss[QN_MAX_RANK], ds[QN_MAX_RANK], at = 0;
	size_t elem = qn_dtype_size(x->type);
	qn_move_strides(x->rank, x->dim, ss);
	for (int i = 0; i < c->node->n_out; i++) {
		const qn_tensor *y = &c->y[i];
		if (qn_call_wants(c, i)) {
			qn_move_strides(y->rank, y->dim, ds);
			qn_move_box(y->rank, y->dim, (const char *)x->data + (size_t)(at * ss[axis]) * elem, ss, QN_OUT(c, i, void), ds,
				elem, c->threads);
		}
		at += size[i].k;
	}
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	int axis;
	const qn_dim *size;
	QN_TRY(find_sizes(&c, &axis, &size));
	qn_dim at = qn_dim_const(0);
	const char *x = qn_emit_ref(e, e->node->in[0]);
	for (int i = 0; i < e->node->n_out; i++) {
		qn_dim end = qn_dim_add(c.dims, at, size[i]);
		const qn_value *v = e->node->out[i];
		if (v && (v->n_uses || v->is_output))
			qn_emit_output(e, i, "%s", qn_move_emit_slice(e, x, axis, at, end));
		at = end;
	}
	return QUERN_OK;
}

const qn_op qn_op_split = {
	.name = "Split", .min_in = 1, .max_in = 2, .max_out = -1, .traits = QN_SMALL, .dims_in = 1,
	.infer = infer, .eval = eval, .emit = emit};
