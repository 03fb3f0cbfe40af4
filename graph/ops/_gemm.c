#include "graph/ops/_gemm.h"
#include "graph/ops/_gemm_dot.h"
#include <cblas.h>
#include <omp.h>

int qn_threads_for(int threads, double work)
{
	if (threads <= 0)
		threads = omp_get_max_threads();
	return work < 2e5 ? 1 : threads;
}

/* How products are cut. It follows from the shape alone, so that the bits do not depend on the number of threads. Large tiles pack
 * their operands less often; there should still be some for each thread. */
typedef struct cut {
	int64_t m, n;         /* rows and columns of a tile */
	int64_t down, across; /* tiles of a product */
} cut;

/* Multiply-adds that cost as much as a step of an element-wise loop. */
enum { PER_STEP = 8 };

enum { ENOUGH_TILES = 8, SMALL_TILE = 1 << 23 /* multiply-adds */ };

static int64_t half(int64_t n, int64_t unit)
{
	return (n / 2 + unit - 1) / unit * unit;
}

static cut cut_of(const qn_gemm *g)
{
	cut c = {g->m < 512 ? g->m : 512, g->n < 768 ? g->n : 768, 0, 0};
	for (;;) {
		c.down = (g->m + c.m - 1) / c.m, c.across = (g->n + c.n - 1) / c.n;
		if (g->batch * c.down * c.across >= ENOUGH_TILES || c.m * c.n * g->k <= SMALL_TILE || (c.m <= 32 && c.n <= 48))
			return c;
		if (c.n > c.m && c.n > 48)
			c.n = half(c.n, 48);
		else
			c.m = half(c.m, 32);
	}
}

typedef struct tile {
	int64_t product, row, col, m, n;
} tile;

static tile tile_at(const qn_gemm *g, const cut *c, int64_t i)
{
	tile t = {i / (c->across * c->down), i / c->across % c->down * c->m, i % c->across * c->n, 0, 0};
	t.m = g->m - t.row < c->m ? g->m - t.row : c->m;
	t.n = g->n - t.col < c->n ? g->n - t.col : c->n;
	return t;
}

static int64_t a_offset(const qn_gemm *g, const tile *t)
{
	return (g->a_at ? g->a_at[t->product] : 0) + (g->ta ? t->row : t->row * g->lda);
}

static int64_t b_offset(const qn_gemm *g, const tile *t)
{
	return (g->b_at ? g->b_at[t->product] : 0) + (g->tb ? t->col * g->ldb : t->col);
}

static int64_t c_offset(const qn_gemm *g, const tile *t)
{
	return t->product * g->c_step + t->row * g->ldc + t->col;
}

static void tile_f32(const qn_gemm *g, const tile *t, const float *a, const float *b, float *c)
{
	cblas_sgemm(CblasRowMajor, g->ta ? CblasTrans : CblasNoTrans, g->tb ? CblasTrans : CblasNoTrans, (blasint)t->m, (blasint)t->n,
		(blasint)g->k, 1.0f, a + a_offset(g, t), (blasint)g->lda, b + b_offset(g, t), (blasint)g->ldb, 0.0f, c + c_offset(g, t),
		(blasint)g->ldc);
}

static void tile_f64(const qn_gemm *g, const tile *t, const double *a, const double *b, double *c)
{
	cblas_dgemm(CblasRowMajor, g->ta ? CblasTrans : CblasNoTrans, g->tb ? CblasTrans : CblasNoTrans, (blasint)t->m, (blasint)t->n,
		(blasint)g->k, 1.0, a + a_offset(g, t), (blasint)g->lda, b + b_offset(g, t), (blasint)g->ldb, 0.0, c + c_offset(g, t),
		(blasint)g->ldc);
}

static void tile_u32(const qn_gemm *g, const tile *t, const uint32_t *a, const uint32_t *b, uint32_t *c)
{
	a += a_offset(g, t), b += b_offset(g, t), c += c_offset(g, t);
	for (int64_t i = 0; i < t->m; i++) {
		uint32_t *row = c + i * g->ldc;
		memset(row, 0, (size_t)t->n * sizeof *row);
		for (int64_t k = 0; k < g->k; k++) {
			uint32_t x = g->ta ? a[k * g->lda + i] : a[i * g->lda + k];
			for (int64_t j = 0; j < t->n; j++)
				row[j] += x * (g->tb ? b[j * g->ldb + k] : b[k * g->ldb + j]);
		}
	}
}

