/* test_tensor.c - 16-bit floats, sizes, element access and conversion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/dim.h"

#include <math.h>

static qn_ctx ctx;
static qn_arena arena;

static int setup(void **state)
{
	(void)state;
	qn_arena_init(&arena, &ctx);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	qn_arena_release(&arena);
	return 0;
}

static uint32_t bits(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

static float real(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

/* The value of a half by its definition. */
static double half_value(unsigned h)
{
	int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 1023);
	double v = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
	return h & 0x8000 ? -v : v;
}

static void test_half_exact(void **state)
{
	(void)state;
	for (unsigned h = 0; h < 0x10000; h++) {
		float f = qn_f16_to_f32((uint16_t)h);
		if ((h & 0x7c00) == 0x7c00 && (h & 0x3ff)) {
			assert_true(isnan(f));
			assert_int_equal(qn_f32_to_f16(f), h | 0x200); /* quiet, the sign and the rest kept */
		} else if ((h & 0x7c00) == 0x7c00) {
			assert_true(isinf(f) && !signbit(f) == !(h & 0x8000));
			assert_int_equal(qn_f32_to_f16(f), h);
		} else {
			assert_true((double)f == half_value(h) && !signbit(f) == !(h & 0x8000));
			assert_int_equal(qn_f32_to_f16(f), h);
		}
	}
}

/* Between each two neighbours: the middle goes to the even one, what is next to the middle to the nearer one. */
static void test_half_rounding(void **state)
{
	(void)state;
	for (unsigned h = 0; h < 0x7bff; h++) {
		float middle = (float)((half_value(h) + half_value(h + 1)) / 2); /* exact in f32 */
		assert_int_equal(qn_f32_to_f16(middle), h & 1 ? h + 1 : h);
		assert_int_equal(qn_f32_to_f16(nextafterf(middle, 0)), h);
		assert_int_equal(qn_f32_to_f16(nextafterf(middle, INFINITY)), h + 1);
		assert_int_equal(qn_f32_to_f16(-middle), 0x8000 | (h & 1 ? h + 1 : h));
	}
	assert_int_equal(qn_f32_to_f16(65519.996f), 0x7bff);
	assert_int_equal(qn_f32_to_f16(65520.0f), 0x7c00);
	assert_int_equal(qn_f32_to_f16(-1e30f), 0xfc00);
	assert_int_equal(qn_f32_to_f16(real(1)), 0);
	assert_int_equal(qn_f32_to_f16(ldexpf(1, -25)), 0);
	assert_int_equal(qn_f32_to_f16(ldexpf(1.5f, -25)), 1);
}

static void test_bfloat(void **state)
{
	(void)state;
	for (unsigned h = 0; h < 0x10000; h++) {
		float f = qn_bf16_to_f32((uint16_t)h);
		assert_int_equal(bits(f), (uint32_t)h << 16);
		assert_int_equal(qn_f32_to_bf16(f), isnan(f) ? h | 0x40 : h);
	}
	for (uint32_t h = 0; h < 0x7f80; h++) {
		uint32_t middle = h << 16 | 0x8000;
		assert_int_equal(qn_f32_to_bf16(real(middle)), h & 1 ? h + 1 : h);
		assert_int_equal(qn_f32_to_bf16(real(middle - 1)), h);
		assert_int_equal(qn_f32_to_bf16(real(middle + 1)), h + 1);
	}
	assert_true(isnan(qn_bf16_to_f32(qn_f32_to_bf16(real(0x7f800001)))));
}

static void test_sizes(void **state)
{
	(void)state;
	assert_string_equal(qn_dtype_name(QN_F32), "f32");
	assert_string_equal(qn_dtype_name(QN_Q4_0), "q4_0");
	assert_string_equal(qn_dtype_name(QN_DTYPE_COUNT), "unknown");
	assert_int_equal(qn_dtype_size(QN_DIM), sizeof(qn_dim));
	assert_int_equal(qn_dtype_size(QN_Q4_0), 0);
	for (int i = QN_F32; i < QN_DTYPE_COUNT; i++)
		assert_int_not_equal(strlen(qn_dtype_name((qn_dtype)i)), 0);
	size_t bytes;
	assert_true(qn_dtype_bytes(QN_Q4_0, 64, &bytes));
	assert_int_equal(bytes, 36);
	assert_true(qn_dtype_bytes(QN_Q8_1, 33, &bytes));
	assert_int_equal(bytes, 72);
	assert_true(qn_dtype_bytes(QN_F16, 3, &bytes));
	assert_int_equal(bytes, 6);
	assert_false(qn_dtype_bytes(QN_F64, INT64_MAX, &bytes));
	assert_false(qn_dtype_bytes(QN_F32, -1, &bytes));
	qn_tensor huge = {.type = QN_F32, .rank = 3, .dim = {INT64_MAX, 2, 3}};
	assert_true(qn_tensor_count(&huge) == INT64_MAX);
	assert_true(qn_tensor_bytes(&huge) == SIZE_MAX);
	huge.dim[2] = 0;
	assert_int_equal(qn_tensor_count(&huge), 0);
	qn_tensor scalar = {.type = QN_I64};
	assert_int_equal(qn_tensor_count(&scalar), 1);
	assert_int_equal(qn_tensor_bytes(&scalar), 8);
}

