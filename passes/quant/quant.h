/* quant.h - numeric kernels: floats to the storage forms of the target, and back.
 *
 * All run on OpenMP threads (ctx->threads, 0: all) and give the same bytes at any thread count and on any instruction set. None allocates.
 * What a form cannot hold is never silent: it is counted in the caller's report; a caller that passes no report gets a failure instead. */
#ifndef QN_QUANT_H
#define QN_QUANT_H

#include "graph/base.h"

enum { QN_BLOCK = 32, QN_Q4_0_BYTES = 18, QN_Q8_1_BYTES = 36 };
_Static_assert(QN_Q4_0_BYTES == sizeof(uint16_t) + QN_BLOCK / 2, "an f16 scale and 32 nibbles");
_Static_assert(QN_Q8_1_BYTES == 2 * sizeof(uint16_t) + QN_BLOCK, "an f16 scale, an f16 sum and 32 bytes");

/* How a Q4_0 block gets its scale and codes. v: the 32 values, h = 2^bits / 2, code c stands for (c - h) * scale.
 * MINMAX     torch_to_nnef: scale = f16(quantile(|v|) / -h); codes floor(v * f16(1 / scale) + h + 1/2), clamped.
 * SIGNED     ggml's reference and tract: d = (the first v of the largest magnitude) / -h in f32; codes (int)(v * (1 / d) + h + 1/2), at
 * most 2^bits - 1; the file holds f16(d). MSE        the f16 scale of either sign, and the nearest codes, of the least squared error found
 * by a search over scales and least-squares refits. IMPORTANCE the same with each column's squared error weighted (by the mean square of
 * the activation that meets it). Below 4 bits, MSE and IMPORTANCE also try the odd levels (-2^bits + 1, ..., -1, 1, ..., 2^bits - 1), which
 * the container holds as well. */
typedef enum qn_rounding {
	QN_ROUND_MINMAX, QN_ROUND_SIGNED, QN_ROUND_MSE, QN_ROUND_IMPORTANCE,
	QN_ROUND_GPTQ /* by whole layers, see passes/gptq: no block quantizer takes it */
} qn_rounding;

typedef struct qn_q4_opts {
	double percentile;       /* MINMAX: 0 < p <= 1; 0 counts as 1 */
	int bits;                /* 1..4: 2^bits levels within the 4-bit container; 0 counts as 4 */
	const float *importance; /* IMPORTANCE: a weight >= 0 for each column; else NULL */
	bool half_source;        /* MINMAX: the weights came as f16, whose products the rule rounds to f16 */
} qn_q4_opts;

/* What went wrong on the way into a narrow form. Zeroed by the kernel that fills it. A "scale" is a block's or a row's; for plain f16 it is
 * the value itself. */
typedef struct qn_quant_report {
	int64_t scales;
	int64_t bad_values;         /* NaN or infinite inputs; their blocks or rows are stored as zeros */
	int64_t first_bad;          /* flat index of the first, -1 when there is none */
	int64_t overflowed;         /* scales (or Q8_1 sums) too large for f16 */
	int64_t subnormal;          /* scales stored below 2^-14, with fewer significant bits */
	int64_t flushed;            /* scales that became 0 though the values are not */
	int64_t first_weak;         /* index of the first overflowed, subnormal or flushed scale, -1 when there is none */
	float scale_min, scale_max; /* smallest and largest stored |scale| other than 0; both 0 when all are */
} qn_quant_report;

/* rows x cols floats to rows * cols / 32 blocks of 18 bytes, nibbles as ggml and tract order them (byte i: value i low, i + 16 high). cols
 * must be a multiple of 32 (QUERN_ERR_SHAPE). opts may be NULL. QUERN_ERR_CONFIG for options out of range. */
qn_status qn_quantize_q4_0(qn_ctx *ctx, const float *w, int64_t rows, int64_t cols, qn_rounding rounding, const qn_q4_opts *opts,
	uint8_t *blocks, qn_quant_report *report);
/* The definition of the bytes: one plain scalar loop, same arguments. Slow; the tests hold the one above against it. */
qn_status qn_quantize_q4_0_reference(qn_ctx *ctx, const float *w, int64_t rows, int64_t cols, qn_rounding rounding, const qn_q4_opts *opts,
	uint8_t *blocks, qn_quant_report *report);
/* `n` values from n / 32 blocks. half_products: (code - 8) * scale rounded to f16, as engines on ARM do; else exact in f32. */
void qn_dequantize_q4_0(qn_ctx *ctx, const uint8_t *blocks, int64_t n, bool half_products, float *out);
/* Reorders the nibbles of `n_blocks` blocks in place from ggml's order to plain order (byte i: value 2i low, 2i + 1 high: item type
 * 0x2040), and back. */
void qn_q4_0_to_legacy(uint8_t *blocks, int64_t n_blocks);
void qn_q4_0_from_legacy(uint8_t *blocks, int64_t n_blocks);
/* 32 codes 0..15 of a group to and from the 16 bytes of a block. */
void qn_q4_0_pack(const uint8_t codes[QN_BLOCK], uint8_t bytes[QN_BLOCK / 2]);
void qn_q4_0_unpack(const uint8_t bytes[QN_BLOCK / 2], uint8_t codes[QN_BLOCK]);

/* n values (a multiple of 32) to Q8_1 blocks: d = max|v| / 127, codes round(v / d) to nearest even, then f16(d), f16(d * sum of codes), 32
 * x i8. */
qn_status qn_quantize_q8_1(qn_ctx *ctx, const float *w, int64_t n, uint8_t *blocks, qn_quant_report *report);
void qn_dequantize_q8_1(qn_ctx *ctx, const uint8_t *blocks, int64_t n, float *out);

/* One f32 scale a row (an output channel): scale = max(max|row| / (2^(bits-1) - 1), min_scale), codes round(v / scale) to nearest even,
 * symmetric and clamped. bits 2..8. A row of zeros with min_scale 0 gets scale 1. codes NULL: only the scales. */
qn_status qn_quantize_i8_rows(qn_ctx *ctx, const float *w, int64_t rows, int64_t cols, int bits, float min_scale, int8_t *codes,
	float *scales, qn_quant_report *report);

/* To f16, nearest even. Values past 65504 become infinite and are counted as overflowed. */
qn_status qn_quantize_f16(qn_ctx *ctx, const float *w, int64_t n, uint16_t *out, qn_quant_report *report);

/* QUERN_ERR_NUMERIC with a text that names the tensor when the report holds a bad value or an overflow, or (strict) any weak scale; else
 * QUERN_OK. */
qn_status qn_quant_check(qn_ctx *ctx, const char *name, const qn_quant_report *report, bool strict);

/* Sum of squares of the exact values and of the differences, in double, in an order that does not depend on threads. */
void qn_quant_error(qn_ctx *ctx, const float *exact, const float *got, int64_t n, double *signal, double *noise);
/* 10 log10(signal / noise); infinite without noise, NaN when either is. */
double qn_snr_db(double signal, double noise);

#endif