static void tile_u64(const qn_gemm *g, const tile *t, const uint64_t *a, const uint64_t *b, uint64_t *c)
{
	a += a_offset(g, t), b += b_offset(g, t), c += c_offset(g, t);
	for (int64_t i = 0; i < t->m; i++) {
		uint64_t *row = c + i * g->ldc;
		memset(row, 0, (size_t)t->n * sizeof *row);
		for (int64_t k = 0; k < g->k; k++) {
			uint64_t x = g->ta ? a[k * g->lda + i] : a[i * g->lda + k];
			for (int64_t j = 0; j < t->n; j++)
				row[j] += x * (g->tb ? b[j * g->ldb + k] : b[k * g->ldb + j]);
		}
	}
}

/* Up to so many rows, packing the other operand would be most of the work of a product. */
enum { FEW_ROWS = 64, STRIP = 64 };

static void few_rows(const qn_gemm *g, int threads, const float *a, const float *b, float *c)
{
	int64_t strips = (g->n + STRIP - 1) / STRIP;
	int n_threads = qn_threads_for(threads, (double)g->batch * (double)g->m * (double)g->n * (double)g->k / PER_STEP);
#pragma omp parallel for schedule(dynamic) num_threads(n_threads) if (n_threads > 1)
	for (int64_t i = 0; i < g->batch * strips; i++) {
		int64_t product = i / strips, from = i % strips * STRIP, to = from + STRIP < g->n ? from + STRIP : g->n;
		qn_gemm_dot(a + (g->a_at ? g->a_at[product] : 0), g->lda, b + (g->b_at ? g->b_at[product] : 0), g->ldb, c + product * g->c_step, g->ldc,
			g->m, g->k, from, to);
	}
}

void qn_gemm_run(const qn_gemm *g, int threads, const void *a, const void *b, void *y)
{
	if (g->m == 0 || g->n == 0 || g->batch == 0)
		return;
	if (g->k == 0) { /* BLAS refuses leading dimensions of 0 */
		size_t size = qn_dtype_size(g->type);
		for (int64_t i = 0; i < g->batch * g->m; i++)
			memset((char *)y + (size_t)(i / g->m * g->c_step + i % g->m * g->ldc) * size, 0, (size_t)g->n * size);
		return;
	}
	double work = (double)g->batch * (double)g->m * (double)g->n * (double)g->k;
	if (g->type == QN_F32 && g->chained) {
		qn_gemm_chain(g, qn_threads_for(threads, work / PER_STEP), a, b, y);
		return;
	}
	if (g->type == QN_F32 && g->tb && !g->ta && g->m <= FEW_ROWS && qn_gemm_dot_here()) {
		few_rows(g, threads, a, b, y);
		return;
	}
	qn_blas_ready();
	cut c = cut_of(g);
	int64_t tiles = g->batch * c.down * c.across;
	int n_threads = tiles == 1 ? 1 : qn_threads_for(threads, work / PER_STEP);
#pragma omp parallel for schedule(dynamic) num_threads(n_threads) if (n_threads > 1)
	for (int64_t i = 0; i < tiles; i++) {
		tile t = tile_at(g, &c, i);
		switch (g->type) {
		case QN_F32: tile_f32(g, &t, a, b, y); break;
		case QN_F64: tile_f64(g, &t, a, b, y); break;
		case QN_I32: case QN_U32: tile_u32(g, &t, a, b, y); break;
		default: tile_u64(g, &t, a, b, y); break;
		}
	}
}

void qn_gemm_small_ints(const qn_gemm *g, int threads, const float *a, int a_max, const float *b, int b_max, float *part, int32_t *c)
{
	int64_t exact = (int64_t)(1 << 24) / ((int64_t)(a_max ? a_max : 1) * (b_max ? b_max : 1));
	for (int64_t i = 0; i < g->batch * g->m; i++)
		memset(c + i / g->m * g->c_step + i % g->m * g->ldc, 0, (size_t)g->n * sizeof *c);
	for (int64_t k = 0; k < g->k; k += exact) {
		qn_gemm s = *g;
		s.k = g->k - k < exact ? g->k - k : exact;
		s.ldc = g->n, s.c_step = g->m * g->n;
		qn_gemm_run(&s, threads, a + (g->ta ? k * g->lda : k), b + (g->tb ? k : k * g->ldb), part);
		for (int64_t i = 0; i < g->batch * g->m; i++) {
			int32_t *to = c + i / g->m * g->c_step + i % g->m * g->ldc;
			for (int64_t j = 0; j < g->n; j++)
				to[j] = (int32_t)((uint32_t)to[j] + (uint32_t)(int32_t)part[i * g->n + j]);
		}
	}
}
