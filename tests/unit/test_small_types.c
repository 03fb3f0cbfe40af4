/* test_small_types.c - floats of 8 and 4 bits, integers of 4 and 2: all codes against plain definitions, rounding by search. */
#include "op_fixture.h"

#include "graph/npz.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static const struct known {
	qn_dtype type;
	int codes, exponent_bits, bias; /* codes of either sign together */
	double largest;
	int infinite, nan; /* codes of +inf (-1: none) and of a NaN */
	bool minus_zero;
} floats[] = {
	{QN_F8E4M3FN, 256, 4, 7, 448, -1, 0x7f, true},
	{QN_F8E4M3FNUZ, 256, 4, 8, 240, -1, 0x80, false},
	{QN_F8E5M2, 256, 5, 15, 57344, 0x7c, 0x7f, true},
	{QN_F8E5M2FNUZ, 256, 5, 16, 57344, -1, 0x80, false},
	{QN_F4E2M1, 16, 2, 1, 6, -1, -1, true},
};

static double value_of(qn_dtype type, int code)
{
	uint8_t byte = (uint8_t)code;
	return qn_tensor_get(&(qn_tensor){.type = type, .data = &byte}, 0);
}

/* By definition: (-1)^s * 2^(e - bias) * 1.m, or 2^(1 - bias) * 0.m where e is 0. */
static double defined(const struct known *k, int code)
{
	int half = k->codes / 2, magnitude = code % half, steps = half >> k->exponent_bits, e = magnitude / steps, m = magnitude % steps;
	double v = (e ? 1 + (double)m / steps : (double)m / steps) * pow(2, (e ? e : 1) - k->bias);
	if (magnitude == k->infinite)
		v = INFINITY;
	else if (code == k->nan || v > k->largest)
		v = NAN;
	return code >= half ? -v : v;
}

static void all_codes(void **state)
{
	(void)state;
	for (size_t i = 0; i < QN_LEN(floats); i++)
		for (int code = 0; code < floats[i].codes; code++) {
			double want = defined(&floats[i], code), got = value_of(floats[i].type, code);
			if (isnan(want) ? !isnan(got) : got != want || signbit(got) != signbit(want))
				fail_msg("%s %02x is %g, not %g", qn_dtype_name(floats[i].type), code, got, want);
		}
	for (int code = 0; code < 255; code++)
		assert_true(value_of(QN_F8E8M0, code) == pow(2, code - 127));
	assert_true(isnan(value_of(QN_F8E8M0, 255)));
}

/* The code of the magnitude to which v goes: the nearest of the finite ones; of two, the even one. */
static int nearest(const struct known *k, double v)
{
	int best = 0;
	for (int code = 1; code < k->codes / 2; code++) {
		double x = defined(k, code), d = fabs(x - fabs(v)), least = fabs(defined(k, best) - fabs(v));
		if (isfinite(x) && (d < least || (d == least && code % 2 == 0)))
			best = code;
	}
	return best;
}

static void check_rounding(const struct known *k, double v)
{
	uint8_t kept, open;
	qn_convert(&v, QN_F64, &kept, k->type, 1);
	qn_convert_rounded(&v, QN_F64, &open, k->type, 1, false, QN_ROUND_UP);
	int last = nearest(k, k->largest);
	double near = fmin(fabs(v), 2 * k->largest); /* far off, all codes would be equally far */
	double want = copysign(defined(k, nearest(k, near)), v), over = want;
	/* without saturation the value past the largest counts as if it were there */
	double tie = k->largest + (k->largest - defined(k, last - 1)) / 2;
	if (k->nan >= 0 && (fabs(v) > tie || (fabs(v) == tie && last % 2)))
		over = k->infinite > 0 ? copysign(INFINITY, v) : NAN;
	double got = value_of(k->type, kept), got_open = value_of(k->type, open);
	bool same = got == want && (signbit(got) == signbit(want) || !k->minus_zero);
	bool same_open = isnan(over) ? isnan(got_open) : got_open == over;
	if (!same || !same_open)
		fail_msg("%s of %.17g: %g (want %g), not saturated %g (want %g)", qn_dtype_name(k->type), v, got, want, got_open, over);
}