static void test_constructors(void **state)
{
	(void)state;
	qn_tensor *t = qn_tensor_new(&arena, QN_F32, 2, (int64_t[]){2, 3});
	assert_int_equal(qn_tensor_bytes(t), 24);
	for (int i = 0; i < 6; i++)
		assert_true(qn_tensor_get(t, i) == 0);
	assert_null(qn_tensor_new(&arena, QN_F32, 2, (int64_t[]){0, 3})->data);
	t = qn_tensor_i64s(&arena, (int64_t[]){4, -5, INT64_MAX}, 3);
	assert_int_equal(t->dim[0], 3);
	assert_true(qn_tensor_get_i64(t, 2) == INT64_MAX);
	assert_int_equal(qn_tensor_get_i64(t, 1), -5);
	assert_int_equal(qn_tensor_i64s(&arena, NULL, 0)->dim[0], 0);
	assert_true(qn_tensor_get(qn_tensor_scalar_f32(&arena, 1.5f), 0) == 1.5);
	assert_int_equal(qn_tensor_get_i64(qn_tensor_scalar_i64(&arena, -9), 0), -9);
}

static void test_unaligned(void **state)
{
	(void)state;
	char *raw = qn_arena_alloc(&arena, 64);
	float values[3] = {1, -2, 3.5f};
	memcpy(raw + 1, values, sizeof values);
	qn_tensor t = {.type = QN_F32, .rank = 1, .dim = {3}, .data = raw + 1};
	assert_true(qn_tensor_get(&t, 2) == 3.5);
	const float *f = qn_tensor_f32(&arena, &t);
	assert_ptr_not_equal(f, t.data);
	assert_memory_equal(f, values, sizeof values);
	const qn_tensor *copy = qn_tensor_aligned(&arena, &t);
	assert_ptr_not_equal(copy, &t);
	assert_memory_equal(copy->data, values, sizeof values);
	assert_ptr_equal(qn_tensor_aligned(&arena, copy), copy);
	assert_ptr_equal(qn_tensor_f32(&arena, copy), copy->data);
	qn_tensor_set(raw + 1, QN_F32, 1, 7);
	assert_true(qn_tensor_get(&t, 1) == 7);
}

static void test_set_saturates(void **state)
{
	(void)state;
	static const struct {
		qn_dtype type;
		double v;
		int64_t want;
	} cases[] = {{QN_I8, 300, 127}, {QN_I8, -300, -128}, {QN_I8, -1.9, -1}, {QN_U8, -3, 0}, {QN_U8, 255.9, 255}, {QN_I16, 1e9, 32767},
		{QN_U16, 1e9, 65535}, {QN_I32, -1e12, INT32_MIN}, {QN_U32, 1e12, UINT32_MAX}, {QN_I64, 1e30, INT64_MAX},
		{QN_I64, -1e30, INT64_MIN}, {QN_I64, 0x1p62, INT64_C(1) << 62}, {QN_U64, -1, 0}, {QN_I32, NAN, 0}, {QN_BOOL, 0.25, 1},
		{QN_BOOL, 0, 0}, {QN_I32, -INFINITY, INT32_MIN}, {QN_DIM, 12.7, 12}};
	for (size_t i = 0; i < QN_LEN(cases); i++) {
		qn_tensor *t = qn_tensor_new(&arena, cases[i].type, 1, (int64_t[]){2});
		void *data = qn_arena_alloc(&arena, 32);
		t->data = data;
		qn_tensor_set(data, cases[i].type, 1, cases[i].v);
		assert_true(qn_tensor_get_i64(t, 1) == cases[i].want);
		assert_true(qn_tensor_get(t, 0) == 0);
	}
	uint64_t big;
	qn_tensor_set(&big, QN_U64, 0, 1e30);
	assert_true(big == UINT64_MAX);
	qn_tensor_set(&big, QN_U64, 0, 0x1.8p63);
	assert_true(big == UINT64_C(3) << 62);
	qn_tensor t = {.type = QN_U64, .data = &big};
	assert_true(qn_tensor_get_i64(&t, 0) == INT64_MAX);
	assert_true(qn_tensor_get(&t, 0) == 0x1.8p63);
}

