/* transpose.c - permutes axes. */
#include "graph/ops/_move.h"

static qn_status find_perm(qn_call *c, int rank, int *perm)
{
	const qn_attr *a = qn_node_attr(c->node, "perm");
	bool seen[QN_MAX_RANK] = {false};
	if (a && a->n != (size_t)rank)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "perm has %d items, the input has rank %d", (int)a->n, rank);
	for (int i = 0; i < rank; i++) {
		QN_TRY(qn_call_axis(c, a ? a->ints[i] : rank - 1 - i, rank, &perm[i]));
		if (seen[perm[i]])
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "perm names axis %d twice", perm[i]);
		seen[perm[i]] = true;
	}
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	int perm[QN_MAX_RANK], rank = c->in[0].shape.rank;
	QN_TRY(find_perm(c, rank, perm));
	c->out[0].type = c->in[0].type;
	c->out[0].shape.rank = rank;
	for (int i = 0; i < rank; i++)
		c->out[0].shape.dim[i] = c->in[0].shape.dim[perm[i]];
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0];
	int perm[QN_MAX_RANK];
	int64_t in[QN_MAX_RANK], ss[QN_MAX_RANK], ds[QN_MAX_RANK];
	QN_TRY(find_perm(c, x->rank, perm));
	qn_move_strides(x->rank, x->dim, in);
	qn_move_strides(x->rank, c->y[0].dim, ds);
	for (int i = 0; i < x->rank; i++)
		ss[i] = in[perm[i]];
	qn_move_box(x->rank, c->y[0].dim, x->data, ss, QN_OUT(c, 0, void), ds, qn_dtype_size(x->type), c->threads);
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	int perm[QN_MAX_RANK], rank = c.in[0].shape.rank;
	int64_t axes[QN_MAX_RANK];
	QN_TRY(find_perm(&c, rank, perm));
	bool same = true;
	for (int i = 0; i < rank; i++) {
		axes[i] = perm[i];
		same &= perm[i] == i;
	}
	if (same)
		qn_move_emit_alias(e, 0, 0);
	else
		qn_emit_output(e, 0, "transpose(%s, axes=%s)", qn_emit_ref(e, e->node->in[0]), qn_emit_ints(e, axes, rank));
	return QUERN_OK;
}

const qn_op qn_op_transpose = {.name = "Transpose",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_LAYOUT | QN_KEEPS_WEIGHT | QN_SMALL,
	.dims_in = 1,
	.infer = infer,
	.eval = eval,
	.emit = emit};