static void rounding(void **state)
{
	(void)state;
	for (size_t i = 0; i < QN_LEN(floats); i++) {
		const struct known *k = &floats[i];
		for (int code = 0; code < k->codes; code++) {
			double x = defined(k, code), y = defined(k, code % (k->codes / 2) ? code - 1 : code);
			if (isnan(x) || isinf(x) || isnan(y))
				continue;
			double middle = (x + y) / 2;
			double probe[] = {x, middle, nextafter(middle, 0), nextafter(middle, 2 * x), nextafter(x, 0), nextafter(x, 2 * x)};
			for (size_t p = 0; p < QN_LEN(probe); p++)
				check_rounding(k, probe[p]);
		}
		for (int n = 0; n < 2000; n++)
			check_rounding(k, ldexp((double)draw(-1000000, 1000000), (int)draw(-40, 0)));
		double beyond[] = {464, 464.0001, 248, 247.9, 61440, 61439, 1e5, 1e30, INFINITY, -INFINITY, -1e9};
		for (size_t p = 0; p < QN_LEN(beyond); p++)
			check_rounding(k, beyond[p]);
		double nan = NAN;
		uint8_t code;
		qn_convert(&nan, QN_F64, &code, k->type, 1);
		assert_int_equal(code, k->nan < 0 ? 8 : k->nan); /* where there is no NaN, -0 as in the reference */
	}
}

static int e8m0(float f, bool saturate, qn_small_round round)
{
	uint8_t code;
	qn_convert_rounded(&f, QN_F32, &code, QN_F8E8M0, 1, saturate, round);
	return code;
}

static void powers_of_two(void **state)
{
	(void)state;
	for (int code = 1; code < 254; code++) {
		float x = ldexpf(1, code - 127);
		for (qn_small_round r = QN_ROUND_UP; r <= QN_ROUND_NEAREST; r++)
			assert_int_equal(e8m0(x, true, r), code);
		assert_int_equal(e8m0(1.25f * x, true, QN_ROUND_UP), code + 1);
		assert_int_equal(e8m0(1.75f * x, true, QN_ROUND_DOWN), code);
		assert_int_equal(e8m0(1.25f * x, true, QN_ROUND_NEAREST), code);
		assert_int_equal(e8m0(-1.5f * x, true, QN_ROUND_NEAREST), code + 1);
	}
	assert_int_equal(e8m0(0x1.8p127f, true, QN_ROUND_UP), 254);
	assert_int_equal(e8m0(0x1.8p127f, false, QN_ROUND_UP), 255);
	assert_int_equal(e8m0(0, true, QN_ROUND_UP), 0);
	assert_int_equal(e8m0(INFINITY, true, QN_ROUND_DOWN), 255);
	assert_int_equal(e8m0(NAN, true, QN_ROUND_NEAREST), 255);
}

static void small_integers(void **state)
{
	(void)state;
	static const struct {
		qn_dtype type;
		int64_t low, count;
	} ints[] = {{QN_I4, -8, 16}, {QN_U4, 0, 16}, {QN_I2, -2, 4}, {QN_U2, 0, 4}};
	for (size_t i = 0; i < QN_LEN(ints); i++) {
		for (int64_t v = -300; v <= 300; v++) {
			int64_t want = ((v - ints[i].low) % ints[i].count + ints[i].count) % ints[i].count + ints[i].low, back;
			double real = v < 0 ? (double)v - 0.75 : (double)v + 0.75;
			uint8_t a, b;
			qn_convert(&v, QN_I64, &a, ints[i].type, 1);
			qn_convert(&real, QN_F64, &b, ints[i].type, 1);
			qn_convert(&a, ints[i].type, &back, QN_I64, 1);
			assert_int_equal(back, want);
			assert_int_equal(a, b);
			assert_true(value_of(ints[i].type, a) == (double)want);
		}
		float odd[] = {NAN, INFINITY, -INFINITY};
		uint8_t zero[3];
		qn_convert(odd, QN_F32, zero, ints[i].type, 3);
		assert_memory_equal(zero, "\0\0\0", 3);
	}
}

