/* moment.c - products over rows in tiles, which threads share out. */
#include "passes/gptq/moment.h"

#include "graph/ops/_gemm.h"

#include <cblas.h>
#include <omp.h>

enum { TILE = QN_MOMENT_TILE, SMALL = 64 };

int qn_moment_threads(const qn_ctx *ctx) { return ctx->threads > 0 ? ctx->threads : omp_get_max_threads(); }

float *qn_moment_space(qn_ctx *ctx, qn_arena *a) { return QN_NEW(a, float, (int64_t)qn_moment_threads(ctx) * TILE * TILE); }

void qn_moment_add(qn_ctx *ctx, const float *a, int64_t m, const float *b, int64_t n, int64_t rows, bool upper, float *space, double *out)
{
	int64_t tile = TILE;
	while (tile > SMALL && ((m + tile - 1) / tile) * ((n + tile - 1) / tile) < 12)
		tile /= 2;
	int64_t across = (n + tile - 1) / tile, tiles = (m + tile - 1) / tile * across;
	qn_blas_ready();
#pragma omp parallel for schedule(dynamic) num_threads(qn_moment_threads(ctx))
	for (int64_t t = 0; t < tiles; t++) {
		int64_t row = t / across * tile, col = t % across * tile;
		int64_t tm = m - row < tile ? m - row : tile, tn = n - col < tile ? n - col : tile;
		float *part = space + (int64_t)omp_get_thread_num() * TILE * TILE;
		if (upper && col + tn <= row)
			continue;
		cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)tm, (blasint)tn, (blasint)rows, 1, a + row, (blasint)m, b + col, (blasint)n, 0,
			part, (blasint)tn);
		for (int64_t i = 0; i < tm; i++)
			for (int64_t k = 0; k < tn; k++)
				out[(row + i) * n + col + k] += (double)part[i * tn + k];
	}
}
