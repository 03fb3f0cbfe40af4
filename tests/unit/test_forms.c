/* The forms that a quantized activation takes, against naive references: integers one by one, in int64 and double. */
#include "op_fixture.h"

#include "graph/act.h"

#include <math.h>

static qn_node *form_node(const char *op, int n_in)
{
	qn_value *in[4];
	for (int i = 0; i < n_in; i++)
		in[i] = qn_graph_value(graph, NULL);
	const qn_op *row = qn_op_find("quern", op);
	assert_non_null(row);
	return qn_graph_node(graph, NULL, row, "the_node", in, n_in, 1);
}

static const float *run4(const qn_node *n, const qn_tensor *const *x)
{
	qn_tensor *y = QN_NEW(&arena, qn_tensor, 1);
	if (qn_exec_node(&ctx, graph->dims, n, x, &arena, y, NULL) != QUERN_OK)
		fail_msg("%s: %s", n->op->name, ctx.message);
	return y->data;
}

static qn_tensor *floats(int rank, const int64_t *dim, float spread)
{
	qn_tensor *t = qn_tensor_new(&arena, QN_F32, rank, dim);
	for (int64_t i = 0; i < qn_tensor_count(t); i++)
		((float *)op_data(t))[i] = (float)draw(-1000000, 1000000) * 1e-6f * spread;
	return t;
}

static qn_tensor *codes(int64_t n, int64_t k)
{
	int64_t dim[] = {n, k};
	qn_tensor *t = qn_tensor_new(&arena, QN_I8, 2, dim);
	for (int64_t i = 0; i < n * k; i++)
		((int8_t *)op_data(t))[i] = (int8_t)draw(-127, 127);
	return t;
}

static int64_t clamped(double v, int64_t low, int64_t high)
{
	return v != v ? 0 : v < (double)low ? low : v > (double)high ? high : (int64_t)v;
}

/* The engine's cast: nearest, ties to even, of a sum taken in f32. */
static int64_t cast8(float x, float scale, int zero) { return clamped(nearbyint((double)(x / scale + (float)zero)), -128, 127); }

static float clipped(float x, qn_act a, int full)
{
	int low, high;
	qn_act_levels(a.bits, &low, &high);
	float least = (float)(low - a.zero_point) * a.scale, most = (float)(high - a.zero_point) * a.scale;
	return a.bits >= full || x != x ? x : x < least ? least : x > most ? most : x;
}

static void levels_of_each_width(void **state)
{
	(void)state;
	static const int expected[][3] = {{1, -2, 1}, {2, -2, 1}, {4, -8, 7}, {8, -128, 127}, {16, -32768, 32767}};
	for (size_t i = 0; i < QN_LEN(expected); i++) {
		int low, high;
		qn_act_levels(expected[i][0], &low, &high);
		assert_int_equal(low, expected[i][1]);
		assert_int_equal(high, expected[i][2]);
	}
}

static void fake_quant(void **state)
{
	(void)state;
	for (int round = 0; round < 60; round++) {
		int64_t dim[] = {3, draw(1, 40)};
		qn_act a = {(float)draw(1, 1000) * 1e-3f, 0, (int)draw(1, 8)};
		int low, high;
		qn_act_levels(a.bits, &low, &high);
		a.zero_point = (int)draw(low, high);
		qn_tensor *x = floats(2, dim, 60);
		for (int64_t i = 0; i < 3; i++) /* ties */
			((float *)op_data(x))[i] = ((float)draw(-9, 9) + 0.5f) * a.scale;
		qn_node *n = form_node("FakeQuant", 1);
		qn_act_set(graph, n, a);
		const qn_tensor *in[] = {x};
		const float *y = run4(n, in), *v = x->data;
		for (int64_t i = 0; i < qn_tensor_count(x); i++) {
			int64_t code = cast8(clipped(v[i], a, 8), a.scale, a.zero_point);
			assert_in_range(code - low, 0, high - low);
			assert_true(y[i] == (float)(code - a.zero_point) * a.scale);
		}
	}
}

