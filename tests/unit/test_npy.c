/* test_npy.c - NumPy's files: what is read, what is written, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/npy.h"

#include <stdio.h>
#include <stdlib.h>

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

/* A file of a version with this dictionary and data, in a block of exactly its size so that a read past it is seen. */
static uint8_t *made(int version, const char *dict, const void *data, size_t bytes, size_t *n)
{
	size_t length = strlen(dict), start = version == 1 ? 10 : 12;
	*n = start + length + bytes;
	uint8_t *f = malloc(*n);
	assert_non_null(f);
	memcpy(f, "\x93NUMPY", 6);
	f[6] = (uint8_t)version;
	f[7] = 0;
	if (version == 1)
		qn_put_u16(f + 8, (uint16_t)length);
	else
		qn_put_u32(f + 8, (uint32_t)length);
	memcpy(f + start, dict, length);
	if (bytes)
		memcpy(f + start + length, data, bytes);
	return f;
}

static void expect(
	int version, const char *dict, const void *data, size_t bytes, qn_dtype type, int rank, const int64_t *dim, const double *want)
{
	size_t n;
	qn_tensor t;
	uint8_t *f = made(version, dict, data, bytes, &n);
	qn_status status = qn_npy_decode(&ctx, &arena, "case", f, n, &t);
	if (status != QUERN_OK)
		fail_msg("%s: %s", dict, ctx.message);
	assert_int_equal(t.type, type);
	assert_int_equal(t.rank, rank);
	for (int i = 0; i < rank; i++)
		assert_int_equal(t.dim[i], dim[i]);
	const qn_tensor *aligned = qn_tensor_aligned(&arena, &t);
	for (int64_t i = 0; i < qn_tensor_count(&t); i++)
		assert_true(qn_tensor_get(aligned, i) == want[i]);
	free(f);
}

static void expect_failure(const void *file, size_t n, qn_status want, const char *part)
{
	uint8_t *exact = malloc(n ? n : 1);
	qn_tensor t;
	assert_non_null(exact);
	if (n)
		memcpy(exact, file, n);
	assert_int_equal(qn_npy_decode(&ctx, &arena, "case", exact, n, &t), want);
	if (!strstr(ctx.message, part))
		fail_msg("'%s' is not in '%s'", part, ctx.message);
	free(exact);
}

static void expect_refusal(const char *dict, qn_status want, const char *part)
{
	size_t n;
	uint8_t data[64] = {0}, *f = made(1, dict, data, sizeof data, &n);
	expect_failure(f, n, want, part);
	free(f);
}

static void test_reads_types_orders_versions(void **state)
{
	(void)state;
	const float f[6] = {0, 1, 2, 3, 4, 5};
	const int64_t d23[2] = {2, 3}, d6[1] = {6}, d1[1] = {1}, d4[1] = {4}, d212[3] = {2, 1, 2};
	expect(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", f, 24, QN_F32, 2, d23, (double[]){0, 1, 2, 3, 4, 5});
	expect(2, "{\"shape\":(6,),\"descr\":\"<f4\",\"fortran_order\":False}", f, 24, QN_F32, 1, d6, (double[]){0, 1, 2, 3, 4, 5});
	expect(3, "{'descr': '<f4', 'fortran_order': True, 'shape': (2L, 3L)}", f, 24, QN_F32, 2, d23, (double[]){0, 2, 4, 1, 3, 5});
	expect(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1, 2)}", f, 24, QN_F32, 3, d212, (double[]){0, 2, 1, 3});
	expect(1, "{'descr': '<f4', 'fortran_order': False, 'shape': ()}", f + 3, 4, QN_F32, 0, NULL, (double[]){3});
	const uint8_t big[4] = {0x40, 0x40, 0, 0}, shorts[4] = {0xff, 0xfe, 0x00, 0x02}, bools[4] = {0, 1, 1, 0};
	expect(1, "{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", big, 4, QN_F32, 1, d1, (double[]){3});
	expect(1, "{'descr': '>i2', 'fortran_order': True, 'shape': (1, 2)}", shorts, 4, QN_I16, 2, (int64_t[]){1, 2}, (double[]){-2, 2});
	expect(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (4,)}", bools, 4, QN_BOOL, 1, d4, (double[]){0, 1, 1, 0});
	expect(1, "{'descr': '|i1', 'fortran_order': False, 'shape': (4,)}", shorts, 4, QN_I8, 1, d4, (double[]){-1, -2, 0, 2});
	expect(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (4,)}", shorts, 4, QN_U8, 1, d4, (double[]){255, 254, 0, 2});
	const double wide[1] = {1e300};
	const int64_t large[1] = {-1234567890123};
	const uint16_t half[1] = {0x3e00};
	expect(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", wide, 8, QN_F64, 1, d1, wide);
	expect(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}", large, 8, QN_I64, 1, d1, (double[]){-1234567890123.0});
	expect(1, "{'descr': '<f2', 'fortran_order': False, 'shape': (1,)}", half, 2, QN_F16, 1, d1, (double[]){1.5});
}

static void test_empty_arrays(void **state)
{
	(void)state;
	expect(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (0, 9223372036854775807, 3)}", NULL, 0, QN_F32, 3,
		(int64_t[]){0, 9223372036854775807, 3}, NULL);
}