static qn_tensor *reals(int n, const float *v)
{
	qn_tensor *t = qn_tensor_new(&arena, QN_F32, 1, &(int64_t){n});
	memcpy(op_data(t), v, sizeof *v * (size_t)n);
	return t;
}

static void quantization(void **state)
{
	(void)state;
	static const qn_dtype types[] = {QN_I4, QN_U4, QN_I2, QN_U2};
	static const double low[] = {-8, 0, -2, 0}, high[] = {7, 15, 1, 3};
	qn_tensor *x = reals(6, (float[]){-1000, -3, -0.25f, 0.75f, 5, 1000}), *scale = reals(1, (float[]){0.5f});
	scale->rank = 0;
	for (size_t i = 0; i < QN_LEN(types); i++) {
		qn_tensor *zero = qn_tensor_new(&arena, types[i], 0, NULL);
		qn_tensor_set(op_data(zero), types[i], 0, 1);
		qn_tensor *y = op_run(op_node("QuantizeLinear", 3, 1), x, scale, zero);
		qn_tensor *back = op_run(op_node("DequantizeLinear", 3, 1), y, scale, zero);
		assert_int_equal(y->type, types[i]);
		for (int e = 0; e < 6; e++) {
			double want = nearbyint(qn_tensor_get(x, e) / 0.5) + 1;
			want = want < low[i] ? low[i] : want > high[i] ? high[i] : want;
			assert_true(qn_tensor_get(y, e) == want);
			assert_true(qn_tensor_get(back, e) == (want - 1) * 0.5);
		}
	}
	qn_tensor *zero = qn_tensor_new(&arena, QN_F8E4M3FN, 0, NULL);
	qn_node *q = op_node("QuantizeLinear", 3, 1);
	qn_tensor *y = op_run(q, x, scale, zero), *back = op_run(op_node("DequantizeLinear", 3, 1), y, scale, zero);
	assert_int_equal(y->type, QN_F8E4M3FN);
	assert_true(qn_tensor_get(y, 0) == -448 && qn_tensor_get(y, 1) == -6 && qn_tensor_get(back, 4) == 5);
	qn_node_set_int(graph, q, "saturate", 0);
	assert_true(isnan(qn_tensor_get(op_run(q, x, scale, zero), 0)));
}

static void who_takes_them(void **state)
{
	(void)state;
	qn_fact in[2] = {op_fact(QN_F8E5M2, "2,3"), op_fact(QN_F8E5M2, "2,3")}, out;
	assert_int_equal(op_infer(op_node("Transpose", 1, 1), in, &out), QUERN_OK);
	assert_int_equal(out.type, QN_F8E5M2);
	assert_int_equal(op_infer(op_node("Add", 2, 1), in, &out), QUERN_ERR_UNSUPPORTED);
	assert_non_null(strstr(ctx.message, "float8e5m2"));
	assert_non_null(strstr(ctx.message, "Add"));
}

/* NumPy has none of the types: their values are written in a wider one. */
static void in_an_archive_of_numpy(void **state)
{
	(void)state;
	char path[] = "/tmp/quern-small-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	qn_tensor t[] = {
		{.type = QN_I4, .rank = 1, .dim = {2}, .data = "\xf8\7"}, {.type = QN_F4E2M1, .rank = 1, .dim = {2}, .data = "\x9\7"}};
	const char *const names[] = {"i", "f"};
	assert_int_equal(qn_npz_write(&ctx, path, names, t, 2), QUERN_OK);
	qn_npz *z;
	assert_int_equal(qn_npz_read(&ctx, &arena, path, &z), QUERN_OK);
	const qn_tensor *i = qn_npz_get(z, "i"), *f = qn_npz_get(z, "f");
	assert_int_equal(i->type, QN_I8);
	assert_true(qn_tensor_get(i, 0) == -8 && qn_tensor_get(i, 1) == 7);
	assert_int_equal(f->type, QN_F32);
	assert_true(qn_tensor_get(f, 0) == -0.5 && qn_tensor_get(f, 1) == 6);
	unlink(path);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, op_setup, op_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {CASE(all_codes), CASE(rounding), CASE(powers_of_two), CASE(small_integers), CASE(quantization),
		CASE(who_takes_them), CASE(in_an_archive_of_numpy)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
