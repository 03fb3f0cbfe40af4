/* _space.c - moving blocks between channels and rows and columns. */
#include "graph/ops/_space.h"

qn_status qn_space_block(qn_call *c, int64_t *block)
{
	QN_TRY(qn_move_need_rank(c, 0));
	*block = qn_node_int(c->node, "blocksize", 0);
	if (*block < 1 || *block > INT32_MAX)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "blocksize %lld is missing or out of range", (long long)*block);
	if (c->in[0].shape.rank != 4)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the input has rank %d, not 4", c->in[0].shape.rank);
	return QUERN_OK;
}

qn_status qn_space_divide(qn_call *c, qn_dim d, int64_t by, const char *what, qn_dim *out)
{
	if (qn_dim_exact_div(c->dims, d, qn_dim_const(by), out))
		return QUERN_OK;
	if (qn_dim_is_const(d))
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%s %lld is not a multiple of %lld", what, (long long)d.k, (long long)by);
	*out = qn_dim_floordiv(c->dims, d, qn_dim_const(by));
	return QUERN_OK;
}

qn_status qn_space_eval(qn_call *c, const qn_space *s)
{
	int64_t view[6], in[6], dim[6], ss[6], ds[6];
	for (int i = 0; i < 6; i++)
		view[i] = s->view.dim[i].k;
	qn_move_strides(6, view, in);
	for (int i = 0; i < 6; i++) {
		dim[i] = view[s->perm[i]];
		ss[i] = in[s->perm[i]];
	}
	qn_move_strides(6, dim, ds);
	qn_move_box(6, dim, c->x[0]->data, ss, QN_OUT(c, 0, void), ds, qn_dtype_size(c->x[0]->type), c->threads);
	return QUERN_OK;
}

qn_status qn_space_emit(qn_emit *e, const qn_space *s)
{
	QN_TRY(qn_move_emit_volume(e, &e->node->in[0]->fact.shape, &s->view));
	const char *view = qn_emit_temp(e, "view", "reshape(%s, shape=%s)", qn_emit_ref(e, e->node->in[0]), qn_emit_shape(e, &s->view));
	const char *turned = qn_emit_temp(e, "turned", "transpose(%s, axes=%s)", view, qn_emit_ints(e, s->perm, 6));
	qn_emit_output(e, 0, "reshape(%s, shape=%s)", turned, qn_emit_shape(e, &s->out));
	return QUERN_OK;
}