static void test_refuses(void **state)
{
	(void)state;
	expect_failure("PK\x03\x04", 4, QUERN_ERR_FORMAT, "'case' is not a .npy file");
	expect_failure("", 0, QUERN_ERR_FORMAT, "'case' is not a .npy file");
	expect_failure("\x93NUMPY\x01\x00\xff\xff", 10, QUERN_ERR_FORMAT, "header of 65535 bytes wanted, 0 available");
	expect_failure("\x93NUMPY\x02\x00\xff\xff", 10, QUERN_ERR_FORMAT, "cut off after 10 bytes");
	expect_failure("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12, QUERN_ERR_FORMAT, "header of 4294967295 bytes wanted");
	expect_failure("\x93NUMPY\x04\x00\x00\x00", 10, QUERN_ERR_UNSUPPORTED, "version 4");
	expect_refusal("", QUERN_ERR_FORMAT, "'{' expected");
	expect_refusal("{", QUERN_ERR_FORMAT, "a key and ':' expected at ''");
	expect_refusal("{'descr': '<f4', 'shape': (2,)}", QUERN_ERR_FORMAT, "no 'fortran_order'");
	expect_refusal("{'descr': '<f4', 'fortran_order': False}", QUERN_ERR_FORMAT, "no 'shape'");
	expect_refusal("{'descr': '<f4, 'fortran_order'", QUERN_ERR_UNSUPPORTED, "'<f4, '");
	expect_refusal("{'descr': '<c8', 'fortran_order': False, 'shape': (2,)}", QUERN_ERR_UNSUPPORTED, "type '<c8'");
	expect_refusal("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}", QUERN_ERR_UNSUPPORTED, "type '|O'");
	expect_refusal("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", QUERN_ERR_UNSUPPORTED, "records");
	expect_refusal("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}", QUERN_ERR_FORMAT, "True or False expected at 'Maybe");
	expect_refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", QUERN_ERR_FORMAT, "whole number expected at '-2");
	expect_refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (2", QUERN_ERR_FORMAT, "',' or ')' expected");
	expect_refusal("{'descr': '<f4', 'fortran_order': False, 'color': 1}", QUERN_ERR_FORMAT, "unknown key 'color'");
	expect_refusal(
		"{'descr': '<f4', 'fortran_order': False, 'shape': (17,)}", QUERN_ERR_FORMAT, "68 bytes of data wanted, 64 available");
	expect_refusal(
		"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", QUERN_ERR_FORMAT, "axis 0 is too long");
	expect_refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", QUERN_ERR_FORMAT, "overflows");
	expect_refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}", QUERN_ERR_FORMAT, "overflows");
	expect_refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", QUERN_ERR_UNSUPPORTED, "more than 8 axes");
}

/* Every prefix of a good file is refused, and read within its bounds (the sanitizer sees to that). */
static void test_every_truncation(void **state)
{
	(void)state;
	const float f[6] = {0};
	size_t n;
	uint8_t *file = made(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", f, sizeof f, &n);
	for (size_t k = 0; k < n; k++)
		expect_failure(file, k, QUERN_ERR_FORMAT, "case");
	free(file);
}

static void test_round_trip(void **state)
{
	(void)state;
	static const qn_dtype types[] = {QN_BOOL, QN_I8, QN_I16, QN_I32, QN_I64, QN_U8, QN_U16, QN_U32, QN_U64, QN_F16, QN_F32, QN_F64};
	for (size_t k = 0; k < QN_LEN(types); k++)
		for (int rank = 0; rank <= QN_MAX_RANK; rank++) {
			const int64_t dim[QN_MAX_RANK] = {2, 1, 3, 1, 1, 2, 1, 1};
			qn_tensor *t = qn_tensor_new(&arena, types[k], rank, dim), back;
			size_t bytes = qn_tensor_bytes(t), n;
			uint8_t *data = qn_arena_alloc(&arena, bytes);
			for (size_t i = 0; i < bytes; i++)
				data[i] = (uint8_t)(types[k] == QN_BOOL ? i % 2 : 37 * i + 11);
			t->data = data;
			const void *file;
			assert_int_equal(qn_npy_encode(&ctx, &arena, "case", t, &file, &n), QUERN_OK);
			assert_int_equal((n - bytes) % 64, 0);
			assert_int_equal(qn_npy_decode(&ctx, &arena, "case", file, n, &back), QUERN_OK);
			assert_int_equal(back.type, t->type);
			assert_int_equal(back.rank, rank);
			assert_memory_equal(back.data, data, bytes);
		}
	const int64_t longest[QN_MAX_RANK] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, 0};
	qn_tensor t = {.type = QN_F32, .rank = QN_MAX_RANK};
	memcpy(t.dim, longest, sizeof longest);
	uint8_t header[QN_NPY_HEADER];
	size_t n;
	assert_int_equal(qn_npy_header(&ctx, "case", &t, header, &n), QUERN_OK);
	assert_true(n <= QN_NPY_HEADER);
	t.type = QN_BF16;
	assert_int_equal(qn_npy_header(&ctx, "case", &t, header, &n), QUERN_ERR_UNSUPPORTED);
}

static void test_load_names_the_file(void **state)
{
	(void)state;
	qn_tensor t;
	assert_int_equal(qn_npy_load(&ctx, &arena, "no/such/file.npy", &t), QUERN_ERR_IO);
	assert_non_null(strstr(ctx.message, "no/such/file.npy"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_reads_types_orders_versions, setup, teardown),
		cmocka_unit_test_setup_teardown(test_empty_arrays, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refuses, setup, teardown),
		cmocka_unit_test_setup_teardown(test_every_truncation, setup, teardown),
		cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
		cmocka_unit_test_setup_teardown(test_load_names_the_file, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
