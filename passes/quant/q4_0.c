/* q4_0.c - Q4_0 over a whole tensor: arguments, threads, nibble order, and back to floats. */
#include "passes/quant/q4_block.h"

#include <math.h>

/* Span of the scales that the search tries, in units of the scale that puts max|v| on the outermost level. Fewer levels clip more. */
static const struct span {
	float even[2], odd[2];
} spans[5] = {
	[1] = {{0.20f, 1.05f}, {0.15f, 1.05f}},
	[2] = {{0.35f, 2.10f}, {0.25f, 1.05f}},
	[3] = {{0.50f, 1.40f}, {0.40f, 1.05f}},
	[4] = {{0.55f, 1.24f}, {0, 0}},
};

static void fill_grid(qn_q4_grid *g, float low, float step, float last, int split, const float span[2])
{
	*g = (qn_q4_grid){.low = low, .step = step, .last = last, .split = split};
	for (int c = 0; c < QN_Q4_CANDIDATES; c++) {
		int families = QN_Q4_CANDIDATES / split, of = QN_Q4_CANDIDATES / families;
		float f = span[0] + (span[1] - span[0]) * (float)(c % of) / (float)(of - 1);
		g->factor[c] = f / (c < split ? low : -low);
	}
}

/* Columns that the samples never excited still matter a little: their weight is raised to a thousandth of the mean. */
static qn_status take_importance(qn_ctx *ctx, qn_q4_job *job, const float *importance)
{
	if (!importance)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "rounding 'importance' needs a weight for each column; calibrate, or use 'mse'");
	double sum = 0;
	for (int64_t i = 0; i < job->cols; i++) {
		if (!(importance[i] >= 0) || isinf(importance[i]))
			QN_FAIL(ctx, QUERN_ERR_NUMERIC, "importance of column %lld is %g, not a finite number >= 0", (long long)i,
				(double)importance[i]);
		sum += (double)importance[i];
	}
	if (sum <= 0)
		return QUERN_OK; /* nothing was excited: all columns alike */
	job->weight = importance;
	job->weight_floor = (float)(sum / (double)job->cols * 1e-3);
	return QUERN_OK;
}

qn_status qn_q4_job_init(qn_ctx *ctx, qn_q4_job *job, int64_t rows, int64_t cols, qn_rounding rounding, const qn_q4_opts *opts)
{
	static const qn_q4_opts none;
	const qn_q4_opts *o = opts ? opts : &none;
	int bits = o->bits ? o->bits : 4;
	double p = o->percentile != 0 ? o->percentile : 1;
	if (rows < 0 || cols < 0 || cols % QN_BLOCK)
		QN_FAIL(ctx, QUERN_ERR_SHAPE, "q4_0 needs rows of a multiple of %d values, got %lld", QN_BLOCK, (long long)cols);
	if (bits < 1 || bits > 4)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "bits %d out of range for q4_0: 1 to 4", bits);
	if (!(p > 0 && p <= 1))
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "percentile %g out of range: above 0, at most 1", p);
	*job = (qn_q4_job){.rounding = rounding,
		.bits = bits,
		.half = (float)(1 << bits) / 2,
		.rank = (float)p * (QN_BLOCK - 1),
		.half_source = o->half_source,
		.cols = cols};
	float n = (float)(1 << bits);
	job->n_grids = bits < 4 ? 2 : 1;
	fill_grid(&job->grid[0], -job->half, 1, n - 1, QN_Q4_CANDIDATES / 2, spans[bits].even);
	if (bits < 4) /* symmetric levels: the sign of the scale changes nothing */
		fill_grid(&job->grid[1], 1 - n, 2, n - 1, QN_Q4_CANDIDATES, spans[bits].odd);
	if (rounding == QN_ROUND_IMPORTANCE)
		QN_TRY(take_importance(ctx, job, o->importance));
	return QUERN_OK;
}

