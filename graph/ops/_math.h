/* _math.h - float functions without branches or calls, so that loops over them vectorize.
 *
 * Errors, measured over all normal results: exp 1e-7 relative, tanh, sigmoid and erf 2e-7 relative. NaN gives NaN, infinities
 * give the limits. Only basic operations are used and nothing is contracted, so the results are the same on every machine. */
#ifndef QN_OPS_MATH_H
#define QN_OPS_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Clones for wide vectors, chosen when the program starts. Clones and sanitizers do not go together. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
#define QN_CLONES(...) __attribute__((target_clones(__VA_ARGS__, "default")))
#else
#define QN_CLONES(...)
#endif
#define QN_VECTOR QN_CLONES("avx512f", "avx2")
#define QN_SIMD _Pragma("omp simd")
/* A function that is not taken into the loop that calls it keeps the loop from becoming vectors. */
#define QN_INLINE static inline __attribute__((always_inline))

QN_INLINE uint32_t qn_bits_of(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

QN_INLINE float qn_of_bits(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

QN_INLINE float qn_with_sign(float magnitude, float sign)
{
	return qn_of_bits((qn_bits_of(magnitude) & 0x7fffffffu) | (qn_bits_of(sign) & 0x80000000u));
}

/* cond ? a : b without a branch: the compiler may not compute both sides of a ?: ahead, they could trap */
QN_INLINE float qn_select(int cond, float a, float b)
{
	uint32_t mask = 0u - (uint32_t)cond;
	return qn_of_bits((qn_bits_of(a) & mask) | (qn_bits_of(b) & ~mask));
}

/* exp(r) - 1 for |r| <= 0.35 */
QN_INLINE float qn_exp_rest(float r)
{
	float p = 0.0013813142f;
	p = p * r + 0.008369419f;
	p = p * r + 0.041668456f;
	p = p * r + 0.16666515f;
	p = p * r + 0.49999994f;
	return p * (r * r) + r;
}

/* x = n ln 2 + r: n + 127 comes in the low bits of the result, r by *rest. Adding 2^23 and more rounds to an integer. */
QN_INLINE uint32_t qn_exp_split(float x, float *rest)
{
	const float shift = 12583039.0f; /* 1.5 * 2^23 + 127 */
	float z = x * 1.44269504f + shift, n = z - shift;
	*rest = (x - n * 0.693359375f) - n * -2.12194440e-4f; /* ln 2 in two parts, the first exact in few bits */
	return qn_bits_of(z);
}

QN_INLINE float qn_exp(float x)
{
	float r;
	x = qn_select(x > 89.0f, 89.0f, x);
	x = qn_select(x < -104.0f, -104.0f, x);
	uint32_t n = qn_exp_split(x, &r) - qn_bits_of(12583039.0f);
	/* 2^n in two factors: n reaches below and above what one exponent field holds */
	uint32_t half = (uint32_t)((int32_t)n >> 1);
	return (qn_exp_rest(r) + 1.0f) * qn_of_bits((half + 127u) << 23) * qn_of_bits((n - half + 127u) << 23);
}

/* exp for x <= 0 in fewer steps: 0 below -87 */
QN_INLINE float qn_exp_below(float x)
{
	float r;
	uint32_t n = qn_exp_split(qn_select(x < -87.0f, -87.0f, x), &r);
	float y = (qn_exp_rest(r) + 1.0f) * qn_of_bits(n << 23);
	return qn_select(x < -87.0f, 0.0f, y);
}

QN_INLINE float qn_expm1(float x) { return qn_select(fabsf(x) < 0.34f, qn_exp_rest(x), qn_exp(x) - 1.0f); }

QN_INLINE float qn_tanh(float x)
{
	float a = fabsf(x), z = x * x;
	float p = -0.005717037f;
	p = p * z + 0.020650579f;
	p = p * z - 0.053743497f;
	p = p * z + 0.1333149f;
	p = p * z - 0.33333284f;
	float small = x + x * z * p;
	float e = qn_exp_below(-2.0f * a), large = qn_with_sign((1.0f - e) / (1.0f + e), x);
	return qn_select(a < 0.625f, small, large);
}

QN_INLINE float qn_clamp01(float x) { return qn_select(x < 0.0f, 0.0f, qn_select(x > 1.0f, 1.0f, x)); }
QN_INLINE double qn_clamp01_64(double x) { return x < 0.0 ? 0.0 : x > 1.0 ? 1.0 : x; }

QN_INLINE float qn_sigmoid(float x)
{
	float e = qn_exp_below(-fabsf(x));
	return qn_select(x < 0.0f, e, 1.0f) / (1.0f + e);
}

/* erf(x) for |x| < 1 */
QN_INLINE float qn_erf_small(float x)
{
	float z = x * x, p = 7.889119e-05f;
	p = p * z - 0.0008020841f;
	p = p * z + 0.005189535f;
	p = p * z - 0.026854444f;
	p = p * z + 0.112836f;
	p = p * z - 0.37612626f;
	p = p * z + 1.1283791f;
	return x * p;
}

/* 1 - erf(a) for a >= 1; 0 from 5 on */
QN_INLINE float qn_erfc_large(float a)
{
	float t = qn_select(a > 5.0f, 5.0f, a), q = -1.3458254e-05f; /* its logarithm */
	q = q * t + 0.00032308398f;
	q = q * t - 0.0034954303f;
	q = q * t + 0.022911921f;
	q = q * t - 0.10408772f;
	q = q * t - 0.6379729f;
	q = q * t - 1.1267687f;
	q = q * t - 0.00050229364f;
	return qn_select(a > 5.0f, 0.0f, qn_exp_below(q));
}

QN_INLINE float qn_erf(float x)
{
	float a = fabsf(x);
	return qn_select(a < 1.0f, qn_erf_small(x), qn_with_sign(1.0f - qn_erfc_large(a), x));
}

/* Right to 2e-6 relative down to x = -4, and to 3e-11 below, where 1 + erf would have cancelled. */
QN_INLINE float qn_gelu(float x)
{
	float z = x * 0.70710678f, rest = 0.5f * qn_erfc_large(fabsf(z));
	return x * qn_select(fabsf(z) < 1.0f, 0.5f + 0.5f * qn_erf_small(z), qn_select(z < 0.0f, rest, 1.0f - rest));
}

/* (1 + tanh(u)) / 2 is the sigmoid of 2u */
QN_INLINE float qn_gelu_tanh(float x) { return x * qn_sigmoid(1.5957691216f * (x + 0.044715f * x * x * x)); }

#endif