static void fake_quant_odd_values(void **state)
{
	(void)state;
	int64_t dim = 5;
	qn_tensor *x = qn_tensor_new(&arena, QN_F32, 1, &dim);
	const float odd[] = {INFINITY, -INFINITY, 1e30f, -1e30f, NAN};
	memcpy(op_data(x), odd, sizeof odd);
	qn_node *n = form_node("FakeQuant", 1);
	qn_act_set(graph, n, (qn_act){0.5f, 11, 8});
	const qn_tensor *in[] = {x};
	const float *y = run4(n, in);
	static const float expected[] = {58, -69.5f, 58, -69.5f, -5.5f}; /* measured in the engine: NaN is code 0 */
	assert_memory_equal(y, expected, sizeof expected);
}

static void fake_quant_rows(void **state)
{
	(void)state;
	for (int round = 0; round < 40; round++) {
		int64_t dim[] = {draw(1, 4), draw(1, 40)};
		int bits = (int)draw(1, 8);
		qn_tensor *x = floats(2, dim, 3);
		qn_node *n = form_node("FakeQuantRows", 1);
		qn_node_set_int(graph, n, "act_bits", bits);
		const qn_tensor *in[] = {x};
		const float *y = run4(n, in), *v = x->data;
		for (int64_t r = 0; r < dim[0]; r++, v += dim[1], y += dim[1]) {
			float top = 1e-10f;
			for (int64_t i = 0; i < dim[1]; i++)
				top = fmaxf(top, fabsf(v[i]));
			double range = (double)((1 << ((bits < 2 ? 2 : bits) - 1)) - 1), step = (double)top / range;
			for (int64_t i = 0; i < dim[1]; i++) {
				assert_true(fabs((double)y[i] - (double)v[i]) <= step * 0.5001);
				double code = (double)y[i] / step;
				assert_true(fabs(code - nearbyint(code)) < 1e-3);
			}
		}
	}
}

/* y[n] = scale[n] * sum(code * w[n]) + bias[n] for codes hi * 256 + lo, hi * 1 where there is one limb. */
static void expect_product(const float *y, const int64_t *hi, const int64_t *lo, const qn_tensor *w, const float *scale, const float *bias)
{
	const int8_t *c = w->data;
	for (int64_t j = 0; j < w->dim[0]; j++) {
		int64_t sh = 0, sl = 0;
		for (int64_t i = 0; i < w->dim[1]; i++) {
			sh += hi[i] * c[j * w->dim[1] + i];
			sl += lo ? lo[i] * c[j * w->dim[1] + i] : 0;
		}
		float v = (float)(int32_t)sh;
		if (lo)
			v = v * 256.0f + (float)(int32_t)sl;
		v = v * scale[j];
		assert_true(y[j] == (bias ? v + bias[j] : v));
	}
}

static void linear_i8(void **state)
{
	(void)state;
	for (int round = 0; round < 60; round++) {
		int64_t n = draw(1, 9), k = draw(1, 1500), dim[] = {draw(1, 3), k};
		qn_act a = {(float)draw(100, 1000) * 1e-6f, 0, (int)draw(1, 16)};
		int low, high;
		qn_act_levels(a.bits, &low, &high);
		a.zero_point = draw(0, 1) ? (int)draw(low, high) : 0;
		bool two = a.bits > 8;
		if (two)
			a = qn_act_in_limbs(a);
		qn_tensor *x = floats(2, dim, a.scale * (float)high * 1.5f), *w = codes(n, k), *scale = floats(1, &n, 1), *bias = floats(1, &n, 1);
		qn_node *node = form_node("LinearI8", 4);
		qn_act_set(graph, node, a);
		const qn_tensor *in[] = {x, w, scale, draw(0, 1) ? bias : NULL};
		const float *y = run4(node, in), *v = x->data;
		int64_t *hi = QN_NEW(&arena, int64_t, k), *lo = two ? QN_NEW(&arena, int64_t, k) : NULL;
		int zero = two ? qn_act_high_zero(a.zero_point) : a.zero_point;
		for (int64_t r = 0; r < dim[0]; r++, v += k, y += n) {
			for (int64_t i = 0; i < k; i++) {
				float c = clipped(v[i], a, two ? 16 : 8), unit = two ? a.scale * 256.0f : a.scale;
				hi[i] = cast8(c, unit, zero);
				if (two)
					lo[i] = cast8(c - (float)(hi[i] - zero) * unit, a.scale, 0);
			}
			expect_product(y, hi, lo, w, scale->data, in[3] ? bias->data : NULL);
		}
	}
}

