#include "graph/ops/_softmax.h"

QN_VECTOR static void subtract(const float *x, float *y, int64_t n, double by)
{
	QN_SIMD for (int64_t i = 0; i < n; i++) y[i] = (float)((double)x[i] - by);
}

/* y holds the exponentials until their sum is known */
static void row(const float *x, float *y, int64_t n, int64_t at)
{
	(void)at;
	float top = qn_row_max(x, n);
	double sum = qn_row_exp(x, y, n, top);
	subtract(x, y, n, (double)top + log(sum));
}

static void line(double *x, int64_t n, const void *user)
{
	double top = -INFINITY, sum = 0.0;
	(void)user;
	for (int64_t i = 0; i < n; i++)
		top = x[i] > top ? x[i] : top;
	for (int64_t i = 0; i < n; i++)
		sum += exp(x[i] - top);
	for (int64_t i = 0; i < n; i++)
		x[i] -= top + log(sum);
}

static qn_status eval(qn_call *c) { return qn_softmax_eval(c, row, line); }

static qn_status emit(qn_emit *e)
{
	const char *axes, *x = qn_emit_ref(e, e->node->in[0]);
	QN_TRY(qn_softmax_emit_axes(e, &axes));
	const char *low = qn_emit_temp(e, "centred", "sub(%s, max_reduce(%s, axes=%s))", x, x, axes);
	qn_emit_output(e, 0, "sub(%s, log(sum_reduce(exp(%s), axes=%s)))", low, low, axes);
	return QUERN_OK;
}

const qn_op qn_op_log_softmax = {
	.name = "LogSoftmax",
	.min_in = 1,
	.max_in = 1,
	.infer = qn_softmax_infer,
	.eval = eval,
	.emit = emit,
};
