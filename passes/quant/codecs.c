/* codecs.c - Q8_1, int8 per output channel and f16. Plain loops over blocks or rows, each independent of the others. */
#include "passes/quant/q4_block.h"

#include <math.h>

/* Adding and taking away 1.5 * 2^23 leaves the nearest whole number, ties to even, for |x| < 2^22. */
static float nearest(float x)
{
	return (x + 12582912.0f) - 12582912.0f;
}

static float largest(const float *v, int64_t n, bool *finite)
{
	float m = 0;
	*finite = true;
	for (int64_t i = 0; i < n; i++) {
		float a = fabsf(v[i]);
		*finite &= a < INFINITY;
		m = a > m ? a : m;
	}
	return m;
}

static void q8_1_block(const float *v, int64_t block, uint8_t *out, qn_quant_report *r)
{
	bool finite;
	float amax = largest(v, QN_BLOCK, &finite);
	if (!finite) {
		qn_report_bad(r, v, QN_BLOCK, block * QN_BLOCK);
		amax = 0;
	}
	float d = amax / 127, divisor = d == 0 ? 1 : d;
	int32_t sum = 0;
	for (int i = 0; i < QN_BLOCK; i++) {
		float c = d == 0 ? 0 : nearest(v[i] / divisor); /* d is 0 for zeros, and where the division underflows */
		c = c > 127 ? 127 : c < -127 ? -127 : c;
		sum += (int32_t)c;
		out[4 + i] = (uint8_t)(int8_t)c;
	}
	uint16_t scale = qn_f32_to_f16(d), total = qn_f32_to_f16((float)sum * d);
	qn_put_u16(out, scale);
	qn_put_u16(out + 2, total);
	/* a sum that f16 cannot hold spoils the block as an infinite scale does */
	bool sum_lost = (total & 0x7fff) >= 0x7c00;
	qn_report_scale(r, block, sum_lost ? INFINITY : d, scale, amax != 0);
}

qn_status qn_quantize_q8_1(qn_ctx *ctx, const float *w, int64_t n, uint8_t *blocks, qn_quant_report *report)
{
	if (n < 0 || n % QN_BLOCK)
		QN_FAIL(ctx, QUERN_ERR_SHAPE, "q8_1 needs a multiple of %d values, got %lld", QN_BLOCK, (long long)n);
	qn_quant_report all;
	qn_report_init(&all);
	int threads = qn_quant_threads(ctx);
#pragma omp parallel num_threads(threads) if (n > 1 << 14)
	{
		qn_quant_report r;
		qn_report_init(&r);
#pragma omp for schedule(static) nowait
		for (int64_t b = 0; b < n / QN_BLOCK; b++)
			q8_1_block(w + b * QN_BLOCK, b, blocks + b * QN_Q8_1_BYTES, &r);
#pragma omp critical(qn_quant_report)
		qn_report_merge(&all, &r);
	}
	return qn_report_give(ctx, &all, report);
}

void qn_dequantize_q8_1(qn_ctx *ctx, const uint8_t *blocks, int64_t n, float *out)
{
	int threads = qn_quant_threads(ctx);
#pragma omp parallel for schedule(static) num_threads(threads) if (n > 1 << 14)
	for (int64_t b = 0; b < n / QN_BLOCK; b++) {
		const uint8_t *block = blocks + b * QN_Q8_1_BYTES;
		float d = qn_f16_to_f32(qn_get_u16(block));
		for (int i = 0; i < QN_BLOCK; i++)
			out[b * QN_BLOCK + i] = (float)(int8_t)block[4 + i] * d;
	}
}

/* The scale, and the codes of one row. f32 scales are only weak where they underflow. */
static float i8_row(const float *v, int64_t row, int64_t cols, float limit, float min_scale, int8_t *codes, qn_quant_report *r)
{
	bool finite;
	float amax = largest(v, cols, &finite), scale = amax / limit;
	r->scales++;
	if (!finite) {
		qn_report_bad(r, v, cols, row * cols);
		amax = scale = 0;
	}
	scale = scale > min_scale ? scale : min_scale;
	if (scale == 0 && amax != 0) {
		qn_quant_report lost = {.flushed = 1, .first_bad = -1, .first_weak = row};
		qn_report_merge(r, &lost);
	}
	scale = scale > 0 ? scale : 1;
	for (int64_t i = 0; codes && i < cols; i++) {
		float c = nearest((finite ? v[i] : 0) / scale);
		c = c < limit ? c : limit;
		codes[i] = (int8_t)(c > -limit ? c : -limit);
	}
	qn_quant_report range = {.first_bad = -1, .first_weak = -1, .scale_min = scale, .scale_max = scale};
	qn_report_merge(r, &range);
	return scale;
}

qn_status qn_quantize_i8_rows(qn_ctx *ctx, const float *w, int64_t rows, int64_t cols, int bits, float min_scale, int8_t *codes,
	float *scales, qn_quant_report *report)
{
	if (bits < 2 || bits > 8)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "bits %d out of range for i8: 2 to 8", bits);
	if (!(min_scale >= 0) || isinf(min_scale))
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "smallest scale %g out of range: 0 or more", (double)min_scale);
	qn_quant_report all;
	qn_report_init(&all);
	float limit = (float)((1 << (bits - 1)) - 1);
	int threads = qn_quant_threads(ctx);
#pragma omp parallel num_threads(threads) if (rows * cols > 1 << 14)
	{
		qn_quant_report r;
		qn_report_init(&r);
#pragma omp for schedule(static) nowait
		for (int64_t i = 0; i < rows; i++)
			scales[i] = i8_row(w + i * cols, i, cols, limit, min_scale, codes ? codes + i * cols : NULL, &r);
#pragma omp critical(qn_quant_report)
		qn_report_merge(&all, &r);
	}
	return qn_report_give(ctx, &all, report);
}

qn_status qn_quantize_f16(qn_ctx *ctx, const float *w, int64_t n, uint16_t *out, qn_quant_report *report)
{
	qn_quant_report all;
	qn_report_init(&all);
	int threads = qn_quant_threads(ctx);
#pragma omp parallel num_threads(threads) if (n > 1 << 14)
	{
		qn_quant_report r;
		qn_report_init(&r);
		unsigned least = 0x7fff, most = 0;
		int64_t usual = 0;
#pragma omp for schedule(static) nowait
		for (int64_t i = 0; i < n; i++) {
			uint16_t h = out[i] = qn_f32_to_f16(w[i]);
			unsigned a = h & 0x7fffu;
			if (a - 0x400u < 0x7c00u - 0x400u) {
				usual++;
				least = a < least ? a : least;
				most = a > most ? a : most;
			} else if (isfinite(w[i])) {
				qn_report_scale(&r, i, w[i], h, w[i] != 0);
			} else {
				qn_report_bad(&r, w + i, 1, i);
			}
		}
		if (usual)
			qn_report_usual(&r, usual, (uint16_t)least, (uint16_t)most);
#pragma omp critical(qn_quant_report)
		qn_report_merge(&all, &r);
	}
	return qn_report_give(ctx, &all, report);
}
