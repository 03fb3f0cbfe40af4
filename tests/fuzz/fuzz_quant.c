/* fuzz_quant.c - any bytes taken as floats: the fast Q4_0 quantizer equals the plain one, and finite weights without a warning come back
 * finite. */
#include "passes/quant/quant.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 8 * QN_BLOCK };

static void compare(qn_ctx *ctx, const float *w, int64_t n, qn_rounding rounding, const qn_q4_opts *o)
{
	uint8_t fast[MOST / QN_BLOCK * QN_Q4_0_BYTES], plain[sizeof fast];
	float back[MOST];
	qn_quant_report r, s;
	qn_status a = qn_quantize_q4_0(ctx, w, n / QN_BLOCK, QN_BLOCK, rounding, o, fast, &r);
	qn_status b = qn_quantize_q4_0_reference(ctx, w, n / QN_BLOCK, QN_BLOCK, rounding, o, plain, &s);
	if (a != b)
		abort();
	if (a != QUERN_OK)
		return;
	if (memcmp(fast, plain, (size_t)(n / QN_BLOCK * QN_Q4_0_BYTES)) || memcmp(&r, &s, sizeof r))
		abort();
	qn_dequantize_q4_0(ctx, fast, n, false, back);
	for (int64_t i = 0; i < n && !r.overflowed; i++)
		if (!isfinite(back[i]))
			abort();
}

/* The first byte picks bits and percentile; the rest are weights. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	qn_ctx ctx = {.threads = 1};
	float w[MOST], importance[QN_BLOCK];
	if (size < 1 + QN_BLOCK * sizeof(float))
		return 0;
	size_t n = (size - 1) / (QN_BLOCK * sizeof(float)) * QN_BLOCK;
	n = n < MOST ? n : MOST;
	memcpy(w, data + 1, n * sizeof(float));
	for (int i = 0; i < QN_BLOCK; i++)
		importance[i] = fabsf(w[QN_BLOCK - 1 - i]);
	qn_q4_opts o = {.bits = 1 + data[0] % 4,
		.percentile = (1 + data[0] / 4 % 32) / 32.0,
		.importance = importance,
		.half_source = data[0] & 0x80};
	for (int rounding = QN_ROUND_MINMAX; rounding <= QN_ROUND_IMPORTANCE; rounding++)
		compare(&ctx, w, (int64_t)n, (qn_rounding)rounding, &o);
	return 0;
}
