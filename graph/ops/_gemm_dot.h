/* _gemm_dot.h - products of few rows with a stored-transposed operand, without the packing that BLAS does for each product. */
#ifndef QN_OPS_GEMM_DOT_H
#define QN_OPS_GEMM_DOT_H

#include <stdbool.h>
#include <stdint.h>

/* Whether this processor has the vectors for it. */
bool qn_gemm_dot_here(void);
/* c[m, n] = a[m, k] b[n, k]^T for columns [from, to) of c. Every element is summed in the same order whatever the bounds. */
void qn_gemm_dot(
	const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc, int64_t m, int64_t k, int64_t from, int64_t to);

#endif
