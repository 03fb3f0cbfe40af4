#include "graph/ops/_gemm.h"
#include <cblas.h>
#include <omp.h>

/* Rows and columns of a tile. Large enough that packing an operand again for each tile is a small part of the work. */
enum { TILE_M = 128, TILE_N = 192 };

int qn_threads_for(int threads, double work)
{
	if (threads <= 0)
		threads = omp_get_max_threads();
	return work < 2e5 ? 1 : threads;
}

typedef struct tile {
	int64_t product, row, col, m, n;
} tile;

static tile tile_at(const qn_gemm *g, int64_t i)
{
	int64_t across = (g->n + TILE_N - 1) / TILE_N, down = (g->m + TILE_M - 1) / TILE_M;
	tile t = {i / (across * down), i / across % down * TILE_M, i % across * TILE_N, 0, 0};
	t.m = g->m - t.row < TILE_M ? g->m - t.row : TILE_M;
	t.n = g->n - t.col < TILE_N ? g->n - t.col : TILE_N;
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

void qn_gemm_run(const qn_gemm *g, int threads, const void *a, const void *b, void *c)
{
	if (g->m == 0 || g->n == 0 || g->batch == 0)
		return;
	if (g->k == 0) { /* BLAS refuses leading dimensions of 0 */
		size_t size = qn_dtype_size(g->type);
		for (int64_t i = 0; i < g->batch * g->m; i++)
			memset((char *)c + (size_t)(i / g->m * g->c_step + i % g->m * g->ldc) * size, 0, (size_t)g->n * size);
		return;
	}
	if (openblas_get_num_threads() != 1) /* the tiles are the parallelism; a product split by BLAS would depend on the thread count */
		openblas_set_num_threads(1);
	int64_t tiles = g->batch * ((g->n + TILE_N - 1) / TILE_N) * ((g->m + TILE_M - 1) / TILE_M);
	double work = (double)g->batch * (double)g->m * (double)g->n * (double)g->k;
	int n_threads = tiles == 1 ? 1 : qn_threads_for(threads, work);
#pragma omp parallel for schedule(dynamic) num_threads(n_threads) if (n_threads > 1)
	for (int64_t i = 0; i < tiles; i++) {
		tile t = tile_at(g, i);
		switch (g->type) {
		case QN_F32: tile_f32(g, &t, a, b, c); break;
		case QN_F64: tile_f64(g, &t, a, b, c); break;
		case QN_I32: case QN_U32: tile_u32(g, &t, a, b, c); break;
		default: tile_u64(g, &t, a, b, c); break;
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
