/* test_quant.c - the kernels: fast against plain, plain against the published rules, errors below ceilings, what does not fit reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "passes/quant/quant.h"
#include "quant_data.h"

#include <stdlib.h>

enum { ROWS = 60, COLS = 256, COUNT = ROWS * COLS, BLOCKS = COUNT / QN_BLOCK };
enum { SEED = 20240229 };

static qn_ctx ctx;
static float w[COUNT], back[COUNT], importance[COLS];
static uint8_t a[BLOCKS * QN_Q4_0_BYTES], b[BLOCKS * QN_Q4_0_BYTES];

static int setup(void **state)
{
	(void)state;
	seeded s = {SEED};
	ctx.threads = 2;
	for (int i = 0; i < COLS; i++)
		importance[i] = i % 7 ? expf(2 * normal(&s)) : 0;
	return 0;
}

static double weighted_error(const uint8_t *blocks, const float *weight)
{
	double sum = 0;
	qn_dequantize_q4_0(&ctx, blocks, COUNT, false, back);
	for (int i = 0; i < COUNT; i++)
		sum += (weight ? (double)weight[i % COLS] : 1) * ((double)w[i] - (double)back[i]) * ((double)w[i] - (double)back[i]);
	return sum;
}

static void test_fast_equals_plain(void **state)
{
	(void)state;
	for (int kind = 0; kind < KINDS; kind++)
		for (int rounding = QN_ROUND_MINMAX; rounding <= QN_ROUND_IMPORTANCE; rounding++)
			for (int bits = 1; bits <= 4; bits++)
				for (int variant = 0; variant < (rounding == QN_ROUND_MINMAX ? 4 : 1); variant++) {
					seeded s = {SEED + (uint64_t)kind};
					fill(&s, kind, w, COUNT);
					qn_q4_opts o = {.bits = bits,
						.importance = importance,
						.percentile = variant & 1 ? 0.93 : 1,
						.half_source = variant & 2};
					qn_quant_report fast, plain;
					memset(a, 1, sizeof a);
					memset(b, 2, sizeof b);
					ctx.threads = 1 + (kind + bits) % 3;
					assert_int_equal(
						qn_quantize_q4_0(&ctx, w, ROWS, COLS, (qn_rounding)rounding, &o, a, &fast), QUERN_OK);
					assert_int_equal(
						qn_quantize_q4_0_reference(&ctx, w, ROWS, COLS, (qn_rounding)rounding, &o, b, &plain),
						QUERN_OK);
					if (memcmp(a, b, sizeof a) || memcmp(&fast, &plain, sizeof fast))
						fail_msg("%s, rounding %d, %d bits, variant %d (seed %d)", kind_names[kind], rounding, bits,
							variant, SEED);
				}
}

/* ggml's rule in its own words: reciprocal of the f32 scale, truncation after adding 8.5, at most 15. */
static void published_signed(const float *v, uint8_t *out)
{
	float most = 0, of = 0;
	for (int i = 0; i < 32; i++)
		if (most < fabsf(v[i])) {
			most = fabsf(v[i]);
			of = v[i];
		}
	float d = of / -8, id = d != 0 ? 1 / d : 0;
	qn_put_u16(out, qn_f32_to_f16(d));
	for (int i = 0; i < 16; i++) {
		int low = (int8_t)(v[i] * id + 8.5f), high = (int8_t)(v[16 + i] * id + 8.5f);
		out[2 + i] = (uint8_t)((low < 15 ? low : 15) | (high < 15 ? high : 15) << 4);
	}
}

static void test_signed_is_the_published_rule(void **state)
{
	(void)state;
	for (int kind = 0; kind < KINDS; kind++) {
		seeded s = {SEED};
		qn_quant_report r;
		fill(&s, kind, w, COUNT);
		assert_int_equal(qn_quantize_q4_0(&ctx, w, ROWS, COLS, QN_ROUND_SIGNED, NULL, a, &r), QUERN_OK);
		for (int i = 0; i < BLOCKS; i++)
			published_signed(w + i * QN_BLOCK, b + i * QN_Q4_0_BYTES);
		if (memcmp(a, b, sizeof a))
			fail_msg("%s", kind_names[kind]);
	}
}

