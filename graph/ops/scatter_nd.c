/* scatter_nd.c - y = x; y[tuple] = update for each index tuple, the last axis of the indices, by assignment or a reduction. */
#include "graph/ops/_scatter.h"

static qn_status find_depth(qn_call *c, int *depth)
{
	const qn_shape *x = &c->in[0].shape, *i = &c->in[1].shape;
	qn_dim d = i->rank > 0 ? i->dim[i->rank - 1] : qn_dim_const(0);
	if (!qn_dim_is_const(d))
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the length of the index tuples is '%s', not a number; bind the symbol with --set",
			qn_dim_text(c->scratch, d, NULL, NULL));
	if (d.k < 1 || d.k > x->rank)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "index tuples of %lld do not fit data of rank %d", (long long)d.k, x->rank);
	*depth = (int)d.k;
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	for (int i = 0; i < 3; i++)
		QN_TRY(qn_move_need_rank(c, i));
	const qn_shape *x = &c->in[0].shape, *i = &c->in[1].shape, *u = &c->in[2].shape;
	int depth;
	qn_scatter r;
	QN_TRY(find_depth(c, &depth));
	QN_TRY(qn_scatter_of(c, &r));
	int before = i->rank - 1;
	if (u->rank != before + x->rank - depth)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the updates have rank %d, not %d", u->rank, before + x->rank - depth);
	for (int k = 0; k < u->rank; k++)
		QN_TRY(qn_call_equate(
			c, u->dim[k], k < before ? i->dim[k] : x->dim[k - before + depth], "updates must fit indices and data"));
	return qn_infer_same(c);
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0];
	int depth;
	qn_scatter r;
	QN_TRY(find_depth(c, &depth));
	QN_TRY(qn_scatter_of(c, &r));
	if (x->type == QN_DIM && r != QN_SCATTER_NONE) {
		c->undecided = true;
		return QUERN_OK;
	}
	int64_t stride[QN_MAX_RANK], n = qn_tensor_count(c->x[1]) / depth, run = 1;
	qn_move_strides(x->rank, x->dim, stride);
	for (int k = depth; k < x->rank; k++)
		run *= x->dim[k];
	const int64_t *index = qn_move_i64(c, 1);
	size_t elem = qn_dtype_size(x->type);
	char *y = QN_OUT(c, 0, char);
	qn_move_bytes(y, x->data, qn_tensor_bytes(x), c->threads);
	for (int64_t k = 0; k < n && run; k++) {
		int64_t at = 0;
		for (int d = 0; d < depth; d++) {
			int64_t v = index[k * depth + d];
			if (!qn_move_wrap(&v, x->dim[d]))
				QN_OP_FAIL(c, QUERN_ERR_SHAPE, "index %lld (tuple %lld of '%s') is out of range for a size of %lld",
					(long long)v, (long long)k, c->node->in[1]->name, (long long)x->dim[d]);
			at += v * stride[d];
		}
		qn_scatter_apply(r, x->type, y + (size_t)at * elem, (const char *)c->x[2]->data + (size_t)(k * run) * elem, run);
	}
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	int depth;
	qn_scatter r;
	const char *i;
	QN_TRY(find_depth(&c, &depth));
	QN_TRY(qn_scatter_of(&c, &r));
	QN_TRY(qn_move_emit_indices(e, 1, c.in[0].shape.dim, depth, &i));
	qn_emit_output(e, 0, "tract_core_scatter_nd(%s, %s, %s, reduction='%s')", qn_emit_ref(e, e->node->in[0]), i,
		qn_emit_ref(e, e->node->in[2]), qn_scatter_name(r));
	return QUERN_OK;
}

const qn_op qn_op_scatter_nd = {.name = "ScatterND", .min_in = 3, .max_in = 3, .dims_in = 5, .infer = infer, .eval = eval, .emit = emit};