static void test_convert(void **state)
{
	(void)state;
	/* a small integer survives any way through two numeric types */
	for (int from = QN_F32; from < QN_Q4_0; from++) {
		for (int to = QN_F32; to < QN_Q4_0; to++) {
			uint64_t x[3] = {0}, y[3] = {0};
			for (int i = 0; i < 3; i++)
				qn_tensor_set(x, (qn_dtype)from, i, i * 50);
			qn_convert(x, (qn_dtype)from, y, (qn_dtype)to, 3);
			for (int i = 0; i < 3; i++) {
				qn_tensor t = {.type = (qn_dtype)to, .rank = 1, .dim = {3}, .data = y};
				double want = from == QN_BOOL || to == QN_BOOL ? i != 0 : i * 50;
				assert_true(qn_tensor_get(&t, i) == want);
			}
		}
	}
	int64_t wide[3] = {INT64_C(0x123456789), -1, INT64_MAX};
	int32_t low[3];
	qn_convert(wide, QN_I64, low, QN_I32, 3);
	assert_int_equal(low[0], 0x23456789);
	assert_int_equal(low[1], -1);
	uint64_t same[3];
	qn_convert(wide, QN_I64, same, QN_U64, 3);
	assert_memory_equal(same, wide, sizeof wide);
	float f;
	int64_t tie = (INT64_C(1) << 53) + (INT64_C(1) << 29) + 1; /* through f64 it would round to the even side */
	qn_convert(&tie, QN_I64, &f, QN_F32, 1);
	assert_true(f == 0x1.000002p53f);
	/* f64 to 16 bits rounds once: just above a middle, f32 cannot tell it from the middle */
	double above = 1 + 0x1p-11 + 0x1p-40, below = 1 + 3 * 0x1p-11 - 0x1p-40;
	uint16_t h;
	qn_convert(&above, QN_F64, &h, QN_F16, 1);
	assert_int_equal(h, 0x3c01);
	qn_convert(&below, QN_F64, &h, QN_F16, 1);
	assert_int_equal(h, 0x3c01);
	double nan = NAN, inf = -INFINITY;
	qn_convert(&nan, QN_F64, &h, QN_F16, 1);
	assert_true(isnan(qn_f16_to_f32(h)));
	qn_convert(&inf, QN_F64, &h, QN_BF16, 1);
	assert_int_equal(h, 0xff80);
	uint8_t odd[2] = {0, 7}, truth[2];
	qn_convert(odd, QN_BOOL, truth, QN_BOOL, 2);
	assert_int_equal(truth[1], 1);
	qn_dim dims[2] = {qn_dim_const(9), qn_dim_symbol(qn_dims_new(&arena), "s")};
	qn_convert(dims, QN_DIM, wide, QN_I64, 2);
	assert_int_equal(wide[0], 9);
	assert_int_equal(wide[1], 0);
}

static void test_blocks(void **state)
{
	(void)state;
	uint8_t q4[2 * 18 + 1] = {0}, *p = q4 + 1; /* unaligned, as in an archive */
	for (int b = 0; b < 2; b++) {
		qn_put_u16(p + b * 18, qn_f32_to_f16(b ? -0.5f : 2.0f));
		for (int i = 0; i < 16; i++)
			p[b * 18 + 2 + i] = (uint8_t)(i | (15 - i) << 4);
	}
	qn_tensor t = {.type = QN_Q4_0, .rank = 2, .dim = {2, 32}, .data = p};
	const float *f = qn_tensor_f32(&arena, &t);
	for (int b = 0; b < 2; b++) {
		for (int i = 0; i < 32; i++) {
			float want = (float)((i < 16 ? i : 31 - i) - 8) * (b ? -0.5f : 2.0f);
			assert_true(f[b * 32 + i] == want);
			assert_true(qn_tensor_get(&t, b * 32 + i) == (double)want);
		}
	}
	uint8_t q8[36] = {0};
	qn_put_u16(q8, qn_f32_to_f16(0.25f));
	qn_put_u16(q8 + 2, qn_f32_to_f16(99)); /* the sum is no part of a value */
	for (int i = 0; i < 32; i++)
		q8[4 + i] = (uint8_t)(i * 8 - 128);
	t = (qn_tensor){.type = QN_Q8_1, .rank = 1, .dim = {32}, .data = q8};
	f = qn_tensor_f32(&arena, &t);
	for (int i = 0; i < 32; i++)
		assert_true(f[i] == (float)(i * 8 - 128) * 0.25f);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {CASE(test_half_exact), CASE(test_half_rounding), CASE(test_bfloat), CASE(test_sizes),
		CASE(test_constructors), CASE(test_unaligned), CASE(test_set_saturates), CASE(test_convert), CASE(test_blocks)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