/* Least error over every f16 scale of both signs and both families of levels */
static double exhaustive(const float *v, const float *weight, int bits)
{
	double best = INFINITY;
	float most = 0;
	for (int i = 0; i < QN_BLOCK; i++)
		most = fmaxf(most, fabsf(v[i]));
	for (int odd = 0; odd <= (bits < 4); odd++)
		for (unsigned h = 1; h < 0x7c00; h++)
			for (int sign = -1; sign <= 1 - 2 * odd; sign += 2) {
				float d = (float)sign * qn_f16_to_f32((uint16_t)h);
				int last = (1 << bits) - 1, low = odd ? -last : -(1 << (bits - 1)), step = 1 + odd;
				double e = 0;
				if (fabsf(d) < most / 50 || fabsf(d) > most * 3)
					continue;
				for (int i = 0; i < QN_BLOCK && e < best; i++) {
					double k = nearbyint(((double)v[i] / (double)d - low) / step);
					double x = (double)v[i] - (low + step * fmin(fmax(k, 0), last)) * (double)d;
					e += (weight ? (double)weight[i] : 1) * x * x;
				}
				best = fmin(best, e);
			}
	return best;
}

/* How far the search may be from the exhaustive optimum, summed over blocks */
#define SEARCH_CEILING 1.03

static void test_mse_is_near_the_optimum(void **state)
{
	(void)state;
	enum { FEW = 10 };
	float weight[QN_BLOCK];
	seeded s = {SEED};
	for (int i = 0; i < QN_BLOCK; i++)
		weight[i] = expf(normal(&s));
	for (int kind = NORMAL; kind <= HEAVY; kind++)
		for (int bits = 1; bits <= 4; bits++)
			for (int weighted = 0; weighted < 2; weighted++) {
				const float *iw = weighted ? weight : NULL;
				qn_q4_opts o = {.bits = bits, .importance = weight};
				qn_quant_report r;
				double got = 0, least = 0;
				fill(&s, kind, w, FEW * QN_BLOCK);
				assert_int_equal(
					qn_quantize_q4_0(&ctx, w, FEW, QN_BLOCK, weighted ? QN_ROUND_IMPORTANCE : QN_ROUND_MSE, &o, a, &r),
					QUERN_OK);
				qn_dequantize_q4_0(&ctx, a, FEW * QN_BLOCK, false, back);
				for (int i = 0; i < FEW * QN_BLOCK; i++)
					got += (iw ? (double)iw[i % QN_BLOCK] : 1) * pow((double)w[i] - (double)back[i], 2);
				for (int i = 0; i < FEW; i++)
					least += exhaustive(w + i * QN_BLOCK, iw, bits);
				if (got > least * SEARCH_CEILING)
					fail_msg("%s, %d bits, weighted %d: %g times the optimum", kind_names[kind], bits, weighted,
						got / least);
			}
}

/* Root of the mean squared error over that of the weights, normal weights in blocks of 32 */
static const double signed_ceiling[5] = {[1] = 0.82, [2] = 0.37, [3] = 0.18, [4] = 0.087};
static const double mse_ceiling[5] = {[1] = 0.60, [2] = 0.32, [3] = 0.16, [4] = 0.082};

