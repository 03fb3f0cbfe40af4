/* test_qtensor.c - schemes, tensors, compressors and files through the public header; the golden files byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/npy.h"
#include "passes/context.h"
#include "quant_data.h"
#include <quern/quern.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define GOLDEN QUERN_SOURCE_DIR "/tests/golden/q4_0/"

static const struct golden {
	const char *name, *percentile;
} cases[] = {
	{"normal_64x128", "1.0"},
	{"normal_64x128", "0.99"},
	{"normal_64x128", "0.9"},
	{"heavy_tail_48x96", "1.0"},
	{"heavy_tail_48x96", "0.999"},
	{"zeros_4x64", "1.0"},
	{"edges_8x64", "1.0"},
	{"tiny_4x32", "1.0"},
	{"subnormal_scale_4x32", "1.0"},
	{"large_4x32", "1.0"},
	{"conv_16x8x4", "1.0"},
	{"conv_8x4x4x2", "1.0"},
	{"f16_16x64", "1.0"},
};

static quern_context *ctx;
static qn_arena arena;

static int setup(void **state)
{
	(void)state;
	ctx = quern_open(NULL);
	qn_arena_init(&arena, &ctx->ctx);
	return ctx ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	qn_arena_release(&arena);
	quern_close(ctx);
	return 0;
}

static uint8_t *slurp(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	if (!f)
		fail_msg("%s", path);
	fseek(f, 0, SEEK_END);
	*n = (size_t)ftell(f);
	rewind(f);
	uint8_t *b = qn_arena_alloc(&arena, *n + 1);
	assert_int_equal(fread(b, 1, *n, f), *n);
	fclose(f);
	return b;
}

static quern_floats floats(quern_element type, const void *data, int rank, const int64_t *dim)
{
	quern_floats f = {.type = type, .rank = rank, .data = data};
	memcpy(f.dim, dim, (size_t)rank * sizeof *dim);
	return f;
}

static void expect_golden(const struct golden *g)
{
	qn_tensor in, values;
	quern_qtensor *t;
	size_t n;
	assert_int_equal(qn_npy_load(&ctx->ctx, &arena, qn_arena_printf(&arena, GOLDEN "%s.npy", g->name), &in), QUERN_OK);
	quern_floats f = floats(in.type == QN_F16 ? QUERN_F16 : QUERN_F32, in.data, in.rank, in.dim);
	assert_int_equal(quern_qtensor_min_max(ctx, &f, atof(g->percentile), &t), QUERN_OK);
	uint8_t *bytes = qn_arena_alloc(&arena, quern_qtensor_dat_bytes(t));
	for (int legacy = 0; legacy < 2; legacy++) {
		const char *path = qn_arena_printf(&arena, GOLDEN "%s.p%s.%s.dat", g->name, g->percentile, legacy ? "legacy" : "ggml");
		const uint8_t *want = slurp(path, &n);
		assert_int_equal(quern_qtensor_dat(t, legacy ? QUERN_Q4_ORDER_LEGACY : QUERN_Q4_ORDER, bytes), QUERN_OK);
		if (n != quern_qtensor_dat_bytes(t) || memcmp(bytes, want, n))
			fail_msg("%s", path);
	}
	const char *path = qn_arena_printf(&arena, GOLDEN "%s.p%s.dequant.npy", g->name, g->percentile);
	assert_int_equal(qn_npy_load(&ctx->ctx, &arena, path, &values), QUERN_OK);
	assert_int_equal(qn_tensor_count(&values), quern_qtensor_count(t));
	float *back = QN_NEW(&arena, float, quern_qtensor_count(t));
	assert_int_equal(quern_qtensor_floats(t, back), QUERN_OK);
	const float *want = qn_tensor_f32(&arena, &values);
	for (int64_t i = 0; i < quern_qtensor_count(t); i++)
		if (back[i] != want[i])
			fail_msg("%s: value %d is %.9g, not %.9g", path, (int)i, (double)back[i], (double)want[i]);
	assert_int_equal(quern_qtensor_code_bytes(t), quern_qtensor_count(t) / 2);
	quern_qtensor_free(t);
}

static void test_golden(void **state)
{
	(void)state;
	for (size_t i = 0; i < QN_LEN(cases); i++)
		expect_golden(&cases[i]);
}

static void test_scheme_of_other_widths(void **state)
{
	(void)state;
	const int64_t dim[2] = {6, 80};
	float v[480], back[480];
	uint8_t codes[480];
	seeded s = {11};
	fill(&s, HEAVY, v, 480);
	for (int i = 0; i < 480; i++)
		v[i] += v[i] < 0 ? -0.1f : 0.1f; /* no subnormal scales */
	quern_floats f = floats(QUERN_F32, v, 2, dim);
	for (int bits = 1; bits <= 8; bits++)
		for (int64_t group = 1; group <= 480; group *= bits % 2 ? 480 : 4) {
			quern_qscheme *q;
			quern_status status = quern_qscheme_min_max(ctx, &f, bits, group, 1, &q);
			if (480 % group) {
				assert_int_equal(status, QUERN_ERR_SHAPE);
				assert_null(q);
				continue;
			}
			assert_int_equal(status, QUERN_OK);
			assert_int_equal(quern_qscheme_groups(q), 480 / group);
			assert_int_equal(quern_qscheme_bits(q), bits);
			assert_int_equal(quern_qscheme_group_size(q), group);
			assert_int_equal(quern_qscheme_quantize(q, &f, codes), QUERN_OK);
			assert_int_equal(quern_qscheme_dequantize(q, codes, 480, QUERN_MACHINE_OTHER, QUERN_F32, back), QUERN_OK);
			for (int i = 0; i < 480; i++) {
				float step = fabsf(qn_f16_to_f32(quern_qscheme_scales(q)[i / group]));
				assert_true(codes[i] < 1 << bits);
				assert_true(fabsf(back[i] - v[i]) <=
					    step * 1.2f); /* the largest positive value is clipped by a step; f16 adds the rest at 8 bits */
			}
			quern_qscheme_free(q);
		}
}

