#include "graph/ops/_gemm_dot.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* A block of ROWS x COLS sums, each in one vector along k. */
enum { ROWS = 4, COLS = 4, LANES = 16 };

typedef struct operands {
	const float *a[ROWS], *b[COLS];
	int64_t k;
	int64_t ahead; /* from b to what is read next */
} operands;

/* The sums of four vectors, in the order of the arguments. */
__attribute__((target("avx512f,avx512dq,avx2,fma"))) static inline __m128 sums(__m512 w, __m512 x, __m512 y, __m512 z)
{
	__m512 wx = _mm512_add_ps(_mm512_unpacklo_ps(w, x), _mm512_unpackhi_ps(w, x));
	__m512 yz = _mm512_add_ps(_mm512_unpacklo_ps(y, z), _mm512_unpackhi_ps(y, z));
	__m512d p = _mm512_castps_pd(wx), q = _mm512_castps_pd(yz);
	__m512 all = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(p, q)), _mm512_castpd_ps(_mm512_unpackhi_pd(p, q)));
	__m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
	return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

__attribute__((target("avx512f,avx512dq,avx2,fma"))) static void block(const operands *o, float out[ROWS][COLS])
{
	__m512 s[ROWS][COLS];
	/* unrolled, so that the sums stay in registers */
#pragma GCC unroll 4
	for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
		for (int j = 0; j < COLS; j++)
			s[i][j] = _mm512_setzero_ps();
	for (int64_t k = 0; k < o->k; k += LANES) {
		__mmask16 mask = o->k - k >= LANES ? 0xffff : (__mmask16)((1u << (o->k - k)) - 1);
		__m512 b[COLS];
#pragma GCC unroll 4
		for (int j = 0; j < COLS; j++) {
			b[j] = _mm512_maskz_loadu_ps(mask, o->b[j] + k);
			_mm_prefetch((const char *)(o->b[j] + k + o->ahead), _MM_HINT_T0);
		}
#pragma GCC unroll 4
		for (int i = 0; i < ROWS; i++) {
			__m512 a = _mm512_maskz_loadu_ps(mask, o->a[i] + k);
#pragma GCC unroll 4
			for (int j = 0; j < COLS; j++)
				s[i][j] = _mm512_fmadd_ps(a, b[j], s[i][j]);
		}
	}
#pragma GCC unroll 4
	for (int i = 0; i < ROWS; i++)
		_mm_storeu_ps(out[i], sums(s[i][0], s[i][1], s[i][2], s[i][3]));
}

bool qn_gemm_dot_here(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx2") &&
	       __builtin_cpu_supports("fma");
}

void qn_gemm_dot(
	const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc, int64_t m, int64_t k, int64_t from, int64_t to)
{
	for (int64_t j = from; j < to; j += COLS)
		for (int64_t i = 0; i < m; i += ROWS) {
			operands o = {.k = k, .ahead = i || j + COLS >= to ? 0 : COLS * ldb};
			float out[ROWS][COLS];
			/* past the edge the last row or column is taken again and its sums are dropped */
			for (int r = 0; r < ROWS; r++)
				o.a[r] = a + (i + r < m ? i + r : m - 1) * lda;
			for (int r = 0; r < COLS; r++)
				o.b[r] = b + (j + r < to ? j + r : to - 1) * ldb;
			block(&o, out);
			for (int r = 0; r < ROWS && i + r < m; r++)
				for (int q = 0; q < COLS && j + q < to; q++)
					c[(i + r) * ldc + j + q] = out[r][q];
		}
}

#else

bool qn_gemm_dot_here(void)
{
	return false;
}

void qn_gemm_dot(
	const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc, int64_t m, int64_t k, int64_t from, int64_t to)
{
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = from; j < to; j++) {
			float s = 0;
			for (int64_t l = 0; l < k; l++)
				s += a[i * lda + l] * b[j * ldb + l];
			c[i * ldc + j] = s;
		}
}

#endif
