/* shape.c - the sizes of a tensor, or of a range of its axes, as i64. */
#include "graph/ops/_move.h"

static int64_t clamp_axis(int64_t a, int rank)
{
	if (a < 0)
		a += rank;
	return a < 0 ? 0 : a > rank ? rank : a;
}

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	const qn_shape *s = &c->in[0].shape;
	int64_t from = clamp_axis(qn_node_int(c->node, "start", 0), s->rank),
		to = clamp_axis(qn_node_int(c->node, "end", s->rank), s->rank);
	int64_t n = to > from ? to - from : 0;
	bool known = true;
	for (int64_t i = 0; i < n; i++)
		known &= qn_dim_is_const(s->dim[from + i]);
	qn_tensor *t = qn_tensor_new(c->scratch, known ? QN_I64 : QN_DIM, 1, &n);
	for (int64_t i = 0; i < n; i++) {
		if (known)
			((int64_t *)(uintptr_t)t->data)[i] = s->dim[from + i].k;
		else
			((qn_dim *)(uintptr_t)t->data)[i] = s->dim[from + i];
	}
	c->out[0] = (qn_fact){QN_I64, {1, {qn_dim_const(n)}}, t};
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	int rank = c->x[0]->rank;
	int64_t from = clamp_axis(qn_node_int(c->node, "start", 0), rank);
	for (int64_t i = 0; i < c->y[0].dim[0]; i++)
		qn_move_put(c, 0, i, c->x[0]->dim[from + i]);
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	int rank = e->node->in[0]->fact.shape.rank;
	int64_t from = clamp_axis(qn_node_int(e->node, "start", 0), rank), to = clamp_axis(qn_node_int(e->node, "end", rank), rank);
	const char *all = qn_arena_printf(e->arena, "tract_core_shape_of(%s)", qn_emit_ref(e, e->node->in[0]));
	if (from != 0 || to != rank)
		all = qn_move_emit_slice(e, all, 0, qn_dim_const(from), qn_dim_const(to > from ? to : from));
	qn_emit_output(e, 0, "tract_core_cast(%s, to='i64')", all);
	return QUERN_OK;
}

const qn_op qn_op_shape = {
	.name = "Shape", .min_in = 1, .max_in = 1, .traits = QN_SMALL, .dims_in = 1, .infer = infer, .eval = eval, .emit = emit};
