/* bench_quant.c - quantization speed beside a plain scalar loop of ggml's published rule, same flags, same run.
 *
 * usage: bench_quant [MILLIONS OF WEIGHTS]   (default 16). Prints weights a second, the best of five runs, and the quality at that speed.
 */
#include "passes/quant/quant.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { COLS = 1024, RUNS = 5 };

typedef struct work {
	qn_ctx ctx;
	const float *w;
	int64_t rows;
	qn_rounding rounding;
	qn_q4_opts opts;
	uint8_t *blocks;
	int8_t *codes;
	uint16_t *halves;
	float *scales;
} work;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float normal(uint64_t *s)
{
	double u[2];
	for (int i = 0; i < 2; i++) {
		*s ^= *s << 13;
		*s ^= *s >> 7;
		*s ^= *s << 17;
		u[i] = (double)(*s >> 11) / 9007199254740992.0;
	}
	return (float)(sqrt(-2 * log(u[0] + 1e-300)) * cos(6.283185307179586 * u[1]));
}

/* The peer: one value at a time, as the rule is published. */
static void plain_signed(work *k)
{
	for (int64_t b = 0; b < k->rows * COLS / QN_BLOCK; b++) {
		const float *v = k->w + b * QN_BLOCK;
		uint8_t *out = k->blocks + b * QN_Q4_0_BYTES;
		float most = 0, of = 0;
		for (int i = 0; i < QN_BLOCK; i++)
			if (most < fabsf(v[i])) {
				most = fabsf(v[i]);
				of = v[i];
			}
		float d = of / -8, id = d != 0 ? 1 / d : 0;
		qn_put_u16(out, qn_f32_to_f16(d));
		for (int i = 0; i < QN_BLOCK / 2; i++) {
			int low = (int8_t)(v[i] * id + 8.5f), high = (int8_t)(v[i + QN_BLOCK / 2] * id + 8.5f);
			out[2 + i] = (uint8_t)((low < 15 ? low : 15) | (high < 15 ? high : 15) << 4);
		}
	}
}

static void q4_0(work *k)
{
	qn_quant_report r;
	qn_quantize_q4_0(&k->ctx, k->w, k->rows, COLS, k->rounding, &k->opts, k->blocks, &r);
}

static void q8_1(work *k)
{
	qn_quant_report r;
	qn_quantize_q8_1(&k->ctx, k->w, k->rows * COLS, k->blocks, &r);
}

static void i8(work *k)
{
	qn_quant_report r;
	qn_quantize_i8_rows(&k->ctx, k->w, k->rows, COLS, 8, 0, k->codes, k->scales, &r);
}

static void f16(work *k)
{
	qn_quant_report r;
	qn_quantize_f16(&k->ctx, k->w, k->rows * COLS, k->halves, &r);
}

static double speed(void (*fn)(work *), work *k)
{
	double best = INFINITY;
	for (int i = 0; i < RUNS; i++) {
		double t = now();
		fn(k);
		best = fmin(best, now() - t);
	}
	return (double)(k->rows * COLS) / best * 1e-9;
}

static double quality(work *k, float *back)
{
	double signal, noise;
	qn_dequantize_q4_0(&k->ctx, k->blocks, k->rows * COLS, false, back);
	qn_quant_error(&k->ctx, k->w, back, k->rows * COLS, &signal, &noise);
	return qn_snr_db(signal, noise);
}

int main(int argc, char **argv)
{
	int64_t millions = argc > 1 ? atoi(argv[1]) : 16, rows = millions * 1000000 / COLS, n = rows * COLS;
	if (millions < 1)
		return 2;
	float *w = malloc((size_t)n * sizeof *w), *back = malloc((size_t)n * sizeof *back);
	uint8_t *out = malloc((size_t)n * 2);
	float *columns = malloc((COLS + (size_t)rows) * sizeof *columns);
	if (!w || !back || !out || !columns)
		return 1;
	uint64_t seed = 88172645463325252u;
	for (int64_t i = 0; i < n; i++)
		w[i] = 0.05f * normal(&seed);
	for (int i = 0; i < COLS; i++)
		columns[i] = expf(normal(&seed));
	work k = {.w = w, .rows = rows, .blocks = out, .codes = (int8_t *)out, .halves = (uint16_t *)(void *)out, .scales = columns + COLS};
	double plain = speed(plain_signed, &k);
	printf("%lld weights, %d threads at most\n", (long long)n, omp_get_max_threads());
	printf("%-28s %8s %8s %9s %8s\n", "", "1 thread", "all", "x plain", "SNR dB");
	printf("%-28s %8.3f %8s %9s %8.2f\n", "plain scalar signed rule", plain, "", "1", quality(&k, back));
	static const struct {
		const char *name;
		qn_rounding rounding;
		double percentile;
		bool half;
	} rules[] = {{"signed", QN_ROUND_SIGNED, 1, false}, {"minmax", QN_ROUND_MINMAX, 1, false},
		{"minmax, percentile 0.99", QN_ROUND_MINMAX, 0.99, false}, {"minmax, f16 source", QN_ROUND_MINMAX, 1, true},
		{"mse", QN_ROUND_MSE, 1, false}, {"importance", QN_ROUND_IMPORTANCE, 1, false}};
	for (size_t i = 0; i < QN_LEN(rules); i++) {
		k.rounding = rules[i].rounding;
		k.opts = (qn_q4_opts){.percentile = rules[i].percentile, .half_source = rules[i].half, .importance = columns};
		k.ctx.threads = 1;
		double one = speed(q4_0, &k);
		k.ctx.threads = 0;
		double all = speed(q4_0, &k);
		printf("q4_0 %-23s %8.3f %8.3f %9.2f %8.2f\n", rules[i].name, one, all, all / plain, quality(&k, back));
	}
	static const struct {
		const char *name;
		void (*fn)(work *);
	} others[] = {{"q8_1", q8_1}, {"i8 rows", i8}, {"f16", f16}};
	for (size_t i = 0; i < QN_LEN(others); i++) {
		k.ctx.threads = 1;
		double one = speed(others[i].fn, &k);
		k.ctx.threads = 0;
		printf("%-28s %8.3f %8.3f\n", others[i].name, one, speed(others[i].fn, &k));
	}
	free(w);
	free(back);
	free(out);
	free(columns);
	return 0;
}
