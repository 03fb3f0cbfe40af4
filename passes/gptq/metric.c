/* metric.c - second moments of a layer's inputs and the factors that rounding needs of them.
 *
 * U with inverse(h) = U^T U comes without the inverse: with rows and columns in reverse order h = L L^T, so h = V V^T for the upper V that is L in reverse, and
 * U = inverse(V). A symmetric matrix in reverse order is its array in reverse. */
#include "passes/gptq/gptq.h"
#include "passes/gptq/moment.h"
#include "passes/gptq/rows.h"

#include "graph/ops/_gemm.h"

#include <cblas.h>
#include <lapacke.h>
#include <math.h>

enum { B = QN_BLOCK, ROWS_AT_ONCE = 64 };

static void damp(double *h, int64_t n, qn_damping d, float *added)
{
	double mean = 0;
	for (int64_t i = 0; i < n; i++)
		mean += h[i * n + i] / (double)n;
	for (int64_t i = 0; i < n; i++) {
		double by = d.by * mean + (d.mean_only ? 0 : d.by * h[i * n + i]);
		h[i * n + i] += by;
		added[i] = (float)by;
	}
}

static void reverse(double *x, int64_t n)
{
	for (int64_t i = 0, k = n - 1; i < k; i++, k--) {
		double t = x[i];
		x[i] = x[k];
		x[k] = t;
	}
}

/* The upper triangle of h becomes the lower factor of its reverse; U goes to `upper` (stride n), through `work`. */
static bool factorize(double *h, int64_t n, double *work, float *upper)
{
	reverse(h, n * n);
	/* a row-major lower triangle is a column-major upper one */
	if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', (int)n, h, (int)n))
		return false;
	memcpy(work, h, (size_t)(n * n) * sizeof *h);
	if (LAPACKE_dtrtri_work(LAPACK_COL_MAJOR, 'U', 'N', (int)n, work, (int)n))
		return false;
	for (int64_t i = 0; i < n; i++)
		for (int64_t k = i; k < n; k++)
			upper[i * n + k] = (float)work[n * n - 1 - i * n - k];
	return true;
}

/* Each diagonal block alone: its U and its inverse U^T U. */
static bool factorize_blocks(const double *h, int64_t n, float *upper, float *inverse)
{
	bool good = true;
	for (int64_t b = 0; b * B < n && good; b++) {
		double s[B * B], work[B * B];
		float *u = upper + b * B * B;
		for (int64_t i = 0; i < B; i++)
			for (int64_t k = i; k < B; k++)
				s[i * B + k] = b * B + k < n ? h[(b * B + i) * n + b * B + k] : (double)(i == k);
		good = factorize(s, B, work, u);
		for (int i = 0; i < B; i++)
			for (int k = 0; k < B; k++) {
				double sum = 0;
				for (int t = 0; t <= i && t <= k; t++)
					sum += (double)u[t * B + i] * (double)u[t * B + k];
				inverse[b * B * B + i * B + k] = (float)sum;
			}
	}
	return good;
}

qn_status qn_metric_from_moment(qn_ctx *ctx, qn_arena *a, double *h, qn_damping damping, qn_metric *m)
{
	int64_t n = m->n, blocks = (n + B - 1) / B;
	m->factor = h;
	m->damping = QN_NEW(a, float, n);
	m->upper = QN_NEW(a, float, n * n);
	m->h = QN_NEW(a, float, n * n);
	m->block_upper = QN_NEW(a, float, blocks * B * B);
	m->block_inverse = QN_NEW(a, float, blocks * B * B);
	damp(h, n, damping, m->damping);
	for (int64_t i = 0; i < n; i++)
		for (int64_t k = i; k < n; k++)
			m->h[i * n + k] = m->h[k * n + i] = (float)h[i * n + k];
	qn_arena scratch;
	qn_arena_init(&scratch, ctx);
	qn_blas_ready();
	bool good = factorize_blocks(h, n, m->block_upper, m->block_inverse) && factorize(h, n, QN_NEW(&scratch, double, n * n), m->upper);
	for (int64_t i = 0; i < n && good; i++)
		good = isfinite(m->upper[i * n + i]) && m->upper[i * n + i] > 0;
	qn_arena_release(&scratch);
	return good ? QUERN_OK : QUERN_ERR_NUMERIC;
}

qn_status qn_metric_make(qn_ctx *ctx, qn_arena *a, const float *x, int64_t rows, int64_t n, qn_damping damping, bool centre, qn_metric *m)
{
	qn_arena scratch;
	qn_arena_init(&scratch, ctx);
	*m = (qn_metric){.n = n, .rows = rows, .mean = QN_NEW(a, float, n)};
	qn_rows all = qn_rows_of(&scratch, x, rows, n);
	if (centre)
		qn_rows_mean(&scratch, &all, NULL, m->mean);
	double *h = QN_NEW(a, double, n * n);
	float *chunk = QN_NEW(&scratch, float, QN_CHUNK_ROWS *n), *space = qn_moment_space(ctx, &scratch);
	for (int64_t from = 0; from < rows; from += QN_CHUNK_ROWS) {
		int64_t here = rows - from < QN_CHUNK_ROWS ? rows - from : QN_CHUNK_ROWS;
		qn_rows_copy(&all, from, here, m->mean, chunk);
		qn_moment_add(ctx, chunk, n, chunk, n, here, true, space, h);
	}
	qn_arena_release(&scratch);
	return qn_metric_from_moment(ctx, a, h, damping, m);
}

void qn_metric_compensate(qn_ctx *ctx, qn_arena *scratch, const qn_metric *m, const double *exc, double alpha, float *w, int64_t out)
{
	int64_t n = m->n, parts = (out + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE;
	double *d = QN_NEW(scratch, double, out *n);
	qn_blas_ready();
#pragma omp parallel for schedule(dynamic) num_threads(qn_moment_threads(ctx))
	for (int64_t p = 0; p < parts; p++) {
		int64_t from = p * ROWS_AT_ONCE, rows = out - from < ROWS_AT_ONCE ? out - from : ROWS_AT_ONCE;
		for (int64_t r = from; r < from + rows; r++)
			for (int64_t i = 0; i < n; i++)
				d[r * n + i] = exc[r * n + n - 1 - i];
		LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', (int)n, (int)rows, m->factor, (int)n, d + from * n, (int)n);
		for (int64_t r = from; r < from + rows; r++)
			for (int64_t i = 0; i < n; i++)
				w[r * n + i] += (float)(alpha * d[r * n + n - 1 - i]);
	}
}

void qn_metric_loss(qn_ctx *ctx, qn_arena *scratch, const qn_metric *m, const float *w, const float *q, const double *exc, int64_t out, double *loss)
{
	int64_t n = m->n;
	float *d = QN_NEW(scratch, float, out *n), *g = QN_NEW(scratch, float, out *n);
	for (int64_t i = 0; i < out * n; i++)
		d[i] = q[i] - w[i];
	qn_gemm product = {.type = QN_F32, .m = out, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n, .batch = 1};
	qn_gemm_run(&product, ctx->threads, d, m->h, g);
	for (int64_t r = 0; r < out; r++) {
		loss[r] = 0;
		for (int64_t i = r * n; i < (r + 1) * n; i++)
			loss[r] += (double)d[i] * ((double)g[i] - (double)m->damping[i - r * n] * (double)d[i] - (exc ? 2 * exc[i] : 0));
	}
}
