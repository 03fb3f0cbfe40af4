/* tile.c - repeats a tensor along its axes. */
#include "graph/ops/_move.h"

static qn_status find_repeats(qn_call *c, const qn_dim **repeats)
{
	int n, rank = c->in[0].shape.rank;
	QN_TRY(qn_call_dims(c, 1, repeats, &n));
	if (n < 0)
		return qn_call_data_dependent(c, 1, "the list of repeats");
	if (n != rank)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%d repeats for rank %d", n, rank);
	for (int i = 0; i < n; i++)
		if (qn_dim_is_const((*repeats)[i]) && (*repeats)[i].k < 0)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "axis %d is repeated %lld times", i, (long long)(*repeats)[i].k);
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	const qn_dim *repeats = NULL;
	QN_TRY(find_repeats(c, &repeats));
	c->out[0].type = c->in[0].type;
	c->out[0].shape.rank = c->in[0].shape.rank;
	for (int i = 0; i < c->in[0].shape.rank; i++)
		c->out[0].shape.dim[i] = qn_dim_mul(c->dims, c->in[0].shape.dim[i], repeats[i]);
	return QUERN_OK;
}

/* Every axis in two: which repetition, and where in it. */
static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0];
	int64_t in[QN_MAX_RANK], dim[QN_MOVE_RANK], ss[QN_MOVE_RANK], ds[QN_MOVE_RANK];
	qn_move_strides(x->rank, x->dim, in);
	if (qn_tensor_count(&c->y[0]) == 0)
		return QUERN_OK;
	for (int i = 0; i < x->rank; i++) {
		dim[2 * i] = c->y[0].dim[i] / x->dim[i];
		dim[2 * i + 1] = x->dim[i];
		ss[2 * i] = 0;
		ss[2 * i + 1] = in[i];
	}
	qn_move_strides(2 * x->rank, dim, ds);
	qn_move_box(2 * x->rank, dim, x->data, ss, QN_OUT(c, 0, void), ds, qn_dtype_size(x->type), c->threads);
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	const qn_dim *repeats = NULL;
	QN_TRY(find_repeats(&c, &repeats));
	bool same = true;
	qn_shape list = {.rank = c.in[0].shape.rank};
	for (int i = 0; i < list.rank; i++) {
		list.dim[i] = repeats[i];
		same &= qn_dim_is(repeats[i], 1);
	}
	if (same)
		qn_move_emit_alias(e, 0, 0);
	else
		qn_emit_output(e, 0, "tile(%s, repeats=%s)", qn_emit_ref(e, e->node->in[0]), qn_emit_shape(e, &list));
	return QUERN_OK;
}

const qn_op qn_op_tile = {.name = "Tile",
	.since = 6,
	.min_in = 2,
	.max_in = 2,
	.traits = QN_LAYOUT | QN_SMALL,
	.dims_in = 1,
	.infer = infer,
	.eval = eval,
	.emit = emit};
