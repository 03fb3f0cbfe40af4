#include "graph/ops/_engine.h"
#include "graph/ops/_softmax.h"

QN_VECTOR static void scale(float *y, int64_t n, float by)
{
	QN_SIMD for (int64_t i = 0; i < n; i++) y[i] *= by;
}

static void row(const float *x, float *y, int64_t n, int64_t at)
{
	(void)at;
	double sum = qn_row_exp(x, y, n, qn_row_max(x, n));
	scale(y, n, (float)(1.0 / sum));
}

static void line(double *x, int64_t n, const void *user)
{
	double top = -INFINITY, sum = 0.0;
	(void)user;
	for (int64_t i = 0; i < n; i++)
		top = x[i] > top ? x[i] : top;
	for (int64_t i = 0; i < n; i++)
		sum += x[i] = exp(x[i] - top);
	for (int64_t i = 0; i < n; i++)
		x[i] /= sum;
}

static qn_status eval(qn_call *c) { return qn_softmax_eval(c, c->ctx->engine_math ? qn_engine_softmax : row, line); }

static qn_status emit(qn_emit *e)
{
	const char *axes;
	QN_TRY(qn_softmax_emit_axes(e, &axes));
	qn_emit_output(e, 0, "softmax(%s, axes=%s)", qn_emit_ref(e, e->node->in[0]), axes);
	return QUERN_OK;
}

const qn_op qn_op_softmax = {
	.name = "Softmax", .hint = QN_HINT_SOFTMAX,
	.min_in = 1,
	.max_in = 1,
	.infer = qn_softmax_infer,
	.eval = eval,
	.emit = emit,
};
