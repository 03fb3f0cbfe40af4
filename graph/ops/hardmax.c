#include "graph/ops/_softmax.h"

static void line(double *x, int64_t n, const void *user)
{
	int64_t best = 0;
	(void)user;
	for (int64_t i = 1; i < n; i++)
		best = x[i] > x[best] ? i : best;
	for (int64_t i = 0; i < n; i++)
		x[i] = i == best;
}

static void row(const float *x, float *y, int64_t n, int64_t at)
{
	(void)at;
	int64_t best = 0;
	for (int64_t i = 1; i < n; i++)
		best = x[i] > x[best] ? i : best;
	for (int64_t i = 0; i < n; i++)
		y[i] = i == best ? 1.0f : 0.0f;
}

static qn_status eval(qn_call *c) { return qn_softmax_eval(c, row, line); }

/* Positions equal to that of the largest; several axes are made one around it. */
static qn_status emit(qn_emit *e)
{
	const char *axes, *x = qn_emit_ref(e, e->node->in[0]);
	const qn_shape *s = &e->node->in[0]->fact.shape;
	qn_dim n = qn_dim_const(1), lines = qn_dim_const(1);
	qn_call c = {.ctx = e->ctx, .node = e->node, .dims = e->graph->dims, .scratch = e->arena, .in = &e->node->in[0]->fact};
	int first, last;
	QN_TRY(qn_softmax_emit_axes(e, &axes));
	QN_TRY(qn_softmax_axes(&c, &first, &last));
	bool joined = last != first;
	for (int a = 0; a < s->rank; a++) {
		qn_dim *to = a >= first && a <= last ? &n : &lines;
		*to = qn_dim_mul(e->graph->dims, *to, s->dim[a]);
	}
	qn_shape flat = {.rank = 2, .dim = {lines, n}};
	int rank = joined ? 2 : s->rank, axis = joined ? 1 : first;
	int64_t others[QN_MAX_RANK], k = 0;
	for (int a = 0; a < rank; a++)
		if (a != axis)
			others[k++] = a;
	if (joined)
		x = qn_emit_temp(e, "lines", "reshape(%s, shape=%s)", x, qn_emit_shape(e, &flat));
	const char *steps = qn_emit_temp(e, "steps", "tract_core_cast(tract_core_range(0, %s, 1), to='f32')", qn_emit_dim(e, n));
	if (k)
		steps = qn_arena_printf(e->arena, "unsqueeze(%s, axes=%s)", steps, qn_emit_ints(e, others, (int)k));
	const char *best = qn_emit_temp(e, "best", "tract_core_cast(argmax_reduce(%s, axes=[%d]), to='f32')", x, axis);
	const char *hit = qn_emit_temp(e, "hit", "eq(sub(%s, %s), 0.0)", steps, best);
	const char *text = qn_arena_printf(e->arena, "tract_core_cast(%s, to='%s')", hit, qn_emit_dtype(e->node->out[0]->fact.type));
	if (joined)
		text = qn_arena_printf(e->arena, "reshape(%s, shape=%s)", text, qn_emit_shape(e, s));
	qn_emit_output(e, 0, "%s", text);
	return QUERN_OK;
}

const qn_op qn_op_hardmax = {
	.name = "Hardmax",
	.min_in = 1,
	.max_in = 1,
	.infer = qn_softmax_infer,
	.eval = eval,
	.emit = emit,
};
