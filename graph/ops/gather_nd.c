/* gather_nd.c - picks slices by index tuples, the last axis of the indices; leading batch_dims axes go along in both. */
#include "graph/ops/_move.h"

/* Length of the index tuples. */
static qn_status find_depth(qn_call *c, int *batch, int *depth)
{
	const qn_shape *x = &c->in[0].shape, *i = &c->in[1].shape;
	int64_t b = qn_node_int(c->node, "batch_dims", 0);
	if (i->rank < 1 || b < 0 || b >= i->rank || b > x->rank)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "batch_dims %lld does not fit ranks %d and %d", (long long)b, x->rank, i->rank);
	qn_dim d = i->dim[i->rank - 1];
	if (!qn_dim_is_const(d))
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the length of the index tuples is '%s', not a number; bind the symbol with --set",
			qn_dim_text(c->scratch, d, NULL, NULL));
	if (d.k < 1 || d.k > x->rank - b)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "index tuples of %lld do not fit data of rank %d", (long long)d.k, x->rank);
	*batch = (int)b;
	*depth = (int)d.k;
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	QN_TRY(qn_move_need_rank(c, 1));
	int batch = 0, depth = 0;
	QN_TRY(find_depth(c, &batch, &depth));
	const qn_shape *x = &c->in[0].shape, *i = &c->in[1].shape;
	qn_shape *y = &c->out[0].shape;
	int rank = i->rank - 1 + x->rank - batch - depth;
	if (rank > QN_MAX_RANK)
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "the result has rank %d, more than %d", rank, QN_MAX_RANK);
	for (int k = 0; k < batch; k++)
		QN_TRY(qn_call_equate(c, x->dim[k], i->dim[k], "batch axes must agree"));
	c->out[0].type = c->in[0].type;
	y->rank = 0;
	for (int k = 0; k < i->rank - 1; k++)
		y->dim[y->rank++] = i->dim[k];
	for (int k = batch + depth; k < x->rank; k++)
		y->dim[y->rank++] = x->dim[k];
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *i = c->x[1];
	int batch = 0, depth = 0;
	QN_TRY(find_depth(c, &batch, &depth));
	int64_t stride[QN_MAX_RANK], batches = 1, n = qn_tensor_count(i) / depth, run = 1;
	qn_move_strides(x->rank, x->dim, stride);
	for (int k = 0; k < batch; k++)
		batches *= x->dim[k];
	for (int k = batch + depth; k < x->rank; k++)
		run *= x->dim[k];
	const int64_t *index = qn_move_i64(c, 1);
	int64_t block = batch ? stride[batch - 1] : 0, each = batches ? n / batches : 0;
	size_t bytes = (size_t)run * qn_dtype_size(x->type);
	char *y = QN_OUT(c, 0, char);
	if (!bytes)
		return QUERN_OK;
	for (int64_t k = 0; k < n; k++) {
		int64_t at = batch ? k / each * block : 0;
		for (int d = 0; d < depth; d++) {
			int64_t v = index[k * depth + d], limit = x->dim[batch + d];
			if (!qn_move_wrap(&v, limit))
				QN_OP_FAIL(c, QUERN_ERR_SHAPE, "index %lld (tuple %lld of '%s') is out of range for a size of %lld",
					(long long)v, (long long)k, c->node->in[1]->name, (long long)limit);
			at += v * stride[batch + d];
		}
		memcpy(y + (size_t)k * bytes, (const char *)x->data + (size_t)at / (size_t)run * bytes, bytes);
	}
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	int batch = 0, depth = 0;
	const char *i;
	QN_TRY(find_depth(&c, &batch, &depth));
	QN_TRY(qn_move_emit_indices(e, 1, c.in[0].shape.dim + batch, depth, &i));
	qn_emit_output(e, 0, "tract_core_gather_nd(%s, %s, batch_dims=%d)", qn_emit_ref(e, e->node->in[0]), i, batch);
	return QUERN_OK;
}

const qn_op qn_op_gather_nd = {.name = "GatherND",
	.also = "com.microsoft:GatherND",
	.min_in = 2,
	.max_in = 2,
	.traits = QN_SMALL,
	.dims_in = 1,
	.infer = infer,
	.eval = eval,
	.emit = emit};
