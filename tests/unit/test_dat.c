/* test_dat.c - headers of tensor files: written, read, refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "passes/nnef/dat.h"

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

static void check_round_trip(qn_dtype type, int rank, const int64_t *dim)
{
	qn_tensor *t = qn_tensor_new(&arena, type, rank, dim), back;
	size_t n = qn_tensor_bytes(t);
	uint8_t *file = qn_arena_alloc(&arena, QN_DAT_HEADER + n);
	assert_int_equal(qn_dat_encode(&ctx, "w", t, file), QUERN_OK);
	assert_int_equal(qn_dat_decode(&ctx, "w", file, QN_DAT_HEADER + n, &back), QUERN_OK);
	assert_int_equal(back.type, type);
	assert_int_equal(back.rank, rank);
	assert_memory_equal(back.dim, t->dim, sizeof back.dim);
	assert_ptr_equal(back.data, file + QN_DAT_HEADER);
	assert_int_equal(qn_dat_decode(&ctx, "w", file, QN_DAT_HEADER + n + 1, &back), QUERN_ERR_FORMAT);
	assert_int_equal(qn_dat_decode(&ctx, "w", file, QN_DAT_HEADER - 1, &back), QUERN_ERR_FORMAT);
}

static void test_dat_round_trip(void **state)
{
	(void)state;
	const qn_dtype plain[] = {QN_F16, QN_F32, QN_F64, QN_I8, QN_I16, QN_I32, QN_I64, QN_U8, QN_U16, QN_U32, QN_U64, QN_BOOL};
	const int64_t dim[8] = {3, 1, 2, 1, 1, 1, 1, 5}, blocks[4] = {5, 2, 16, 3}, none[2] = {0, 4};
	for (size_t i = 0; i < QN_LEN(plain); i++) {
		check_round_trip(plain[i], 0, dim);
		check_round_trip(plain[i], 1, dim);
		check_round_trip(plain[i], 8, dim);
		check_round_trip(plain[i], 2, none);
	}
	check_round_trip(QN_Q4_0, 3, blocks);
	check_round_trip(QN_Q8_1, 4, blocks);
}

static void test_dat_bytes(void **state)
{
	(void)state;
	const int64_t dim[2] = {2, 64};
	uint8_t h[QN_DAT_HEADER], want[QN_DAT_HEADER] = {0x4e, 0xef, 1, 0};
	want[4] = 72; /* four blocks of 18 bytes */
	want[8] = 2;
	want[12] = 2;
	want[16] = 64;
	memset(want + 44, 0xff, 4);
	want[48] = 0x40;
	want[49] = 0x30;
	want[50] = 'R';
	want[51] = 'T';
	assert_int_equal(qn_dat_encode(&ctx, "w", qn_tensor_new(&arena, QN_Q4_0, 2, dim), h), QUERN_OK);
	assert_memory_equal(h, want, sizeof want);
}

static void test_dat_refused(void **state)
{
	(void)state;
	uint8_t h[QN_DAT_HEADER];
	const int64_t dim[2] = {32, 48}, huge[1] = {(int64_t)1 << 31};
	assert_int_equal(qn_dat_encode(&ctx, "w", qn_tensor_new(&arena, QN_BF16, 2, dim), h), QUERN_ERR_UNSUPPORTED);
	assert_int_equal(qn_dat_encode(&ctx, "w", &(qn_tensor){.type = QN_Q4_0, .rank = 2, .dim = {32, 48}}, h), QUERN_ERR_SHAPE);
	assert_int_equal(qn_dat_encode(&ctx, "w", &(qn_tensor){.type = QN_Q4_0, .rank = 1, .dim = {32}}, h), QUERN_ERR_SHAPE);
	assert_int_equal(qn_dat_encode(&ctx, "big", &(qn_tensor){.type = QN_F32, .rank = 1, .dim = {huge[0]}}, h), QUERN_ERR_UNSUPPORTED);
	assert_non_null(strstr(ctx.message, "'big'"));
}

/* Each byte of a header changed: it is refused or still describes data of that size; it is never trusted beyond it. */
static void test_dat_corrupt(void **state)
{
	(void)state;
	const int64_t dim[2] = {2, 3};
	uint8_t file[QN_DAT_HEADER + 24] = {0};
	assert_int_equal(qn_dat_encode(&ctx, "w", qn_tensor_new(&arena, QN_F32, 2, dim), file), QUERN_OK);
	for (size_t i = 0; i < QN_DAT_HEADER; i++)
		for (int v = 0; v < 256; v++) {
			uint8_t was = file[i];
			qn_tensor t;
			file[i] = (uint8_t)v;
			if (qn_dat_decode(&ctx, "w", file, sizeof file, &t) == QUERN_OK)
				assert_int_equal(qn_tensor_bytes(&t), 24);
			file[i] = was;
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_dat_round_trip, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dat_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dat_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dat_corrupt, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
