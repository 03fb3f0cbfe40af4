/* targets.c - what a group's layers are to make: moments of their inputs, and of the error that the layers before them left.
 *
 * With float inputs f and rounded inputs q, centred, a layer's target is its float result plus what the stream that it is added to lacks. The error to be explained is
 * e = (f - q) w^T + (stream_f - stream_q), and only e^T q is needed. Where the layers have more outputs than inputs, (f - q)^T q is summed once for all. */
#include "passes/gptq/layer.h"
#include "passes/gptq/moment.h"

#include "graph/ops/_gemm.h"

#include <math.h>

/* Work in chunks of rows. */
typedef struct chunk {
	float *centred, *drift; /* [rows, k] */
	float *error;           /* [rows, outs] */
	float *stream;          /* [rows, widest n] */
	float *space;
	double *h, *drift_moment, *exc; /* [k, k]; [k, k] or NULL; [outs, k] or NULL */
	int64_t outs;           /* outputs of the layers whose error is made row by row */
	bool drifts;            /* the streams differ somewhere */
} chunk;

static bool has_rows(const qn_gptq_target *t) { return t->rounded.rows > 0; }

/* a - b in place on a; whether anything is left */
static bool subtract(float *a, const float *b, int64_t n)
{
	float any = 0;
	for (int64_t i = 0; i < n; i++) {
		a[i] -= b[i];
		any = fabsf(a[i]) > any ? fabsf(a[i]) : any;
	}
	return any > 0;
}

static void add_columns(float *to, int64_t stride, const float *from, int64_t rows, int64_t n)
{
	for (int64_t r = 0; r < rows; r++)
		for (int64_t i = 0; i < n; i++)
			to[r * stride + i] += from[r * n + i];
}

/* Errors of the layers that have a place in c->error, side by side. */
static bool errors(qn_gptq_shared *h, chunk *c, int64_t from, int64_t rows, bool drifts)
{
	int64_t k = h->exact.width, at = 0;
	bool any = false;
	memset(c->error, 0, (size_t)(rows * c->outs) * sizeof *c->error);
	for (size_t i = 0; i < h->n; i++) {
		const qn_gptq_target *t = &h->t[i];
		int64_t n = t->l->n;
		if (c->drift_moment && !has_rows(t))
			continue;
		if (!c->drift_moment && drifts) {
			qn_gemm product = {.type = QN_F32, .tb = true, .m = rows, .n = n, .k = k, .lda = k, .ldb = k, .ldc = c->outs, .batch = 1};
			qn_gemm_run(&product, h->g->ctx->threads, c->drift, t->w, c->error + at);
			any = true;
		}
		if (has_rows(t)) {
			float *other = c->stream + rows * n;
			qn_rows_copy(&t->exact, from, rows, NULL, c->stream);
			qn_rows_copy(&t->rounded, from, rows, NULL, other);
			any |= subtract(c->stream, other, rows * n);
			add_columns(c->error + at, c->outs, c->stream, rows, n);
		}
		at += n;
	}
	return any;
}

/* The chunk's centred rounded rows, and by how much the float rows differ from them; whether they do. */
static bool fill(qn_gptq_shared *h, chunk *c, int64_t from, int64_t rows)
{
	enum { SLICE = 32 };
	int64_t k = h->exact.width;
	int drifts = 0;
#pragma omp parallel for schedule(static) num_threads(qn_moment_threads(h->g->ctx)) reduction(| : drifts)
	for (int64_t at = 0; at < rows; at += SLICE) {
		int64_t n = rows - at < SLICE ? rows - at : SLICE;
		float *centred = c->centred + at * k;
		if (c->drift) { /* `centred` serves first for the raw rows */
			qn_rows_copy(&h->exact, from + at, n, NULL, c->drift + at * k);
			qn_rows_copy(&h->rounded, from + at, n, NULL, centred);
			drifts |= subtract(c->drift + at * k, centred, n * k);
		}
		qn_rows_copy(&h->rounded, from + at, n, h->metric.mean, centred);
	}
	return drifts;
}

static void add_chunk(qn_gptq_shared *h, chunk *c, int64_t from, int64_t rows)
{
	int64_t k = h->exact.width;
	qn_ctx *ctx = h->g->ctx;
	bool drifts = fill(h, c, from, rows);
	qn_moment_add(ctx, c->centred, k, c->centred, k, rows, true, c->space, c->h);
	if (c->drift_moment && drifts)
		qn_moment_add(ctx, c->drift, k, c->centred, k, rows, false, c->space, c->drift_moment);
	if (c->outs && errors(h, c, from, rows, drifts)) {
		qn_moment_add(ctx, c->error, c->outs, c->centred, k, rows, false, c->space, c->exc);
		c->drifts = true;
	}
	c->drifts |= drifts;
}

/* exc += w drift */
static void explain_drift(qn_gptq_shared *h, const qn_gptq_target *t, const double *drift, qn_arena *scratch)
{
	int64_t n = t->l->n, k = h->exact.width;
	double *wide = QN_NEW(scratch, double, n *k), *product = QN_NEW(scratch, double, n *k);
	for (int64_t i = 0; i < n * k; i++)
		wide[i] = (double)t->w[i];
	qn_gemm g = {.type = QN_F64, .m = n, .n = k, .k = k, .lda = k, .ldb = k, .ldc = k, .batch = 1};
	qn_gemm_run(&g, h->g->ctx->threads, wide, drift, product);
	for (int64_t i = 0; i < n * k; i++)
		t->exc[i] += product[i];
}

