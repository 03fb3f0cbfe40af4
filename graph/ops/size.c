/* size.c - the number of elements of a tensor, as an i64 scalar. */
#include "graph/ops/_move.h"

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	qn_dim n = qn_shape_count(c->dims, &c->in[0].shape);
	qn_tensor *t = qn_tensor_new(c->scratch, qn_dim_is_const(n) ? QN_I64 : QN_DIM, 0, NULL);
	if (t->type == QN_I64)
		*(int64_t *)(uintptr_t)t->data = n.k;
	else
		*(qn_dim *)(uintptr_t)t->data = n;
	c->out[0] = (qn_fact){QN_I64, {.rank = 0}, t};
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	qn_move_put(c, 0, 0, qn_tensor_count(c->x[0]));
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	qn_emit_output(e, 0, "tract_core_cast(%s, to='i64')", qn_emit_dim(e, qn_shape_count(e->graph->dims, &e->node->in[0]->fact.shape)));
	return QUERN_OK;
}

const qn_op qn_op_size = {
	.name = "Size", .min_in = 1, .max_in = 1, .traits = QN_SMALL, .dims_in = 1, .infer = infer, .eval = eval, .emit = emit};
