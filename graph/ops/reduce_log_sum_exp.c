#include "graph/ops/_reduce.h"

/* In two passes: the largest of each set, then the sum of exponentials below it. */
QN_FOLD(fold_max, double, v, (b > a) | (b != b) ? b : a)

static void fold_exp(const void *px, int64_t n, void *pacc, bool by_row, const double *shift)
{
	const double *x = px;
	double *acc = pacc;
	for (int64_t i = 0; i < n; i++)
		acc[by_row ? 0 : i] += exp(x[i] - shift[by_row ? 0 : i]);
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *y = &c->y[0];
	bool reduced[QN_MAX_RANK];
	qn_reduce_plan p;
	QN_TRY(qn_reduce_axes(c, reduced));
	qn_reduce_plan_make(&p, x, reduced);
	if (!qn_dtype_is_numeric(x->type))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "no reduction of elements of type %s", qn_dtype_name(x->type));
	double *top = QN_NEW(c->scratch, double, p.outputs + 1), *acc = QN_NEW(c->scratch, double, p.outputs + 1);
	qn_reduce_f64(c, &p, x, fold_max, -INFINITY, NULL, top);
	for (int64_t o = 0; o < p.outputs; o++)
		top[o] = isinf(top[o]) ? 0.0 : top[o];
	qn_reduce_f64(c, &p, x, fold_exp, 0.0, top, acc);
	for (int64_t o = 0; o < p.outputs; o++)
		acc[o] = log(acc[o]) + top[o];
	qn_span_store_f64(acc, (void *)(uintptr_t)y->data, y->type, 0, p.outputs);
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	const char *axes, *x = qn_emit_ref(e, e->node->in[0]);
	qn_dtype type = e->node->in[0]->fact.type;
	QN_TRY(qn_reduce_emit_axes(e, &axes));
	if (!axes)
		return qn_reduce_emit_done(e, axes, x);
	if (!qn_dtype_is_float(type))
		x = qn_emit_temp(e, "real", "tract_core_cast(%s, to='f32')", x);
	const char *top = qn_emit_temp(e, "top", "max_reduce(%s, axes=%s)", x, axes);
	x = qn_arena_printf(e->arena, "add(log(sum_reduce(exp(sub(%s, %s)), axes=%s)), %s)", x, top, axes, top);
	if (!qn_dtype_is_float(type))
		x = qn_arena_printf(e->arena, "tract_core_cast(%s, to='%s')", x, qn_emit_dtype(type));
	return qn_reduce_emit_done(e, axes, x);
}

const qn_op qn_op_reduce_log_sum_exp = {
	.name = "ReduceLogSumExp",
	.min_in = 1,
	.max_in = 2,
	.infer = qn_reduce_infer,
	.eval = eval,
	.emit = emit,
};
