/* test_codecs.c - Q8_1, int8 rows and f16 against plain restatements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "passes/quant/quant.h"
#include "quant_data.h"

#include <stdlib.h>

enum { ROWS = 40, COLS = 96, COUNT = ROWS * COLS, SEED = 7 };

static qn_ctx ctx = {.threads = 2};
static float w[COUNT], back[COUNT], scales[ROWS];

/* Largest error in units of the scale, and a row's relative error, for 8 bits and normal weights */
#define HALF_STEP 0.5001
#define INT8_ERROR_CEILING 0.008

static void test_q8_1(void **state)
{
	(void)state;
	static uint8_t blocks[COUNT / QN_BLOCK * QN_Q8_1_BYTES];
	for (int kind = 0; kind < WIDE; kind++) {
		seeded s = {SEED};
		qn_quant_report r;
		fill(&s, kind, w, COUNT);
		assert_int_equal(qn_quantize_q8_1(&ctx, w, COUNT, blocks, &r), QUERN_OK);
		qn_dequantize_q8_1(&ctx, blocks, COUNT, back);
		assert_int_equal(r.scales, COUNT / QN_BLOCK);
		for (int b = 0; b < COUNT / QN_BLOCK; b++) {
			const uint8_t *block = blocks + b * QN_Q8_1_BYTES;
			float most = 0, d;
			int sum = 0;
			for (int i = 0; i < QN_BLOCK; i++)
				most = fmaxf(most, fabsf(w[b * QN_BLOCK + i]));
			d = most / 127;
			assert_int_equal(qn_get_u16(block), qn_f32_to_f16(d));
			for (int i = 0; i < QN_BLOCK; i++) {
				int c = (int8_t)block[4 + i], want = d != 0 ? (int)nearbyintf(w[b * QN_BLOCK + i] / d) : 0;
				assert_int_equal(c, want);
				assert_true(back[b * QN_BLOCK + i] == (float)c * qn_f16_to_f32(qn_get_u16(block)));
				sum += c;
			}
			assert_int_equal(qn_get_u16(block + 2), qn_f32_to_f16((float)sum * d));
		}
	}
	qn_quant_report r;
	assert_int_equal(qn_quantize_q8_1(&ctx, w, 33, blocks, &r), QUERN_ERR_SHAPE);
	for (int i = 0; i < 3 * QN_BLOCK; i++)
		w[i] = i < QN_BLOCK ? 1e9f : i < 2 * QN_BLOCK ? 60000.0f : i == 2 * QN_BLOCK + 4 ? NAN : 1;
	assert_int_equal(qn_quantize_q8_1(&ctx, w, 3 * QN_BLOCK, blocks, &r), QUERN_OK);
	assert_int_equal(r.overflowed, 2); /* a scale; a sum of 32 x 60000 */
	assert_int_equal(r.bad_values, 1);
	assert_int_equal(r.first_bad, 2 * QN_BLOCK + 4);
	assert_int_equal(qn_quantize_q8_1(&ctx, w, 3 * QN_BLOCK, blocks, NULL), QUERN_ERR_NUMERIC);
}

static void test_i8_rows(void **state)
{
	(void)state;
	static int8_t codes[COUNT];
	qn_quant_report r;
	for (int kind = 0; kind < KINDS; kind++)
		for (int bits = 2; bits <= 8; bits++) {
			seeded s = {SEED};
			float limit = (float)((1 << (bits - 1)) - 1);
			fill(&s, kind, w, COUNT);
			for (int i = 0; i < COLS; i++)
				w[3 * COLS + i] = 0;
			assert_int_equal(qn_quantize_i8_rows(&ctx, w, ROWS, COLS, bits, 0, codes, scales, &r), QUERN_OK);
			for (int row = 0; row < ROWS; row++) {
				float most = 0;
				for (int i = 0; i < COLS; i++)
					most = fmaxf(most, fabsf(w[row * COLS + i]));
				assert_true(scales[row] == (most > 0 ? most / limit : 1));
				for (int i = 0; i < COLS; i++) {
					double step = (double)w[row * COLS + i] / (double)scales[row];
					assert_true(fabs(step - codes[row * COLS + i]) <= HALF_STEP);
					assert_true(abs(codes[row * COLS + i]) <= limit);
				}
			}
		}
	seeded s = {SEED};
	double signal, noise;
	fill(&s, NORMAL, w, COUNT);
	assert_int_equal(qn_quantize_i8_rows(&ctx, w, ROWS, COLS, 8, 0, codes, scales, &r), QUERN_OK);
	for (int i = 0; i < COUNT; i++)
		back[i] = (float)codes[i] * scales[i / COLS];
	qn_quant_error(&ctx, w, back, COUNT, &signal, &noise);
	assert_true(sqrt(noise / signal) < INT8_ERROR_CEILING);
	assert_int_equal(qn_quantize_i8_rows(&ctx, w, ROWS, COLS, 8, 100, codes, scales, &r), QUERN_OK);
	assert_true(scales[0] == 100 && r.scale_min == 100 && r.scale_max == 100);
	assert_int_equal(codes[0], 0);
	assert_int_equal(qn_quantize_i8_rows(&ctx, w, ROWS, COLS, 9, 0, codes, scales, &r), QUERN_ERR_CONFIG);
	assert_int_equal(qn_quantize_i8_rows(&ctx, w, ROWS, COLS, 1, 0, codes, scales, &r), QUERN_ERR_CONFIG);
	assert_int_equal(qn_quantize_i8_rows(&ctx, w, ROWS, COLS, 8, -1, codes, scales, &r), QUERN_ERR_CONFIG);
	w[2 * COLS + 1] = INFINITY;
	assert_int_equal(qn_quantize_i8_rows(&ctx, w, ROWS, COLS, 8, 0, codes, scales, &r), QUERN_OK);
	assert_int_equal(r.first_bad, 2 * COLS + 1);
	assert_int_equal(codes[2 * COLS], 0);
	assert_int_equal(qn_quantize_i8_rows(&ctx, w, ROWS, COLS, 8, 0, codes, scales, NULL), QUERN_ERR_NUMERIC);
}

static void test_f16(void **state)
{
	(void)state;
	static uint16_t h[COUNT];
	qn_quant_report r;
	seeded s = {SEED};
	fill(&s, NORMAL, w, COUNT);
	for (int i = 0; i < COUNT; i++)
		w[i] += w[i] < 0 ? -1 : 1; /* no subnormals but those below */
	w[9] = 65504;
	assert_int_equal(qn_quantize_f16(&ctx, w, COUNT, h, NULL), QUERN_OK);
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(h[i], qn_f32_to_f16(w[i]));
	w[1] = 65520;
	w[2] = 1e-6f;
	w[3] = 1e-9f;
	w[4] = NAN;
	w[5] = 0;
	assert_int_equal(qn_quantize_f16(&ctx, w, COUNT, h, &r), QUERN_OK);
	assert_int_equal(r.overflowed, 1);
	assert_int_equal(r.subnormal, 1);
	assert_int_equal(r.flushed, 1);
	assert_int_equal(r.bad_values, 1);
	assert_int_equal(r.first_bad, 4);
	assert_int_equal(r.first_weak, 1);
	assert_int_equal(r.scales, COUNT - 1);
	assert_true(r.scale_max == 65504);
	assert_int_equal(qn_quantize_f16(&ctx, w, COUNT, h, NULL), QUERN_ERR_NUMERIC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_q8_1),
		cmocka_unit_test(test_i8_rows),
		cmocka_unit_test(test_f16),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
