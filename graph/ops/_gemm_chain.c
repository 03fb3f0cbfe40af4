#include "graph/ops/_engine.h"
#include "graph/ops/_gemm.h"

/* Sums of a block of ROWS x COLS stay in registers over DEPTH steps of k. */
enum { ROWS = 8, COLS = 32, DEPTH = 128 };

/* s[i][j] += a[i] b[.][j], one fused multiply-add after the other; a[i] is read every `step` elements. */
QN_FUSED static void block(const float *const *a, int64_t step, float (*b)[COLS], int64_t k, float (*s)[COLS])
{
	float sum[ROWS][COLS];
	memcpy(sum, s, sizeof sum);
	for (int64_t l = 0; l < k; l++)
#pragma GCC unroll 8
		for (int i = 0; i < ROWS; i++) {
			float x = a[i][l * step];
			QN_SIMD for (int j = 0; j < COLS; j++) sum[i][j] = qn_fused(x, b[l][j], sum[i][j]);
		}
	memcpy(s, sum, sizeof sum);
}

/* Columns col .. col + cols of rows k .. k + depth of B, filled up with zeros. */
static void pack(const qn_gemm *g, const float *b, int64_t k, int64_t depth, int64_t col, int64_t cols, float (*to)[COLS])
{
	for (int64_t l = 0; l < depth; l++)
		for (int64_t j = 0; j < COLS; j++)
			to[l][j] = j >= cols ? 0.0f : g->tb ? b[(col + j) * g->ldb + k + l] : b[(k + l) * g->ldb + col + j];
}

static void strip(const qn_gemm *g, const float *a, const float *b, float *c, int64_t col)
{
	float packed[DEPTH][COLS], s[ROWS][COLS];
	int64_t cols = g->n - col < COLS ? g->n - col : COLS, step = g->ta ? g->lda : 1, row = g->ta ? 1 : g->lda;
	for (int64_t k = 0; k < g->k; k += DEPTH) {
		int64_t depth = g->k - k < DEPTH ? g->k - k : DEPTH;
		pack(g, b, k, depth, col, cols, packed);
		for (int64_t i = 0; i < g->m; i += ROWS) {
			int64_t rows = g->m - i < ROWS ? g->m - i : ROWS;
			const float *from[ROWS];
			memset(s, 0, sizeof s);
			for (int64_t r = 0; r < ROWS; r++) /* past the edge the last row is taken again and its sums are dropped */
				from[r] = a + (i + (r < rows ? r : rows - 1)) * row + k * step;
			for (int64_t r = 0; r < rows && k > 0; r++)
				memcpy(s[r], c + (i + r) * g->ldc + col, (size_t)cols * sizeof(float));
			block(from, step, packed, depth, s);
			for (int64_t r = 0; r < rows; r++)
				memcpy(c + (i + r) * g->ldc + col, s[r], (size_t)cols * sizeof(float));
		}
	}
}

void qn_gemm_chain(const qn_gemm *g, int threads, const float *a, const float *b, float *c)
{
	int64_t strips = (g->n + COLS - 1) / COLS;
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
	for (int64_t i = 0; i < g->batch * strips; i++) {
		int64_t product = i / strips;
		strip(g, a + (g->a_at ? g->a_at[product] : 0), b + (g->b_at ? g->b_at[product] : 0), c + product * g->c_step, i % strips * COLS);
	}
}
