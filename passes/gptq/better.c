/* better.c - whether a layer that was rounded by its samples is better than rounded plainly. */
#include "graph/ops/_gemm.h"
#include "passes/gptq/candidate.h"

/* By how much plain rounding's error on the layer's own inputs is above q's, over every step-th row. */
typedef struct gain {
	double sum, squares;
	int64_t rows;
} gain;

static qn_status measure_gain(qn_gptq_shared *h, const qn_gptq_target *t, const float *q, int64_t step, gain *out)
{
	const qn_layer *l = t->l;
	int64_t rows = (l->n + step - 1) / step, k = l->k;
	qn_arena a;
	qn_arena_init(&a, h->g->ctx);
	qn_layer part = *l;
	part.n = rows;
	float *w = QN_NEW(&a, float, rows *k), *mine = QN_NEW(&a, float, rows *k);
	double *exc = t->exc ? QN_NEW(&a, double, rows *k) : NULL, *won = QN_NEW(&a, double, rows), *before = QN_NEW(&a, double, rows);
	for (int64_t r = 0; r < rows; r++) {
		memcpy(w + r * k, t->w + r * step * k, (size_t)k * sizeof *w);
		memcpy(mine + r * k, q + r * step * k, (size_t)k * sizeof *w);
		if (exc)
			memcpy(exc + r * k, t->exc + r * step * k, (size_t)k * sizeof *exc);
	}
	qn_rounded plain = qn_rounded_new(&part, &a, &a);
	qn_status status = qn_round_plainly(h->g->ctx, &part, w, &plain);
	qn_metric_loss(h->g->ctx, &a, &h->metric, w, mine, exc, rows, won);
	qn_metric_loss(h->g->ctx, &a, &h->metric, w, plain.q, exc, rows, before);
	*out = (gain){.rows = rows};
	for (int64_t r = 0; r < rows; r++) {
		out->sum += before[r] - won[r];
		out->squares += (before[r] - won[r]) * (before[r] - won[r]);
	}
	qn_arena_release(&a);
	return status;
}

/* A sample of the rows decides where it leaves no doubt, else all rows. */
static qn_status is_better(qn_gptq_shared *h, const qn_gptq_target *t, const float *q, bool *better)
{
	enum { SAMPLE = 96, DEVIATIONS = 4 };
	gain g;
	int64_t step = t->l->n / SAMPLE > 1 ? t->l->n / SAMPLE : 1;
	QN_TRY(measure_gain(h, t, q, step, &g));
	double spread = g.squares - g.sum * g.sum / (double)g.rows;
	if (step > 1 && !(g.sum > 0 && g.sum * g.sum > DEVIATIONS * DEVIATIONS * spread))
		QN_TRY(measure_gain(h, t, q, 1, &g));
	*better = g.sum >= 0;
	return QUERN_OK;
}

/* --- row by row ------------------------------------------------------------------------------------------------------------------ */
/* What the layer's result is added to, or the result alone, for rows of the samples: with float weights, and how far off it is with others. */
typedef struct rows_of {
	qn_gptq_shared *h;
	const qn_gptq_target *t;
	int64_t from, n;
	float *x, *stream, *exact; /* [n, k] inputs, [n, out], [n, out] */
} rows_of;

static void result(const rows_of *r, bool rounded, const float *w, const float *bias, float *y)
{
	const qn_rows *in = rounded ? &r->h->rounded : &r->h->exact, *stream = rounded ? &r->t->rounded : &r->t->exact;
	int64_t k = in->width, out = r->t->l->n;
	qn_rows_copy(in, r->from, r->n, NULL, r->x);
	qn_gemm g = {.type = QN_F32, .tb = true, .m = r->n, .n = out, .k = k, .lda = k, .ldb = k, .ldc = out, .batch = 1};
	qn_gemm_run(&g, r->h->g->ctx->threads, r->x, w, y);
	if (stream->rows)
		qn_rows_copy(stream, r->from, r->n, NULL, r->stream);
	for (int64_t i = 0; i < r->n * out; i++)
		y[i] += (stream->rows ? r->stream[i] : 0) + (bias ? bias[i % out] : 0);
}

/* Sum over the rows of their error relative to themselves; a row that is lost is lost, by however much. */
static double relative_error(const rows_of *r, const float *y)
{
	double sum = 0;
	int64_t out = r->t->l->n;
	for (int64_t i = 0; i < r->n; i++) {
		double noise = 0, signal = 0;
		for (int64_t j = i * out; j < (i + 1) * out; j++) {
			double d = (double)y[j] - (double)r->exact[j];
			noise += d * d;
			signal += (double)r->exact[j] * (double)r->exact[j];
		}
		sum += noise < signal ? noise / signal : noise > 0;
	}
	return sum;
}

/* Moments count a row as much as it is large, and a mean is for all rows alike. Where few rows are very large, a norm behind the layer makes
 * the others as large as these, and what was given away on them counts. */
static qn_status is_worse_by_row(qn_gptq_shared *h, const qn_gptq_target *t, const float *q, const float *bias, bool *worse)
{
	enum { SLICES = 8, SLICE = 32 };
	const qn_layer *l = t->l;
	qn_arena a;
	qn_arena_init(&a, h->g->ctx);
	qn_rounded plain = qn_rounded_new(l, &a, &a);
	qn_status status = qn_round_plainly(h->g->ctx, l, t->w, &plain);
	float *y = QN_NEW(&a, float, SLICE *l->n);
	rows_of r = {.h = h, .t = t, .x = QN_NEW(&a, float, SLICE *l->k), .stream = QN_NEW(&a, float, SLICE *l->n), .exact = QN_NEW(&a, float, SLICE *l->n)};
	double mine = 0, before = 0;
	for (int64_t i = 0, rows = h->exact.rows; i < SLICES && status == QUERN_OK; i++) {
		r.from = i * rows / SLICES;
		r.n = rows / SLICES < SLICE ? rows / SLICES : SLICE;
		result(&r, false, t->w, t->bias, r.exact);
		result(&r, true, q, bias, y);
		mine += relative_error(&r, y);
		result(&r, true, plain.q, t->bias, y);
		before += relative_error(&r, y);
	}
	*worse = mine > before;
	qn_arena_release(&a);
	return status;
}

qn_status qn_rounded_judge(qn_gptq_shared *h, const qn_gptq_target *t, const float *q, const float *bias, qn_verdict *verdict)
{
	bool better, worse = false;
	QN_TRY(is_better(h, t, q, &better));
	if (better)
		QN_TRY(is_worse_by_row(h, t, q, bias, &worse));
	*verdict = !better ? QN_WORSE : worse ? QN_WORSE_BY_ROW : QN_BETTER;
	return QUERN_OK;
}
