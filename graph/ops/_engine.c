#include "graph/ops/_engine.h"

#define LANES 64

/* The sum of all lanes: halves onto halves, four vectors of 16 first. */
static float joined(const float *lane)
{
	float v[16];
	for (int i = 0; i < 16; i++)
		v[i] = (lane[i] + lane[i + 16]) + (lane[i + 32] + lane[i + 48]);
	for (int half = 8; half; half /= 2)
		for (int i = 0; i < half; i++)
			v[i] += v[i + half];
	return v[0];
}

/* How many of the row's elements come before its first boundary of `unit` elements. */
static int64_t before_boundary(int64_t n, int64_t at, int64_t unit)
{
	int64_t k = (unit - at % unit) % unit;
	return k < n ? k : n;
}

/* One number after the other, but what is before and behind whole vectors of four has a sum of its own. */
float qn_engine_sum(const float *x, int64_t n, int64_t at)
{
	int64_t first = before_boundary(n, at, 4), last = first + (n - first) / 4 * 4;
	float sum[3] = {0.0f, 0.0f, 0.0f};
	for (int64_t i = 0; i < n; i++)
		sum[(i >= first) + (i >= last)] += x[i];
	return sum[0] + sum[1] + sum[2];
}

QN_FUSED static float sum_of_squares(const float *x, int64_t n)
{
	float lane[LANES] = {0.0f}, sum;
	int64_t i = 0;
	for (; i + LANES <= n; i += LANES)
		QN_SIMD for (int k = 0; k < LANES; k++) lane[k] = qn_fused(x[i + k], x[i + k], lane[k]);
	sum = joined(lane);
	for (; i < n; i++)
		sum += x[i] * x[i];
	return sum;
}

void qn_engine_rms(const float *x, float *y, int64_t n, float epsilon)
{
	float by = 1.0f / sqrtf(sum_of_squares(x, n) / (float)n + epsilon);
	QN_SIMD for (int64_t i = 0; i < n; i++) y[i] = x[i] * by;
}

/* e^x for x <= 0; 0 below -103, and above 0, where only the padding of the engine's vectors is */
QN_INLINE float exp_below(float x)
{
	float r;
	int32_t n = (int32_t)qn_engine_exp_split(x, &r);
	n = n < -126 ? -126 : n > 127 ? 127 : n;
	float p = 8.297653546e-03f;
	p = qn_fused(p, r, 4.191538191e-02f);
	p = qn_fused(p, r, 1.666757475e-01f);
	p = qn_fused(p, r, 4.999889485e-01f);
	p = qn_fused(p, r, 9.999996920e-01f);
	p = qn_fused(p, r, 1.000000072e+00f);
	p *= qn_of_bits((uint32_t)(n + 127) << 23);
	return qn_select(x < -103.0f, 0.0f, qn_select(x > 0.0f, 0.0f, p));
}

QN_FUSED static float exponentials(const float *x, float *y, int64_t n, float top)
{
	float lane[LANES] = {0.0f};
	int64_t i = 0;
	for (; i + LANES <= n; i += LANES)
		QN_SIMD for (int k = 0; k < LANES; k++)
		{
			y[i + k] = exp_below(x[i + k] - top);
			lane[k] += y[i + k];
		}
	for (int k = 0; i + k < n; k++) {
		y[i + k] = exp_below(x[i + k] - top);
		lane[k] += y[i + k];
	}
	return joined(lane);
}

void qn_engine_softmax(const float *x, float *y, int64_t n, int64_t at)
{
	int64_t first = before_boundary(n, at, 16), last = first + (n - first) / LANES * LANES;
	float top = -INFINITY, sum;
	for (int64_t i = 0; i < n; i++)
		top = x[i] > top ? x[i] : top;
	sum = exponentials(x, y, first, top);
	sum += exponentials(x + first, y + first, last - first, top);
	sum += exponentials(x + last, y + last, n - last, top);
	float by = 1.0f / sum;
	QN_SIMD for (int64_t i = 0; i < n; i++) y[i] *= by;
}
