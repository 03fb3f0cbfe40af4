/* unsqueeze.c - puts in axes of size 1. */
#include "graph/ops/_move.h"

/* insert[i]: axis i of the output is new. */
static qn_status find_axes(qn_call *c, bool *insert, int *rank)
{
	const int64_t *axes = NULL;
	int n;
	QN_TRY(qn_call_ints_attr_or_in(c, "axes", 1, &axes, &n));
	if (n < 0)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "there are no axes");
	*rank = c->in[0].shape.rank + n;
	if (*rank > QN_MAX_RANK)
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "the result has rank %d, more than %d", *rank, QN_MAX_RANK);
	for (int i = 0; i < n; i++) {
		int a;
		QN_TRY(qn_call_axis(c, axes[i], *rank, &a));
		if (insert[a])
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "axis %d is given twice", a);
		insert[a] = true;
	}
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	bool insert[QN_MAX_RANK] = {false};
	qn_shape *y = &c->out[0].shape;
	QN_TRY(find_axes(c, insert, &y->rank));
	c->out[0].type = c->in[0].type;
	for (int i = 0, from = 0; i < y->rank; i++)
		y->dim[i] = insert[i] ? qn_dim_const(1) : c->in[0].shape.dim[from++];
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	bool insert[QN_MAX_RANK] = {false};
	int rank, n = 0;
	QN_TRY(find_axes(&c, insert, &rank));
	int64_t axes[QN_MAX_RANK];
	for (int i = 0; i < rank; i++)
		if (insert[i])
			axes[n++] = i;
	if (n)
		qn_emit_output(e, 0, "unsqueeze(%s, axes=%s)", qn_emit_ref(e, e->node->in[0]), qn_emit_ints(e, axes, n));
	else
		qn_move_emit_alias(e, 0, 0);
	return QUERN_OK;
}

const qn_op qn_op_unsqueeze = {.name = "Unsqueeze",
	.also = "com.microsoft:ExpandDims",
	.min_in = 1,
	.max_in = 2,
	.traits = QN_LAYOUT | QN_KEEPS_WEIGHT | QN_SMALL,
	.dims_in = 1,
	.infer = infer,
	.eval = qn_move_copy_eval,
	.emit = emit};