/* All of a width's range fits in two limbs: no element within it is off by more than a step. */
static void limbs_hold_the_range(void **state)
{
	(void)state;
	for (int bits = 9; bits <= 16; bits++)
		for (int round = 0; round < 50; round++) {
			int low, high;
			qn_act_levels(bits, &low, &high);
			qn_act asked = {0.01f, round ? (int)draw(low, high) : 0, bits}, a = qn_act_in_limbs(asked);
			assert_true(a.scale >= asked.scale && a.scale <= asked.scale * 1.01f);
			assert_true(bits == 16 || a.scale == asked.scale);
			int zero = qn_act_high_zero(a.zero_point);
			for (int i = 0; i <= 100; i++) {
				double share = i / 100.0;
				float x = (float)((low + share * (high - low) - asked.zero_point) * (double)asked.scale);
				int64_t hi = cast8(x, a.scale * 256.0f, zero), lo = cast8(x - (float)(hi - zero) * (a.scale * 256.0f), a.scale, 0);
				double back = (double)((hi - zero) * 256 + lo) * (double)a.scale;
				assert_true(fabs(back - (double)x) <= 1.01 * (double)a.scale);
			}
		}
}

static void linear_i8_rows(void **state)
{
	(void)state;
	for (int round = 0; round < 40; round++) {
		int64_t n = draw(1, 9), k = draw(1, 700), dim[] = {draw(1, 3), k};
		bool two = draw(0, 1);
		int bits = (int)draw(2, 8);
		qn_tensor *x = floats(2, dim, 5), *w = codes(n, k), *scale = floats(1, &n, 1);
		qn_node *node = form_node("LinearI8Rows", 3);
		qn_node_set_int(graph, node, "limbs", two ? 2 : 1);
		qn_node_set_int(graph, node, "act_bits", bits);
		const qn_tensor *in[] = {x, w, scale};
		const float *y = run4(node, in), *v = x->data;
		double range = two ? 32639 : (double)((1 << (bits - 1)) - 1);
		for (int64_t r = 0; r < dim[0]; r++, v += k, y += n)
			for (int64_t j = 0; j < n; j++) {
				double exact = 0, bound = 0, top = 0, s = (double)((const float *)scale->data)[j];
				for (int64_t i = 0; i < k; i++)
					top = fmax(top, fabs((double)v[i]));
				for (int64_t i = 0; i < k; i++) {
					double c = (double)((const int8_t *)w->data)[j * k + i] * s;
					exact += (double)v[i] * c;
					bound += fabs(c) * top / range * 0.51 + fabs(c * (double)v[i]) * 1e-6;
				}
				assert_true(fabs((double)y[j] - exact) <= bound + 1e-6);
			}
	}
}

static void refused(void **state)
{
	(void)state;
	int64_t dim = 4;
	const qn_tensor *in[] = {floats(1, &dim, 1)};
	static const qn_act bad[] = {{0, 0, 8}, {-1, 0, 8}, {INFINITY, 0, 8}, {1, 0, 9}, {1, 0, 0}, {1, 200, 8}, {1, 8, 4}};
	for (size_t i = 0; i < QN_LEN(bad); i++) {
		qn_node *n = form_node("FakeQuant", 1);
		qn_act_set(graph, n, bad[i]);
		qn_tensor y;
		assert_int_equal(qn_exec_node(&ctx, graph->dims, n, in, &arena, &y, NULL), QUERN_ERR_CONFIG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(levels_of_each_width, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(fake_quant, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(fake_quant_odd_values, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(fake_quant_rows, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(linear_i8, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(limbs_hold_the_range, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(linear_i8_rows, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(refused, op_setup, op_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
