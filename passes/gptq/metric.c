/* metric.c - second moments of a layer's inputs and the factors that rounding needs of them. */
#include "passes/gptq/gptq.h"

#include <cblas.h>
#include <lapacke.h>
#include <math.h>

enum { CHUNK_ROWS = 512, B = QN_BLOCK };

static void mean_of(const float *x, int64_t rows, int64_t n, float *mean, double *sum)
{
	for (int64_t r = 0; r < rows; r++)
		for (int64_t k = 0; k < n; k++)
			sum[k] += (double)x[r * n + k];
	for (int64_t k = 0; k < n; k++)
		mean[k] = (float)(sum[k] / (double)rows);
}

/* h += xc^T xc, a chunk of rows at a time: products in f32, sums of chunks in f64. Upper triangle. */
static void second_moment(qn_arena *a, const float *x, int64_t rows, int64_t n, const float *mean, double *h)
{
	float *chunk = QN_NEW(a, float, CHUNK_ROWS *n), *part = QN_NEW(a, float, n *n);
	for (int64_t from = 0; from < rows; from += CHUNK_ROWS) {
		int64_t m = rows - from < CHUNK_ROWS ? rows - from : CHUNK_ROWS;
		for (int64_t r = 0; r < m; r++)
			for (int64_t k = 0; k < n; k++)
				chunk[r * n + k] = x[(from + r) * n + k] - mean[k];
		cblas_ssyrk(CblasRowMajor, CblasUpper, CblasTrans, (int)n, (int)m, 1, chunk, (int)n, 0, part, (int)n);
		for (int64_t i = 0; i < n; i++)
			for (int64_t k = i; k < n; k++)
				h[i * n + k] += (double)part[i * n + k];
	}
}

static void damp(double *h, int64_t n, double by, bool mean_only)
{
	double mean = 0;
	for (int64_t i = 0; i < n; i++)
		mean += h[i * n + i] / (double)n;
	for (int64_t i = 0; i < n; i++)
		h[i * n + i] += by * mean + (mean_only ? 0 : by * h[i * n + i]);
}

/* inverse(h) = U^T U: U is the transposed lower factor of the inverse. `factor` holds the lower factor of h and is kept. */
static bool inverse_factor(qn_arena *a, const double *factor, int64_t n, float *upper)
{
	double *inverse = QN_NEW(a, double, n *n);
	memcpy(inverse, factor, (size_t)(n * n) * sizeof *inverse);
	if (LAPACKE_dpotri(LAPACK_ROW_MAJOR, 'L', (int)n, inverse, (int)n))
		return false;
	for (int64_t i = 0; i < n; i++)
		for (int64_t k = i + 1; k < n; k++)
			inverse[i * n + k] = inverse[k * n + i];
	if (LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'U', (int)n, inverse, (int)n))
		return false;
	for (int64_t i = 0; i < n; i++)
		for (int64_t k = i; k < n; k++)
			upper[i * n + k] = (float)inverse[i * n + k];
	return true;
}

/* The same of each diagonal block alone, and its plain inverse. */
static bool block_factors(const double *h, int64_t n, float *upper, float *inverse)
{
	for (int64_t b = 0; b < n / B; b++) {
		double s[B * B];
		for (int i = 0; i < B; i++)
			for (int k = 0; k < B; k++)
				s[i * B + k] = h[(b * B + i) * n + b * B + k];
		if (LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', B, s, B) || LAPACKE_dpotri(LAPACK_ROW_MAJOR, 'L', B, s, B))
			return false;
		for (int i = 0; i < B; i++)
			for (int k = 0; k < B; k++)
				inverse[b * B * B + i * B + k] = (float)(k <= i ? s[i * B + k] : s[k * B + i]);
		for (int i = 0; i < B; i++)
			for (int k = i + 1; k < B; k++)
				s[i * B + k] = s[k * B + i];
		if (LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'U', B, s, B))
			return false;
		for (int i = 0; i < B; i++)
			for (int k = i; k < B; k++)
				upper[b * B * B + i * B + k] = (float)s[i * B + k];
	}
	return true;
}

qn_status qn_metric_make(qn_ctx *ctx, qn_arena *a, const float *x, int64_t rows, int64_t n, double damping, bool mean_only, bool centre, qn_metric *m)
{
	qn_arena scratch;
	qn_arena_init(&scratch, ctx);
	*m = (qn_metric){.n = n,
		.rows = rows,
		.mean = QN_NEW(a, float, n),
		.h = QN_NEW(a, double, n * n),
		.factor = QN_NEW(a, double, n * n),
		.upper = QN_NEW(a, float, n * n),
		.h32 = QN_NEW(a, float, n * n),
		.block_upper = QN_NEW(a, float, n * B),
		.block_inverse = QN_NEW(a, float, n * B)};
	if (centre)
		mean_of(x, rows, n, m->mean, QN_NEW(&scratch, double, n));
	second_moment(&scratch, x, rows, n, m->mean, m->h);
	damp(m->h, n, damping, mean_only);
	for (int64_t i = 0; i < n; i++)
		for (int64_t k = i; k < n; k++) {
			m->h[k * n + i] = m->h[i * n + k];
			m->h32[i * n + k] = m->h32[k * n + i] = (float)m->h[i * n + k];
		}
	memcpy(m->factor, m->h, (size_t)(n * n) * sizeof *m->h);
	bool good = !LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', (int)n, m->factor, (int)n) && inverse_factor(&scratch, m->factor, n, m->upper) &&
		    block_factors(m->h, n, m->block_upper, m->block_inverse);
	for (int64_t i = 0; i < n && good; i++)
		good = isfinite(m->upper[i * n + i]) && m->upper[i * n + i] > 0;
	qn_arena_release(&scratch);
	return good ? QUERN_OK : QUERN_ERR_NUMERIC;
}

void qn_metric_compensate(qn_ctx *ctx, qn_arena *scratch, const qn_metric *m, const double *exc, double alpha, float *w, int64_t out)
{
	(void)ctx;
	int64_t n = m->n;
	double *d = QN_NEW(scratch, double, out *n);
	memcpy(d, exc, (size_t)(out * n) * sizeof *d);
	/* rows of d solve against the symmetric h: seen column-major, d is [n, out] and the row-major lower factor an upper one */
	LAPACKE_dpotrs(LAPACK_COL_MAJOR, 'U', (int)n, (int)out, m->factor, (int)n, d, (int)n);
	for (int64_t i = 0; i < out * n; i++)
		w[i] += (float)(alpha * d[i]);
}

double qn_metric_loss(qn_ctx *ctx, qn_arena *scratch, const qn_metric *m, const float *w, const float *q, int64_t out)
{
	(void)ctx;
	int64_t n = m->n;
	float *d = QN_NEW(scratch, float, out *n), *g = QN_NEW(scratch, float, out *n);
	for (int64_t i = 0; i < out * n; i++)
		d[i] = q[i] - w[i];
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)out, (int)n, (int)n, 1, d, (int)n, m->h32, (int)n, 0, g, (int)n);
	double loss = 0;
	for (int64_t i = 0; i < out * n; i++)
		loss += (double)d[i] * (double)g[i];
	return loss;
}
