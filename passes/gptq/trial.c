/* trial.c - all candidate scales of a block side by side, so that the compiler can work on a vector of them. */
#include "passes/gptq/trial.h"

#include <math.h>

enum { B = QN_BLOCK, C = QN_GPTQ_CANDIDATES, REFITS = 3 };
/* candidates reach from FIRST to FIRST + RANGE times (largest magnitude) / 8, in both signs */
static const float FIRST = 0.62f, RANGE = 0.62f;

static inline float clamp_code(float x) { return x < -8 ? -8 : x > 7 ? 7 : x; }

/* cost[i] of rounding v with scale d[i] */
__attribute__((target_clones("avx2", "default"))) static void costs(const float *v, const float *upper, int64_t stride, const float *d, float *cost)
{
	float w[B][C], inverse[C];
	for (int i = 0; i < C; i++) {
		inverse[i] = d[i] != 0 ? 1 / d[i] : 0;
		cost[i] = 0;
	}
	for (int j = 0; j < B; j++)
		for (int i = 0; i < C; i++)
			w[j][i] = v[j];
	for (int j = 0; j < B; j++) {
		const float *u = upper + j * stride;
		float e[C], reciprocal = 1 / u[j];
		for (int i = 0; i < C; i++) {
			float t = w[j][i] * inverse[i] + 8.5f;
			t = t < 0 ? 0 : t > 15 ? 15 : t;
			float c = (float)(int)t - 8;
			e[i] = (w[j][i] - c * d[i]) * reciprocal;
			cost[i] += e[i] * e[i];
		}
		for (int k = j + 1; k < B; k++) {
			float f = u[k];
			for (int i = 0; i < C; i++)
				w[k][i] -= f * e[i];
		}
	}
}

void qn_trial_with_scale(const float v[B], const float *upper, int64_t stride, float d, qn_trial *out)
{
	float w[B], inverse = d != 0 ? 1 / d : 0;
	memcpy(w, v, sizeof w);
	out->cost = 0;
	out->scale = qn_f32_to_f16(d);
	for (int j = 0; j < B; j++) {
		const float *u = upper + j * stride;
		float c = clamp_code(floorf(w[j] * inverse + 0.5f));
		float e = (w[j] - c * d) / u[j];
		out->code[j] = (int8_t)c;
		out->value[j] = c * d;
		out->error[j] = e;
		out->cost += e * e;
		for (int k = j + 1; k < B; k++)
			w[k] -= u[k] * e;
	}
}

/* x with U^T x = v */
static void solve_transposed(const float *upper, int64_t stride, const float *v, float *x)
{
	memcpy(x, v, sizeof *x * B);
	for (int j = 0; j < B; j++) {
		const float *u = upper + j * stride;
		x[j] /= u[j];
		for (int k = j + 1; k < B; k++)
			x[k] -= u[k] * x[j];
	}
}

static float as_f16(float d)
{
	d = fabsf(d) > 65504 ? copysignf(65504, d) : d;
	return qn_f16_to_f32(qn_f32_to_f16(d));
}

/* The scale that suits the codes best in the metric, and the codes that suit it. */
static void refit(const float *v, const float *upper, int64_t stride, qn_trial *best)
{
	float z[B], y[B], c[B];
	solve_transposed(upper, stride, v, z);
	for (int round = 0; round < REFITS; round++) {
		double yz = 0, yy = 0;
		for (int j = 0; j < B; j++)
			c[j] = best->code[j];
		solve_transposed(upper, stride, c, y);
		for (int j = 0; j < B; j++) {
			yz += (double)y[j] * (double)z[j];
			yy += (double)y[j] * (double)y[j];
		}
		if (yy == 0)
			return;
		float d = as_f16((float)(yz / yy));
		if (d == 0 || qn_f32_to_f16(d) == best->scale)
			return;
		qn_trial next;
		qn_trial_with_scale(v, upper, stride, d, &next);
		/* the old codes with the new scale, unless rounding anew is better still */
		float e[B], cost = 0;
		for (int j = 0; j < B; j++) {
			e[j] = z[j] - d * y[j];
			cost += e[j] * e[j];
		}
		if (next.cost < best->cost && next.cost <= cost) {
			*best = next;
		} else if (cost < best->cost) {
			best->cost = cost;
			best->scale = qn_f32_to_f16(d);
			for (int j = 0; j < B; j++) {
				best->value[j] = c[j] * d;
				best->error[j] = e[j];
			}
		} else {
			return;
		}
	}
}

void qn_trial_block(const float v[B], const float *upper, int64_t stride, qn_trial *best)
{
	float largest = 0, d[C], cost[C];
	for (int j = 0; j < B; j++)
		largest = fabsf(v[j]) > largest ? fabsf(v[j]) : largest;
	for (int i = 0; i < C; i++)
		d[i] = as_f16((i < C / 2 ? largest : -largest) / 8 * (FIRST + RANGE * (float)(i % (C / 2)) / (C / 2 - 1)));
	costs(v, upper, stride, d, cost);
	int least = 0;
	for (int i = 1; i < C; i++)
		if (cost[i] < cost[least])
			least = i;
	qn_trial_with_scale(v, upper, stride, d[least], best);
	refit(v, upper, stride, best);
}