static int64_t outputs(const qn_gptq_shared *h, bool only_with_stream, int64_t *widest)
{
	int64_t sum = 0;
	for (size_t i = 0; i < h->n; i++) {
		sum += !only_with_stream || has_rows(&h->t[i]) ? h->t[i].l->n : 0;
		if (has_rows(&h->t[i]) && h->t[i].l->n > *widest)
			*widest = h->t[i].l->n;
	}
	return sum;
}

/* What is summed, and the room that it takes. */
static chunk plan_chunks(qn_gptq_shared *h, qn_arena *scratch)
{
	int64_t k = h->exact.width, widest = 0, all = outputs(h, false, &widest);
	bool explain = h->o->compensate && h->o->sequential, by_moment = explain && all > k;
	chunk c = {.centred = QN_NEW(scratch, float, QN_CHUNK_ROWS *k), .space = qn_moment_space(h->g->ctx, scratch), .h = QN_NEW(h->a, double, k *k)};
	if (!explain)
		return c;
	c.outs = by_moment ? outputs(h, true, &widest) : all;
	c.drift = QN_NEW(scratch, float, QN_CHUNK_ROWS *k);
	c.drift_moment = by_moment ? QN_NEW(scratch, double, k *k) : NULL;
	c.error = QN_NEW(scratch, float, QN_CHUNK_ROWS *c.outs);
	c.stream = QN_NEW(scratch, float, 2 * QN_CHUNK_ROWS * widest);
	c.exc = QN_NEW(h->a, double, all *k);
	return c;
}

static void sum_moments(qn_gptq_shared *h, chunk *c, qn_arena *scratch)
{
	int64_t k = h->exact.width;
	for (int64_t from = 0; from < h->exact.rows; from += QN_CHUNK_ROWS)
		add_chunk(h, c, from, h->exact.rows - from < QN_CHUNK_ROWS ? h->exact.rows - from : QN_CHUNK_ROWS);
	double *next = c->exc, *rest = c->exc ? c->exc + c->outs * k : NULL;
	for (size_t i = 0; i < h->n && c->drifts; i++) {
		qn_gptq_target *t = &h->t[i];
		double **place = c->drift_moment && !has_rows(t) ? &rest : &next; /* the summed ones come first */
		t->exc = *place;
		*place += t->l->n * k;
		if (c->drift_moment)
			explain_drift(h, t, c->drift_moment, scratch);
	}
}

static void find_stream(qn_gptq_shared *h, qn_gptq_target *t)
{
	t->mean_residual = QN_NEW(h->a, float, t->l->n);
	qn_value *v = h->o->residual && h->o->sequential ? qn_gptq_residual(t->l) : NULL;
	if (!v)
		return;
	t->exact = qn_streams_rows(h->s, v, false, h->a);
	t->rounded = qn_streams_rows(h->s, v, true, h->a);
	if (t->exact.rows != h->exact.rows || t->rounded.rows != h->exact.rows || t->exact.width != t->l->n)
		t->exact = t->rounded = (qn_rows){0};
	else
		qn_rows_mean(h->a, &t->exact, &t->rounded, t->mean_residual);
}

static qn_status load_layer(qn_gptq_shared *h, qn_gptq_target *t)
{
	const qn_tensor *w, *b = NULL;
	QN_TRY(qn_consts_get(h->s->consts, t->l->node->in[1], &w));
	if (qn_node_has_in(t->l->node, 2))
		QN_TRY(qn_consts_get(h->s->consts, t->l->node->in[2], &b));
	t->w = w->data;
	t->bias = b ? b->data : NULL;
	find_stream(h, t);
	return QUERN_OK;
}

/* Rows of the samples themselves: copies add rows, not text. */
static double own_rows(const qn_gptq_shared *h) { return (double)h->exact.rows / (double)(1 + h->s->copies); }

/* Samples that say little of so many columns need more of it. */
static qn_damping damping_for(const qn_gptq_shared *h)
{
	static const double SHARE = 0.6, LEAST = 0.05, MOST = 0.3;
	qn_damping d = h->o->damping;
	if (d.by > 0)
		return d;
	d.by = SHARE * (double)h->exact.width / own_rows(h);
	d.by = d.by < LEAST ? LEAST : d.by > MOST ? MOST : d.by;
	return d;
}

qn_status qn_gptq_targets(qn_gptq_shared *h)
{
	qn_value *x = h->t[0].l->node->in[0];
	h->exact = qn_streams_rows(h->s, x, false, h->a);
	h->rounded = h->o->sequential ? qn_streams_rows(h->s, x, true, h->a) : h->exact;
	h->metric = (qn_metric){.n = h->exact.width, .rows = h->exact.rows, .mean = QN_NEW(h->a, float, h->exact.width)};
	h->few_rows = own_rows(h) < QN_FEWEST_ROWS || h->rounded.rows != h->exact.rows;
	if (h->few_rows)
		return QUERN_ERR_NUMERIC;
	for (size_t i = 0; i < h->n; i++)
		QN_TRY(load_layer(h, &h->t[i]));
	if (h->o->centre)
		qn_rows_mean(h->a, &h->rounded, NULL, h->metric.mean);
	h->mean_exact = QN_NEW(h->a, float, h->exact.width);
	qn_rows_mean(h->a, &h->exact, NULL, h->mean_exact);
	qn_arena scratch;
	qn_arena_init(&scratch, h->g->ctx);
	chunk c = plan_chunks(h, &scratch);
	sum_moments(h, &c, &scratch);
	qn_arena_release(&scratch);
	return qn_metric_from_moment(h->g->ctx, h->a, c.h, damping_for(h), &h->metric);
}
