/* _gemm.h - matrix products for the rows that contract: one entry, cut into tiles of a fixed size, so that the result has the
 * same bits at any number of threads. */
#ifndef QN_OPS_GEMM_H
#define QN_OPS_GEMM_H

#include "graph/op.h"

/* `batch` products C[m,n] = A[m,k] B[k,n] (ta: A is stored [k,m]; tb: B is stored [n,k]) of one element type. Offsets and leading
 * dimensions are in elements. a_at and b_at have `batch` entries, NULL stands for zeros; product i is written at i * c_step. */
typedef struct qn_gemm {
	qn_dtype type; /* QN_F32, QN_F64, or an integer type of 4 or 8 bytes (wraps on overflow) */
	bool ta, tb;
	bool chained; /* f32: each element one chain of fused multiply-adds along k, as the engine sums (qn_ctx.engine_math) */
	int64_t m, n, k, lda, ldb, ldc;
	int64_t batch, c_step;
	const int64_t *a_at, *b_at;
} qn_gemm;

void qn_gemm_run(const qn_gemm *g, int threads, const void *a, const void *b, void *c);
/* What it does with those that are chained, on that many threads. */
void qn_gemm_chain(const qn_gemm *g, int threads, const float *a, const float *b, float *c);

/* Exact products of integers of a small range that are held as f32: |a| <= a_max and |b| <= b_max. The sums are taken in i32 over slices
 * of k that f32 holds exactly. `part` is scratch of m * n floats per product; g->type is QN_F32. */
void qn_gemm_small_ints(const qn_gemm *g, int threads, const float *a, int a_max, const float *b, int b_max, float *part, int32_t *c);

/* Before calls of BLAS that are not made here: one thread a call, and the kernels of this processor. */
void qn_blas_ready(void);

/* How many threads a loop of that many multiply-adds deserves. */
int qn_threads_for(int threads, double work);

#endif