/* numpy.quantile's values for a row of 5, any group size */
static void test_percentile_of_any_group(void **state)
{
	(void)state;
	const float v[10] = {3, -1, 2, -5, 4, 0.5f, 0.25f, -1, 0, 8};
	const int64_t dim[1] = {10};
	quern_floats f = floats(QUERN_F32, v, 1, dim);
	quern_qscheme *q;
	assert_int_equal(quern_qscheme_min_max(ctx, &f, 4, 5, 0.8, &q), QUERN_OK);
	assert_int_equal(quern_qscheme_scales(q)[0], qn_f32_to_f16(-4.2f / 8)); /* 1 2 3 4 5 at 3.2 */
	assert_int_equal(quern_qscheme_scales(q)[1], qn_f32_to_f16(-2.4f / 8)); /* 0 1/4 1/2 1 8 at 3.2 */
	quern_qscheme_free(q);
	for (int bad = 0; bad < 4; bad++)
		assert_int_equal(
			quern_qscheme_min_max(ctx, &f, 4, 5, (const double[]){0, -1, 1.01, (double)NAN}[bad], &q), QUERN_ERR_CONFIG);
	assert_int_equal(quern_qscheme_min_max(ctx, &f, 9, 5, 1, &q), QUERN_ERR_CONFIG);
	assert_int_equal(quern_qscheme_min_max(ctx, &f, 4, 0, 1, &q), QUERN_ERR_CONFIG);
}

static void test_scales_divided(void **state)
{
	(void)state;
	const uint16_t scales[3] = {0xb800, 0x8001, 0xfbff}; /* -0.5, the smallest, the largest */
	quern_qscheme *q, *half;
	quern_scale_report r;
	assert_int_equal(quern_qscheme_new(ctx, 4, 32, scales, 3, &q), QUERN_OK);
	assert_int_equal(quern_qscheme_divided(q, 3, &half), QUERN_OK);
	for (int i = 0; i < 3; i++)
		assert_int_equal(quern_qscheme_scales(half)[i], qn_f32_to_f16(qn_f16_to_f32(scales[i]) / 3));
	quern_qscheme_report(half, &r);
	assert_int_equal(r.flushed, 1);
	assert_int_equal(r.first_weak, 1);
	quern_qscheme_free(half);
	assert_int_equal(quern_qscheme_divided(q, 0.5, &half), QUERN_ERR_NUMERIC);
	assert_null(half);
	assert_int_equal(quern_qscheme_divided(q, 0, &half), QUERN_ERR_CONFIG);
	quern_qscheme_free(q);
}

static void test_machines(void **state)
{
	(void)state;
	const uint16_t scale = 0x2e67;
	uint8_t codes[32];
	float other[32], arm[32];
	quern_qscheme *q;
	for (int i = 0; i < 32; i++)
		codes[i] = (uint8_t)(i % 16);
	assert_int_equal(quern_qscheme_new(ctx, 4, 32, &scale, 1, &q), QUERN_OK);
	assert_int_equal(quern_qscheme_dequantize(q, codes, 32, QUERN_MACHINE_OTHER, QUERN_F32, other), QUERN_OK);
	assert_int_equal(quern_qscheme_dequantize(q, codes, 32, QUERN_MACHINE_ARM, QUERN_F32, arm), QUERN_OK);
	int differ = 0;
	for (int i = 0; i < 32; i++) {
		assert_true(other[i] == (float)(codes[i] - 8) * qn_f16_to_f32(scale));
		assert_true(arm[i] == qn_f16_to_f32(qn_f32_to_f16(other[i])));
		differ += arm[i] != other[i];
	}
	assert_true(differ > 0);
	assert_int_equal(quern_qscheme_dequantize(q, codes, 31, QUERN_MACHINE_ARM, QUERN_F32, arm), QUERN_ERR_SHAPE);
	quern_qscheme_free(q);
}

