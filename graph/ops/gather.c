/* gather.c - picks slices along an axis by index. */
#include "graph/ops/_move.h"

/* One element of a range of symbolic length: start + index * step, counted from the end where the index is negative. */
static void know_element_of_range(qn_call *c)
{
	const qn_tensor *index = c->in[1].value, *v[3];
	const qn_node *n = c->node->in[0]->producer;
	while (n && (n->op->traits & QN_KEEPS_WEIGHT) && n->in[0]->fact.shape.rank == 1)
		n = n->in[0]->producer;
	if (!n || n->op != qn_op_find("", "Range") || !index || index->type == QN_DIM || qn_tensor_count(index) != 1 || index->rank > 1 ||
		c->in[0].shape.rank != 1 || qn_shape_is_const(&c->in[0].shape))
		return;
	qn_dim d[3];
	for (int i = 0; i < 3; i++) {
		v[i] = n->in[i]->fact.value;
		if (!v[i] || (v[i]->type != QN_DIM && qn_tensor_get(v[i], 0) != (double)qn_tensor_get_i64(v[i], 0)))
			return;
		d[i] = v[i]->type == QN_DIM ? *(const qn_dim *)v[i]->data : qn_dim_const(qn_tensor_get_i64(v[i], 0));
	}
	qn_dim at = qn_dim_const(qn_tensor_get_i64(index, 0));
	if (at.k < 0)
		at = qn_dim_add(c->dims, at, c->in[0].shape.dim[0]);
	qn_tensor *t = qn_tensor_new(c->scratch, QN_DIM, index->rank, index->dim);
	*(qn_dim *)(uintptr_t)t->data = qn_dim_add(c->dims, d[0], qn_dim_mul(c->dims, at, d[2]));
	c->out[0].value = t;
}

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	QN_TRY(qn_move_need_rank(c, 1));
	const qn_shape *x = &c->in[0].shape, *i = &c->in[1].shape;
	qn_shape *y = &c->out[0].shape;
	int axis;
	QN_TRY(qn_call_axis(c, qn_node_int(c->node, "axis", 0), x->rank, &axis));
	if (x->rank - 1 + i->rank > QN_MAX_RANK)
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "the result has rank %d, more than %d", x->rank - 1 + i->rank, QN_MAX_RANK);
	c->out[0].type = c->in[0].type;
	y->rank = 0;
	for (int k = 0; k < axis; k++)
		y->dim[y->rank++] = x->dim[k];
	for (int k = 0; k < i->rank; k++)
		y->dim[y->rank++] = i->dim[k];
	for (int k = axis + 1; k < x->rank; k++)
		y->dim[y->rank++] = x->dim[k];
	know_element_of_range(c);
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0];
	int axis;
	const int64_t *index;
	QN_TRY(qn_call_axis(c, qn_node_int(c->node, "axis", 0), x->rank, &axis));
	QN_TRY(qn_move_indices(c, 1, x->dim[axis], &index));
	int64_t n = qn_tensor_count(c->x[1]), outer = 1, inner = 1, size = x->dim[axis];
	for (int k = 0; k < axis; k++)
		outer *= x->dim[k];
	for (int k = axis + 1; k < x->rank; k++)
		inner *= x->dim[k];
	size_t run = (size_t)inner * qn_dtype_size(x->type);
	char *y = QN_OUT(c, 0, char);
	const char *from = x->data;
	int64_t total = outer * n;
	int threads = qn_move_threads(c->threads, run * (size_t)total);
	if (!run)
		return QUERN_OK;
#pragma omp parallel for num_threads(threads) if (threads > 1)
	for (int64_t k = 0; k < total; k++)
		memcpy(y + (size_t)k * run, from + (size_t)(k / n * size + index[k % n]) * run, run);
	return QUERN_OK;
}

/* A scalar index that is known, as a dim counted from the front. */
static bool known_scalar(qn_call *c, qn_dim size, qn_dim *at)
{
	const qn_tensor *t = c->in[1].value;
	if (!t || t->rank != 0)
		return false;
	*at = t->type == QN_DIM ? *(const qn_dim *)t->data : qn_dim_const(qn_tensor_get_i64(t, 0));
	int64_t low;
	if (!qn_dim_lower(c->dims, *at, &low) || low < 0)
		*at = qn_dim_is_const(*at) || !qn_dim_upper(c->dims, *at, &low) || low >= 0 ? *at : qn_dim_add(c->dims, *at, size);
	if (qn_dim_is_const(*at) && at->k < 0)
		*at = qn_dim_add(c->dims, *at, size);
	return true;
}

static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	int axis;
	QN_TRY(qn_call_axis(&c, qn_node_int(e->node, "axis", 0), c.in[0].shape.rank, &axis));
	qn_dim at, size = c.in[0].shape.dim[axis];
	const char *x = qn_emit_ref(e, e->node->in[0]), *i;
	if (known_scalar(&c, size, &at)) {
		if (qn_dim_is_const(at) && qn_dim_is_const(size) && (at.k < 0 || at.k >= size.k))
			return qn_emit_fail(e, "index %lld is out of range for a size of %lld", (long long)at.k, (long long)size.k);
		const char *part = x;
		if (!qn_dim_is(size, 1))
			part = qn_move_emit_slice(e, x, axis, at, qn_dim_add(c.dims, at, qn_dim_const(1)));
		qn_emit_output(e, 0, "squeeze(%s, axes=[%d])", part, axis);
		return QUERN_OK;
	}
	const qn_tensor *t;
	QN_TRY(qn_move_const(e, 1, &t));
	if (t)
		QN_TRY(qn_move_emit_indices(e, 1, &size, 1, &i));
	else
		i = qn_emit_ref(e, e->node->in[1]); /* the engine's gather counts negative indices from the end itself */
	qn_emit_output(e, 0, "tract_core_gather(%s, %s, axis=%d)", x, i, axis);
	return QUERN_OK;
}

const qn_op qn_op_gather = {
	.name = "Gather", .min_in = 2, .max_in = 2, .traits = QN_SMALL, .dims_in = 1, .infer = infer, .eval = eval, .emit = emit};