static void test_error_ceilings(void **state)
{
	(void)state;
	seeded s = {SEED};
	fill(&s, NORMAL, w, COUNT);
	double signal, noise;
	for (int bits = 1; bits <= 4; bits++) {
		qn_q4_opts o = {.bits = bits, .importance = importance};
		qn_quant_report r;
		assert_int_equal(qn_quantize_q4_0(&ctx, w, ROWS, COLS, QN_ROUND_SIGNED, &o, a, &r), QUERN_OK);
		double signed_error = weighted_error(a, NULL), signed_weighted = weighted_error(a, importance);
		qn_quant_error(&ctx, w, back, COUNT, &signal, &noise);
		assert_true(fabs(noise / signed_error - 1) < 1e-12);
		assert_true(sqrt(noise / signal) < signed_ceiling[bits]);
		assert_int_equal(qn_quantize_q4_0(&ctx, w, ROWS, COLS, QN_ROUND_MSE, &o, a, &r), QUERN_OK);
		assert_true(weighted_error(a, NULL) < signed_error);
		assert_true(sqrt(weighted_error(a, NULL) / signal) < mse_ceiling[bits]);
		double mse_weighted = weighted_error(a, importance);
		assert_int_equal(qn_quantize_q4_0(&ctx, w, ROWS, COLS, QN_ROUND_IMPORTANCE, &o, a, &r), QUERN_OK);
		assert_true(weighted_error(a, importance) < mse_weighted && mse_weighted < signed_weighted);
	}
}

static void test_codes_stay_among_the_levels(void **state)
{
	(void)state;
	seeded s = {SEED};
	fill(&s, HEAVY, w, COUNT);
	for (int bits = 1; bits <= 3; bits++)
		for (int rounding = QN_ROUND_MINMAX; rounding <= QN_ROUND_MSE; rounding++) {
			qn_q4_opts o = {.bits = bits};
			qn_quant_report r;
			assert_int_equal(qn_quantize_q4_0(&ctx, w, ROWS, COLS, (qn_rounding)rounding, &o, a, &r), QUERN_OK);
			for (int i = 0; i < BLOCKS; i++) {
				uint8_t codes[QN_BLOCK];
				unsigned seen = 0;
				qn_q4_0_unpack(a + i * QN_Q4_0_BYTES + 2, codes);
				for (int k = 0; k < QN_BLOCK; k++)
					seen |= 1u << codes[k];
				assert_true(__builtin_popcount(seen) <= 1 << bits);
			}
		}
}

static void test_nibble_orders(void **state)
{
	(void)state;
	uint8_t codes[QN_BLOCK], block[QN_Q4_0_BYTES] = {7, 9}, old[QN_Q4_0_BYTES];
	for (int i = 0; i < QN_BLOCK; i++)
		codes[i] = (uint8_t)(i * 5 % 16);
	qn_q4_0_pack(codes, block + 2);
	assert_int_equal(block[2 + 3], codes[3] | codes[19] << 4);
	memcpy(old, block, sizeof old);
	qn_q4_0_to_legacy(old, 1);
	assert_int_equal(old[0], 7);
	for (int i = 0; i < QN_BLOCK / 2; i++)
		assert_int_equal(old[2 + i], codes[2 * i] | codes[2 * i + 1] << 4);
	qn_q4_0_from_legacy(old, 1);
	assert_memory_equal(old, block, sizeof block);
}

static void test_options_are_checked(void **state)
{
	(void)state;
	qn_quant_report r;
	float bad[COLS] = {1, -1};
	assert_int_equal(qn_quantize_q4_0(&ctx, w, 2, 48, QN_ROUND_SIGNED, NULL, a, &r), QUERN_ERR_SHAPE);
	assert_int_equal(qn_quantize_q4_0(&ctx, w, 2, 32, QN_ROUND_SIGNED, &(qn_q4_opts){.bits = 5}, a, &r), QUERN_ERR_CONFIG);
	assert_int_equal(qn_quantize_q4_0(&ctx, w, 2, 32, QN_ROUND_MINMAX, &(qn_q4_opts){.percentile = 1.5}, a, &r), QUERN_ERR_CONFIG);
	assert_int_equal(
		qn_quantize_q4_0(&ctx, w, 2, 32, QN_ROUND_MINMAX, &(qn_q4_opts){.percentile = (double)NAN}, a, &r), QUERN_ERR_CONFIG);
	assert_int_equal(qn_quantize_q4_0(&ctx, w, 2, 32, QN_ROUND_IMPORTANCE, NULL, a, &r), QUERN_ERR_CONFIG);
	assert_int_equal(qn_quantize_q4_0(&ctx, w, 2, 32, QN_ROUND_IMPORTANCE, &(qn_q4_opts){.importance = bad}, a, &r), QUERN_ERR_NUMERIC);
	assert_non_null(strstr(ctx.message, "column 1"));
	assert_int_equal(qn_quantize_q4_0(&ctx, w, 0, 32, QN_ROUND_SIGNED, NULL, a, NULL), QUERN_OK);
}

