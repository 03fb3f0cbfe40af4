/* _engine.h - f32 arithmetic as the engine does it, for evaluations whose numbers are compared with its own (qn_ctx.engine_math).
 *
 * The engine has a kernel for each processor. These are its kernels for x86-64 with AVX-512, on every machine: the same polynomials (the
 * constants are those of its crate tract-linalg), the same fused multiply-adds, and sums in the same lanes and order. So results are its
 * own bit for bit there, and as near as its own kernels are to each other elsewhere. */
#ifndef QN_OPS_ENGINE_H
#define QN_OPS_ENGINE_H

#include "graph/ops/_math.h"

/* QN_VECTOR for loops with fused multiply-adds: without an instruction for them each one is a call, which gives the same bits. */
#define QN_FUSED QN_CLONES("avx512f", "fma")

QN_INLINE float qn_fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

/* As an instruction of x86 does it: `limit` where x is NaN */
QN_INLINE float qn_engine_clamp(float x, float limit)
{
	x = qn_select(x > -limit, x, -limit);
	return qn_select(x < limit, x, limit);
}

/* Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.28: off by up to 1.2e-6 */
QN_INLINE float qn_engine_erf(float x)
{
	float a = fabsf(x), p = 0.0000430638f;
	p = qn_fused(p, a, 0.0002765672f);
	p = qn_fused(p, a, 0.0001520143f);
	p = qn_fused(p, a, 0.0092705272f);
	p = qn_fused(p, a, 0.0422820123f);
	p = qn_fused(p, a, 0.0705230784f);
	p = p * a + 1.0f;
	p = p * p;
	p = p * p;
	p = p * p;
	return qn_with_sign(1.0f - 1.0f / (p * p), x);
}

QN_INLINE float qn_engine_tanh(float x)
{
	x = qn_engine_clamp(x, 7.5f);
	float z = x * x, p = -2.76076847742355e-16f, q = 1.19825839466702e-06f;
	p = qn_fused(p, z, 2.00018790482477e-13f);
	p = qn_fused(p, z, -8.60467152213735e-11f);
	p = qn_fused(p, z, 5.12229709037114e-08f);
	p = qn_fused(p, z, 1.48572235717979e-05f);
	p = qn_fused(p, z, 6.37261928875436e-04f);
	p = qn_fused(p, z, 4.89352455891786e-03f);
	q = qn_fused(q, z, 1.18534705686654e-04f);
	q = qn_fused(q, z, 2.26843463243900e-03f);
	q = qn_fused(q, z, 4.89352518554385e-03f);
	return x * p / q;
}

/* May leave [0, 1] by 1e-7, as the engine's does. */
QN_INLINE float qn_engine_sigmoid(float x)
{
	x = qn_engine_clamp(x, 14.5f);
	float z = x * x, p = 4.37031012579801e-11f, q = 6.10247389755681e-13f;
	p = qn_fused(p, z, 1.15627324459942e-07f);
	p = qn_fused(p, z, 6.08574864600143e-05f);
	p = qn_fused(p, z, 8.51377133304701e-03f);
	p = qn_fused(p, z, 2.48287947061529e-01f);
	q = qn_fused(q, z, 5.76102136993427e-09f);
	q = qn_fused(q, z, 6.29106785017040e-06f);
	q = qn_fused(q, z, 1.70198817374094e-03f);
	q = qn_fused(q, z, 1.16817656904453e-01f);
	q = qn_fused(q, z, 9.93151921023180e-01f);
	return x * p / q + 0.5f;
}

/* x times its sigmoid, bounded below. */
QN_INLINE float qn_engine_silu(float x) { return qn_select(x > -14.5f, x, -14.5f) * qn_engine_sigmoid(x); }

/* x = n ln 2 + r, as qn_exp_split. */
QN_INLINE uint32_t qn_engine_exp_split(float x, float *rest)
{
	const float shift = 12582912.0f; /* 1.5 * 2^23 */
	float z = x * 1.44269504f + shift, n = z - shift;
	*rest = qn_fused(n, -1.428606765330187e-06f, qn_fused(n, -0.693145751953125f, x));
	return qn_bits_of(z) - qn_bits_of(shift);
}

QN_INLINE float qn_engine_exp(float x)
{
	float r;
	x = qn_select(x > 89.0f, 89.0f, x);
	x = qn_select(x < -104.0f, -104.0f, x);
	uint32_t n = qn_engine_exp_split(x, &r), half = (uint32_t)((int32_t)n >> 1);
	float p = 1.383684405e-03f;
	p = qn_fused(p, r, 8.374815793e-03f);
	p = qn_fused(p, r, 4.166822560e-02f);
	p = qn_fused(p, r, 1.666642017e-01f);
	p = qn_fused(p, r, 4.999999208e-01f);
	p = qn_fused(p, r, 1.0f);
	p = qn_fused(p, r, 1.0f);
	return p * qn_of_bits((half + 127u) << 23) * qn_of_bits((n - half + 127u) << 23);
}

/* --- rows. `at`: how many elements of the tensor come before the row. Tensors begin at a boundary of vectors; where rows do not, the
 * elements before their first boundary are summed apart. ----------------------------------------------------------------------- */
float qn_engine_sum(const float *x, int64_t n, int64_t at);
/* y = x over its root mean square */
void qn_engine_rms(const float *x, float *y, int64_t n, float epsilon);
void qn_engine_softmax(const float *x, float *y, int64_t n, int64_t at);

#endif
