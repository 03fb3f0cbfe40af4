/* expand.c - broadcasts to a shape; like any broadcast it may also keep axes where the target has 1. */
#include "graph/ops/_move.h"

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	const qn_dim *target = NULL;
	int n;
	QN_TRY(qn_call_dims(c, 1, &target, &n));
	if (n < 0)
		return qn_call_data_dependent(c, 1, "the target shape");
	if (n > QN_MAX_RANK)
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "the target has rank %d, more than %d", n, QN_MAX_RANK);
	qn_shape want = {.rank = n};
	for (int i = 0; i < n; i++) {
		int from = i - (n - c->in[0].shape.rank);
		want.dim[i] = qn_dim_is(target[i], -1) && from >= 0 ? c->in[0].shape.dim[from]
								    : target[i]; /* some exporters write -1 for "as it is" */
		if (qn_dim_is_const(want.dim[i]) && want.dim[i].k < 0)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the target has a size of %lld", (long long)want.dim[i].k);
	}
	c->out[0].type = c->in[0].type;
	return qn_call_broadcast(c, &c->in[0].shape, &want, &c->out[0].shape);
}

static qn_status eval(qn_call *c)
{
	int rank = c->y[0].rank;
	int64_t ss[QN_MAX_RANK], ds[QN_MAX_RANK];
	qn_broadcast_strides(c->x[0], rank, c->y[0].dim, ss);
	qn_move_strides(rank, c->y[0].dim, ds);
	qn_move_box(rank, c->y[0].dim, c->x[0]->data, ss, QN_OUT(c, 0, void), ds, qn_dtype_size(c->x[0]->type), c->threads);
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	const qn_shape *x = &e->node->in[0]->fact.shape, *y = &e->node->out[0]->fact.shape;
	if (qn_shape_equal(x, y))
		qn_move_emit_alias(e, 0, 0);
	else
		qn_emit_output(e, 0, "tract_core_broadcast(%s, shape=%s)", qn_emit_ranked(e, e->node->in[0], y->rank), qn_emit_shape(e, y));
	return QUERN_OK;
}

const qn_op qn_op_expand = {.name = "Expand",
	.since = 8,
	.min_in = 2,
	.max_in = 2,
	.traits = QN_LAYOUT | QN_SMALL,
	.dims_in = 1,
	.infer = infer,
	.eval = eval,
	.emit = emit};