/* Every rounding reports the same trouble, and fails when nobody takes the report. */
static void test_trouble_is_reported(void **state)
{
	(void)state;
	for (int rounding = QN_ROUND_MINMAX; rounding <= QN_ROUND_IMPORTANCE; rounding++) {
		qn_q4_opts o = {.importance = importance};
		qn_quant_report r;
		qn_rounding how = (qn_rounding)rounding;
		for (int i = 0; i < COUNT; i++)
			w[i] = 0.5f;
		assert_int_equal(qn_quantize_q4_0(&ctx, w, ROWS, COLS, how, &o, a, NULL), QUERN_OK);
		w[COLS + 70] = NAN;
		w[COLS + 71] = -INFINITY;
		w[5 * COLS] = INFINITY;
		assert_int_equal(qn_quantize_q4_0(&ctx, w, ROWS, COLS, how, &o, a, &r), QUERN_OK);
		assert_int_equal(r.bad_values, 3);
		assert_int_equal(r.first_bad, COLS + 70);
		assert_int_equal(r.scales, BLOCKS);
		assert_int_equal(qn_quant_check(&ctx, "w", &r, false), QUERN_ERR_NUMERIC);
		assert_non_null(strstr(ctx.message, "'w': 3 values are NaN or infinite, the first at flat index 326"));
		assert_int_equal(qn_quantize_q4_0(&ctx, w, ROWS, COLS, how, &o, a, NULL), QUERN_ERR_NUMERIC);
		qn_dequantize_q4_0(&ctx, a, COUNT, false, back);
		for (int i = 0; i < COUNT; i++)
			assert_true(isfinite(back[i]));
		w[COLS + 70] = w[COLS + 71] = w[5 * COLS] = 0.5f;
		w[64] = 1e6f;
		for (int i = 0; i < 2 * QN_BLOCK; i++)
			w[3 * QN_BLOCK + i] = i < QN_BLOCK ? 1e-5f : 1e-9f;
		assert_int_equal(qn_quantize_q4_0(&ctx, w, ROWS, COLS, how, &o, a, &r), QUERN_OK);
		assert_int_equal(r.overflowed, 1);
		assert_int_equal(r.subnormal, 1);
		assert_int_equal(r.flushed, 1);
		assert_int_equal(r.first_weak, 2);
		assert_int_equal(qn_quant_check(&ctx, "w", &r, false), QUERN_ERR_NUMERIC);
		w[64] = 0.5f;
		assert_int_equal(qn_quantize_q4_0(&ctx, w, ROWS, COLS, how, &o, a, &r), QUERN_OK);
		assert_int_equal(qn_quant_check(&ctx, "w", &r, false), QUERN_OK);
		assert_int_equal(qn_quant_check(&ctx, "w", &r, true), QUERN_ERR_NUMERIC);
		assert_int_equal(qn_quantize_q4_0(&ctx, w, ROWS, COLS, how, &o, a, NULL), QUERN_ERR_NUMERIC);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fast_equals_plain),
		cmocka_unit_test(test_signed_is_the_published_rule),
		cmocka_unit_test(test_mse_is_near_the_optimum),
		cmocka_unit_test(test_error_ceilings),
		cmocka_unit_test(test_codes_stay_among_the_levels),
		cmocka_unit_test(test_nibble_orders),
		cmocka_unit_test(test_options_are_checked),
		cmocka_unit_test(test_trouble_is_reported),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