static void test_refused_values(void **state)
{
	(void)state;
	float v[64] = {1, 2, 3};
	const int64_t dim[2] = {2, 32}, narrow[2] = {4, 16}, flat[1] = {64};
	quern_floats f = floats(QUERN_F32, v, 2, dim), thin = floats(QUERN_F32, v, 2, narrow), line = floats(QUERN_F32, v, 1, flat);
	quern_qtensor *t;
	quern_qscheme *q;
	assert_int_equal(quern_qtensor_min_max(ctx, &thin, 1, &t), QUERN_ERR_SHAPE);
	assert_int_equal(quern_qtensor_min_max(ctx, &line, 1, &t), QUERN_ERR_SHAPE);
	assert_null(t);
	assert_int_equal(quern_qscheme_min_max(ctx, &f, 3, 32, 1, &q), QUERN_OK);
	assert_int_equal(quern_qtensor_new(ctx, &f, q, QUERN_MACHINE_HOST, NULL, 0, &t), QUERN_ERR_CONFIG);
	quern_qscheme_free(q);
	v[40] = NAN;
	assert_int_equal(quern_qtensor_min_max(ctx, &f, 1, &t), QUERN_ERR_NUMERIC);
	assert_non_null(strstr(quern_message(ctx), "flat index 40"));
	v[40] = 1e6f;
	assert_int_equal(quern_qtensor_min_max(ctx, &f, 1, &t), QUERN_ERR_NUMERIC);
	assert_non_null(strstr(quern_message(ctx), "too large for f16"));
}

static void test_written_twice(void **state)
{
	(void)state;
	char dir[] = "/tmp/quern-qtensor-XXXXXX";
	assert_non_null(mkdtemp(dir));
	float v[64];
	const int64_t dim[2] = {2, 32};
	seeded s = {5};
	fill(&s, NORMAL, v, 64);
	quern_floats f = floats(QUERN_F32, v, 2, dim);
	quern_qtensor *t, *other;
	assert_int_equal(quern_qtensor_min_max(ctx, &f, 1, &t), QUERN_OK);
	v[0] = 1;
	assert_int_equal(quern_qtensor_min_max(ctx, &f, 1, &other), QUERN_OK);
	assert_int_equal(quern_qtensor_write(t, dir, "a.b/weight", QUERN_Q4_ORDER), QUERN_OK);
	assert_int_equal(quern_qtensor_write(t, dir, "a.b/weight", QUERN_Q4_ORDER), QUERN_OK);
	assert_int_equal(quern_qtensor_write(t, dir, "a.b/weight", QUERN_Q4_ORDER_LEGACY), QUERN_ERR_CONFIG);
	assert_int_equal(quern_qtensor_write(other, dir, "a.b/weight", QUERN_Q4_ORDER), QUERN_ERR_CONFIG);
	assert_non_null(strstr(quern_message(ctx), "label 'a.b/weight' is taken"));
	static const char *const bad[] = {"", "/x", "../x", "a/../../x", "a//b"};
	for (size_t i = 0; i < QN_LEN(bad); i++)
		assert_int_equal(quern_qtensor_write(t, dir, bad[i], QUERN_Q4_ORDER), QUERN_ERR_CONFIG);
	size_t n;
	const char *path = qn_arena_printf(&arena, "%s/a.b/weight.dat", dir);
	uint8_t bytes[128 + 36], *file = slurp(path, &n);
	assert_int_equal(n, sizeof bytes);
	assert_int_equal(quern_qtensor_dat(t, QUERN_Q4_ORDER, bytes), QUERN_OK);
	assert_memory_equal(file, bytes, n);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(qn_arena_printf(&arena, "%s/a.b", dir)), 0);
	assert_int_equal(rmdir(dir), 0); /* nothing else was left behind */
	quern_qtensor_free(t);
	quern_qtensor_free(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_golden, setup, teardown),
		cmocka_unit_test_setup_teardown(test_scheme_of_other_widths, setup, teardown),
		cmocka_unit_test_setup_teardown(test_percentile_of_any_group, setup, teardown),
		cmocka_unit_test_setup_teardown(test_scales_divided, setup, teardown),
		cmocka_unit_test_setup_teardown(test_machines, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused_values, setup, teardown),
		cmocka_unit_test_setup_teardown(test_written_twice, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
