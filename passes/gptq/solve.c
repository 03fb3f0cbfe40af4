/* solve.c - all blocks of a weight in order, errors passed on to the columns not yet rounded; then block coordinate descent. */
#include "passes/gptq/trial.h"
#include "passes/quant/q4_block.h"

#include <cblas.h>
#include <math.h>

enum { B = QN_BLOCK };

static void put_block(uint8_t *out, const qn_trial *t)
{
	uint8_t code[B];
	for (int j = 0; j < B; j++)
		code[j] = (uint8_t)(t->code[j] + 8);
	qn_put_u16(out, t->scale);
	qn_q4_0_pack(code, out + 2);
}

/* The scale of least squared error weighted with the diagonal of the metric: the plain alternative to trials. */
static void by_diagonal(const float *v, const float *upper, int64_t stride, const float *diagonal, qn_trial *best)
{
	uint8_t block[QN_Q4_0_BYTES], code[B];
	qn_quant_report report;
	qn_ctx quiet = {.threads = 1};
	qn_q4_opts o = {.importance = diagonal};
	qn_quantize_q4_0(&quiet, v, 1, B, QN_ROUND_IMPORTANCE, &o, block, &report);
	qn_q4_0_unpack(block + 2, code);
	qn_trial_with_scale(v, upper, stride, qn_f16_to_f32(qn_get_u16(block)), best);
}

/* wl = q - inverse(H_bb) g: where the block would go if its codes were free */
static void local_optimum(const float *q, const float *g, const float *inverse, float *wl)
{
	for (int i = 0; i < B; i++) {
		float s = 0;
		for (int k = 0; k < B; k++)
			s += inverse[i * B + k] * g[k];
		wl[i] = q[i] - s;
	}
}

static float present_cost(const float *upper, const float *g)
{
	float cost = 0;
	for (int i = 0; i < B; i++) {
		float s = 0;
		for (int k = i; k < B; k++)
			s += upper[i * B + k] * g[k];
		cost += s * s;
	}
	return cost;
}

static void descend_block(qn_ctx *ctx, const qn_metric *m, int64_t b, int64_t out, float *q, float *g, float *delta, double *gain, uint8_t *blocks)
{
	int64_t n = m->n;
	const float *upper = m->block_upper + b * B * B, *inverse = m->block_inverse + b * B * B;
#pragma omp parallel for schedule(static) num_threads(qn_quant_threads(ctx))
	for (int64_t r = 0; r < out; r++) {
		float wl[B];
		qn_trial t;
		float *qb = q + r * n + b * B;
		const float *gb = g + r * n + b * B;
		local_optimum(qb, gb, inverse, wl);
		float before = present_cost(upper, gb);
		qn_trial_block(wl, upper, B, &t);
		bool better = t.cost < before;
		gain[r] = better ? (double)(before - t.cost) : 0;
		for (int i = 0; i < B; i++) {
			delta[r * B + i] = better ? t.value[i] - qb[i] : 0;
			qb[i] = better ? t.value[i] : qb[i];
		}
		if (better)
			put_block(blocks + (r * (n / B) + b) * QN_Q4_0_BYTES, &t);
	}
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)out, (int)n, B, 1, delta, B, m->h32 + b * B * n, (int)n, 1, g, (int)n);
}

static void descend(qn_ctx *ctx, qn_arena *scratch, const qn_metric *m, const float *target, int64_t out, int passes, float *q, uint8_t *blocks)
{
	int64_t n = m->n;
	float *d = QN_NEW(scratch, float, out *n), *g = QN_NEW(scratch, float, out *n), *delta = QN_NEW(scratch, float, out *B);
	double *gain = QN_NEW(scratch, double, out);
	for (int pass = 0; pass < passes; pass++) {
		for (int64_t i = 0; i < out * n; i++)
			d[i] = q[i] - target[i];
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)out, (int)n, (int)n, 1, d, (int)n, m->h32, (int)n, 0, g, (int)n);
		double loss = 0, won = 0;
		for (int64_t i = 0; i < out * n; i++)
			loss += (double)d[i] * (double)g[i];
		for (int64_t b = 0; b < n / B; b++) {
			descend_block(ctx, m, b, out, q, g, delta, gain, blocks);
			for (int64_t r = 0; r < out; r++)
				won += gain[r];
		}
		if (won < 1e-3 * loss)
			break;
	}
}

void qn_gptq_q4_0(qn_ctx *ctx, qn_arena *scratch, const qn_metric *m, const float *target, int64_t out, const qn_gptq_options *o, uint8_t *blocks)
{
	int64_t n = m->n, per_row = n / B;
	float *w = QN_NEW(scratch, float, out *n), *q = QN_NEW(scratch, float, out *n), *e = QN_NEW(scratch, float, out *B);
	float *diagonal = QN_NEW(scratch, float, n);
	int threads = qn_quant_threads(ctx);
	memcpy(w, target, (size_t)(out * n) * sizeof *w);
	for (int64_t k = 0; k < n; k++)
		diagonal[k] = m->h32[k * n + k];
	for (int64_t b = 0; b < per_row; b++) {
		const float *upper = m->upper + b * B * n + b * B;
#pragma omp parallel for schedule(static) num_threads(threads)
		for (int64_t r = 0; r < out; r++) {
			qn_trial t;
			if (o->trial)
				qn_trial_block(w + r * n + b * B, upper, n, &t);
			else
				by_diagonal(w + r * n + b * B, upper, n, diagonal + b * B, &t);
			put_block(blocks + (r * per_row + b) * QN_Q4_0_BYTES, &t);
			memcpy(q + r * n + b * B, t.value, sizeof t.value);
			memcpy(e + r * B, t.error, sizeof t.error);
		}
		int64_t later = n - (b + 1) * B;
		if (later)
			cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)out, (int)later, B, -1, e, B, m->upper + b * B * n + (b + 1) * B, (int)n, 1,
				w + (b + 1) * B, (int)n);
	}
	if (o->descents)
		descend(ctx, scratch, m, target, out, o->descents, q, blocks);
}
