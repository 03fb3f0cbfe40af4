/* test_u8_chain.c - compressors of codes, chains of them in a tensor, and every allocation failing in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "quant_data.h"
#include <quern/quern.h>

#include <stdlib.h>
#include <string.h>

static void expect_round_trip(const quern_u8_compressor *c, const uint8_t *in, size_t n)
{
	size_t bound = c->bound(c->user, n), packed;
	uint8_t *out = malloc(bound + 1), *back = malloc(n + 1);
	assert_true(out && back);
	out[bound] = back[n] = 0xa5;
	assert_true(c->compress(c->user, in, n, out, &packed));
	assert_true(packed <= bound);
	assert_true(c->decompress(c->user, out, packed, back, n));
	assert_int_equal(out[bound], 0xa5);
	assert_int_equal(back[n], 0xa5);
	if (n)
		assert_memory_equal(back, in, n);
	/* neither a shorter nor a longer array is what was packed */
	assert_false(c->decompress(c->user, out, packed, back, n + 64));
	if (packed)
		assert_false(c->decompress(c->user, out, packed - 1, back, n));
	free(out);
	free(back);
}

static void test_bit_packing(void **state)
{
	(void)state;
	seeded s = {3};
	uint8_t codes[300];
	for (int bits = 1; bits <= 8; bits++) {
		quern_u8_compressor c = quern_u8_bit_packing(bits);
		for (size_t n = 0; n <= sizeof codes; n += n < 20 ? 1 : 35) {
			for (size_t i = 0; i < n; i++)
				codes[i] = (uint8_t)(uniform(&s) * (1 << bits));
			assert_int_equal(c.bound(c.user, n), (n * (size_t)bits + 7) / 8);
			expect_round_trip(&c, codes, n);
		}
		size_t length;
		uint8_t large = (uint8_t)(1 << bits), out[2];
		assert_true(bits == 8 || !c.compress(c.user, &large, 1, out, &length));
	}
	quern_u8_compressor nibbles = quern_u8_bit_packing(4);
	const uint8_t in[3] = {0x1, 0xf, 0x7}, stray[2] = {0xf1, 0x87};
	uint8_t out[2], back[3];
	size_t n;
	assert_true(nibbles.compress(nibbles.user, in, 3, out, &n));
	assert_int_equal(out[0], 0xf1);
	assert_int_equal(out[1], 0x07);
	assert_false(nibbles.decompress(nibbles.user, stray, 2, back, 3));
}

static void test_run_length(void **state)
{
	(void)state;
	seeded s = {4};
	static uint8_t bytes[5000];
	quern_u8_compressor c = quern_u8_run_length();
	for (int share = 0; share <= 100; share += 5) /* how often a byte repeats the one before it */
		for (size_t n = 0; n <= sizeof bytes; n += n < 300 ? 1 : 470) {
			for (size_t i = 0; i < n; i++)
				bytes[i] = i && uniform(&s) * 100 < share ? bytes[i - 1] : (uint8_t)(uniform(&s) * 3);
			expect_round_trip(&c, bytes, n);
		}
	memset(bytes, 9, sizeof bytes);
	uint8_t out[200];
	size_t n;
	assert_true(c.compress(c.user, bytes, sizeof bytes, out, &n));
	assert_true(n <= 80);
}

/* A heap that fails from its k-th allocation on and counts what is not given back. */
typedef struct heap {
	int allowed;
	long live;
} heap;

static void *counted(void *user, void *ptr, size_t old_size, size_t new_size)
{
	heap *h = user;
	if (!new_size) {
		h->live -= ptr != NULL;
		free(ptr);
		return NULL;
	}
	if (h->allowed-- <= 0)
		return NULL;
	void *p = malloc(new_size);
	h->live += p && !ptr;
	if (p && ptr) {
		memcpy(p, ptr, old_size < new_size ? old_size : new_size);
		free(ptr);
	}
	return p;
}

static void fill_floats(quern_floats *f, float *v)
{
	seeded s = {6};
	fill(&s, NORMAL, v, 128);
	*f = (quern_floats){.type = QUERN_F32, .rank = 3, .dim = {2, 4, 16}, .data = v};
}

static void test_chain_in_a_tensor(void **state)
{
	(void)state;
	float v[128], plain[128], chained[128];
	uint8_t codes[128];
	quern_floats f;
	fill_floats(&f, v);
	quern_context *ctx = quern_open(NULL);
	quern_qscheme *q;
	quern_qtensor *a, *b;
	const quern_u8_compressor chain[2] = {quern_u8_run_length(), quern_u8_bit_packing(8)}, wrong[1] = {quern_u8_bit_packing(3)};
	assert_int_equal(quern_qscheme_min_max(ctx, &f, 4, 32, 0.97, &q), QUERN_OK);
	assert_int_equal(quern_qtensor_new(ctx, &f, q, QUERN_MACHINE_ARM, NULL, 0, &a), QUERN_OK);
	assert_int_equal(quern_qtensor_new(ctx, &f, q, QUERN_MACHINE_ARM, chain, 2, &b), QUERN_OK);
	assert_int_equal(quern_qtensor_code_bytes(a), 128);
	assert_int_equal(quern_qtensor_rank(b), 3);
	assert_int_equal(quern_qtensor_dims(b)[1], 4);
	assert_int_equal(quern_qtensor_floats(a, plain), QUERN_OK);
	assert_int_equal(quern_qtensor_floats(b, chained), QUERN_OK);
	assert_memory_equal(plain, chained, sizeof plain);
	assert_int_equal(quern_qtensor_codes(b, codes), QUERN_OK);
	assert_int_equal(quern_qscheme_dequantize(quern_qtensor_scheme(b), codes, 128, QUERN_MACHINE_ARM, QUERN_F32, plain), QUERN_OK);
	assert_memory_equal(plain, chained, sizeof plain);
	quern_qtensor_free(a);
	quern_qtensor_free(b);
	assert_int_equal(quern_qtensor_new(ctx, &f, q, QUERN_MACHINE_ARM, wrong, 1, &b), QUERN_ERR_CONFIG);
	assert_null(b);
	assert_non_null(strstr(quern_message(ctx), "'bit packing' refuses"));
	quern_qscheme_free(q);
	quern_close(ctx);
}

static void test_out_of_memory(void **state)
{
	(void)state;
	bool done = false;
	for (int allowed = 0; !done; allowed++) {
		heap h = {1000, 0};
		float v[128], back[128];
		quern_floats f;
		fill_floats(&f, v);
		quern_context *ctx = quern_open(&(quern_options){.alloc = counted, .alloc_user = &h});
		assert_non_null(ctx);
		h.allowed = allowed;
		quern_qtensor *t;
		quern_status status = quern_qtensor_min_max(ctx, &f, 0.9, &t);
		if (status == QUERN_OK)
			status = quern_qtensor_floats(t, back);
		assert_true(status == QUERN_OK || status == QUERN_ERR_MEMORY);
		done = status == QUERN_OK;
		quern_qtensor_free(t);
		quern_close(ctx);
		assert_int_equal(h.live, 0);
		assert_true(allowed < 100);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bit_packing),
		cmocka_unit_test(test_run_length),
		cmocka_unit_test(test_chain_in_a_tensor),
		cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