qn_status qn_quantize_q4_0_reference(qn_ctx *ctx, const float *w, int64_t rows, int64_t cols, qn_rounding rounding, const qn_q4_opts *opts,
	uint8_t *blocks, qn_quant_report *report)
{
	qn_q4_job job;
	qn_quant_report r;
	QN_TRY(qn_q4_job_init(ctx, &job, rows, cols, rounding, opts));
	qn_report_init(&r);
	qn_q4_reference_blocks(&job, w, 0, rows * (cols / QN_BLOCK), blocks, &r);
	return qn_report_give(ctx, &r, report);
}

qn_status qn_quantize_q4_0(qn_ctx *ctx, const float *w, int64_t rows, int64_t cols, qn_rounding rounding, const qn_q4_opts *opts,
	uint8_t *blocks, qn_quant_report *report)
{
	enum { CHUNK = 128 }; /* 16 KiB of floats */
	qn_q4_job job;
	qn_quant_report all;
	QN_TRY(qn_q4_job_init(ctx, &job, rows, cols, rounding, opts));
	qn_report_init(&all);
	int64_t n = rows * (cols / QN_BLOCK);
	int threads = qn_quant_threads(ctx);
#pragma omp parallel num_threads(threads) if (n > 2 * CHUNK)
	{
		qn_quant_report r;
		qn_report_init(&r);
#pragma omp for schedule(static) nowait
		for (int64_t at = 0; at < n; at += CHUNK)
			qn_q4_fast_blocks(&job, w, at, n - at < CHUNK ? n - at : CHUNK, blocks, &r);
#pragma omp critical(qn_quant_report)
		qn_report_merge(&all, &r);
	}
	return qn_report_give(ctx, &all, report);
}

void qn_q4_0_pack(const uint8_t codes[QN_BLOCK], uint8_t bytes[QN_BLOCK / 2])
{
	for (int i = 0; i < QN_BLOCK / 2; i++)
		bytes[i] = (uint8_t)(codes[i] | codes[i + QN_BLOCK / 2] << 4);
}

void qn_q4_0_unpack(const uint8_t bytes[QN_BLOCK / 2], uint8_t codes[QN_BLOCK])
{
	for (int i = 0; i < QN_BLOCK / 2; i++) {
		codes[i] = bytes[i] & 15;
		codes[i + QN_BLOCK / 2] = bytes[i] >> 4;
	}
}

void qn_dequantize_q4_0(qn_ctx *ctx, const uint8_t *blocks, int64_t n, bool half_products, float *out)
{
	int64_t n_blocks = n / QN_BLOCK;
	int threads = qn_quant_threads(ctx);
#pragma omp parallel for schedule(static) num_threads(threads) if (n_blocks > 256)
	for (int64_t b = 0; b < n_blocks; b++) {
		const uint8_t *block = blocks + b * QN_Q4_0_BYTES;
		float scale = qn_f16_to_f32(qn_get_u16(block)), *v = out + b * QN_BLOCK;
		uint8_t codes[QN_BLOCK];
		qn_q4_0_unpack(block + 2, codes);
		for (int i = 0; i < QN_BLOCK; i++)
			v[i] = (float)(codes[i] - 8) * scale;
		for (int i = 0; half_products && i < QN_BLOCK; i++)
			v[i] = qn_f16_to_f32(qn_f32_to_f16(v[i]));
	}
}

void qn_q4_0_to_legacy(uint8_t *blocks, int64_t n_blocks)
{
	for (int64_t b = 0; b < n_blocks; b++) {
		uint8_t codes[QN_BLOCK], *bytes = blocks + b * QN_Q4_0_BYTES + 2;
		qn_q4_0_unpack(bytes, codes);
		for (int i = 0; i < QN_BLOCK / 2; i++)
			bytes[i] = (uint8_t)(codes[2 * i] | codes[2 * i + 1] << 4);
	}
}

void qn_q4_0_from_legacy(uint8_t *blocks, int64_t n_blocks)
{
	for (int64_t b = 0; b < n_blocks; b++) {
		uint8_t codes[QN_BLOCK], *bytes = blocks + b * QN_Q4_0_BYTES + 2;
		for (int i = 0; i < QN_BLOCK / 2; i++) {
			codes[2 * i] = bytes[i] & 15;
			codes[2 * i + 1] = bytes[i] >> 4;
		}
		qn_q4_0_pack(codes, bytes);
	}
}
