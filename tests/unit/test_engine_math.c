/* test_engine_math.c - f32 as the engine computes it: bits that its results have (tract 0.23.9 on x86-64 with AVX-512), and the order of its sums. */
#include "op_fixture.h"

#include "graph/ops/_engine.h"
#include "graph/ops/_gemm.h"

#include <math.h>

static int engine_setup(void **state)
{
	ctx.engine_math = true;
	return op_setup(state);
}

static qn_tensor *floats(int rank, const int64_t *dim, const float *v)
{
	qn_tensor *t = qn_tensor_new(&arena, QN_F32, rank, dim);
	if (v)
		memcpy(op_data(t), v, qn_tensor_bytes(t));
	return t;
}

static void expect_bits(const char *what, int64_t i, float got, float want)
{
	if (qn_bits_of(got) != qn_bits_of(want))
		fail_msg("%s: number %lld is %.9g, the engine has %.9g", what, (long long)i, (double)got, (double)want);
}

/* --- functions ------------------------------------------------------------------------------------------------------ */
enum { POINTS = 10 };
static const float points[POINTS] = {-20, -14.75f, -3.7f, -0.61f, -0.001f, 0.35f, 1.3f, 6.2f, 15, 88};
static const struct {
	const char *op;
	float y[POINTS];
} functions[] = {
	{"Erf", {-1, -1, -0.9999998f, -0.611681f, -0.0011284947f, 0.37938207f, 0.9340077f, 1, 1, 1}},
	{"Tanh", {-0.9999994f, -0.9999994f, -0.9987782f, -0.54412717f, -0.0009999996f, 0.33637553f, 0.8617232f, 0.9999917f, 0.9999994f, 0.9999994f}},
	{"Sigmoid",
		{4.4703484e-07f, 4.4703484e-07f, 0.024127007f, 0.3520592f, 0.49975f, 0.5866176f, 0.7858349f, 0.9979747f, 0.9999995f, 0.9999995f}},
	{"Exp", {2.0611537e-09f, 3.9278635e-07f, 0.024723526f, 0.5433509f, 0.9990005f, 1.4190676f, 3.6692965f, 492.74896f, 3.2690175e+06f,
			1.6516363e+38f}},
	{"Swish", {-6.482005e-06f, -6.482005e-06f, -0.08926993f, -0.2147561f, -0.00049975f, 0.20531616f, 1.0215853f, 6.187443f, 14.999992f,
			  87.999954f}},
	{"Gelu", {-0.0f, -0.0f, -0.00039928258f, -0.1652679f, -0.00049960165f, 0.22289087f, 1.1741595f, 6.2f, 15, 88}},
};
static const float gelu_by_tanh[POINTS] = {-5.9604645e-06f, -4.3958426e-06f, -0.00027203263f, -0.16530271f, -0.00049960107f, 0.22288619f,
	1.173929f, 6.199998f, 14.999995f, 87.99998f};

static void function_once(const char *what, const qn_node *n, const float *want)
{
	const qn_tensor *y = op_run(n, floats(1, (const int64_t[]){POINTS}, points), NULL, NULL);
	for (int i = 0; i < POINTS; i++)
		expect_bits(what, i, ((const float *)y->data)[i], want[i]);
}

static void test_functions(void **state)
{
	(void)state;
	for (size_t k = 0; k < QN_LEN(functions); k++)
		function_once(functions[k].op, op_node(functions[k].op, 1, 1), functions[k].y);
	qn_node *n = op_node("Gelu", 1, 1);
	qn_node_set_string(graph, n, "approximate", "tanh");
	function_once("Gelu by tanh", n, gelu_by_tanh);
}

/* The accurate ones are left alone where nobody asks. */
static void test_only_where_asked(void **state)
{
	(void)state;
	ctx.engine_math = false;
	const qn_tensor *y = op_run(op_node("Erf", 1, 1), floats(1, (const int64_t[]){POINTS}, points), NULL, NULL);
	for (int i = 0; i < POINTS; i++)
		assert_true(fabs((double)((const float *)y->data)[i] - erf((double)points[i])) < 1.5e-7);
	assert_true(fabs((double)((const float *)y->data)[3] - (double)functions[0].y[3]) > 1e-7);
}

/* --- rows ----------------------------------------------------------------------------------------------------------- */
/* Multiples of a quarter in no order. */
static qn_tensor *ramp(int64_t rows, int64_t n)
{
	qn_tensor *t = floats(2, (const int64_t[]){rows, n}, NULL);
	for (int64_t i = 0; i < rows * n; i++)
		((float *)op_data(t))[i] = (float)(i * 37 % 23) * 0.25f;
	return t;
}

static void test_softmax(void **state)
{
	(void)state;
	static const float small[18] = {0.0027618774f, 0.09146082f, 0.0096399f, 0.31922963f, 0.033646557f, 0.0035463206f, 0.11743802f,
		0.012377877f, 0.409899f, 0.042517852f, 0.004481348f, 0.14840187f, 0.015641443f, 0.5179735f, 0.054593995f, 0.0057541654f,
		0.19055179f, 0.020084009f};
	const qn_tensor *y = op_run(op_node("Softmax", 1, 1), ramp(2, 9), NULL, NULL);
	for (int i = 0; i < 18; i++)
		expect_bits("Softmax", i, ((const float *)y->data)[i], small[i]);
	static const int at[] = {0, 34, 69, 70, 104, 139};
	static const float large[] = {0.000302201f, 0.016499612f, 0.000302201f, 0.0099113295f, 0.001722331f, 0.0099113295f};
	y = op_run(op_node("Softmax", 1, 1), ramp(2, 70), NULL, NULL);
	for (size_t i = 0; i < QN_LEN(at); i++)
		expect_bits("Softmax", at[i], ((const float *)y->data)[at[i]], large[i]);
}

/* A row that is masked whole has equal parts; what is masked in another has none. */
static void test_softmax_masked(void **state)
{
	(void)state;
	float x[6] = {-3.4028235e+38f, -3.4028235e+38f, -3.4028235e+38f, 1, -INFINITY, -3.4028235e+38f}, y[6];
	qn_engine_softmax(x, y, 3, 0);
	qn_engine_softmax(x + 3, y + 3, 3, 3);
	assert_true(y[0] == y[1] && y[1] == y[2] && fabsf(y[0] - 1.0f / 3.0f) < 1e-7f);
	assert_true(fabsf(y[3] - 1.0f) < 1e-6f && y[4] == 0.0f && y[5] == 0.0f);
	x[4] = NAN;
	qn_engine_softmax(x + 3, y + 3, 3, 3);
	assert_true(isnan(y[3]) && isnan(y[4]) && isnan(y[5]));
}

static void test_layer_norm(void **state)
{
	(void)state;
	static const int at[] = {0, 34, 69, 70, 104, 139};
	static const float want[] = {-1.614981f, 0.7681268f, -1.614981f, 0.44836283f, -0.6129793f, 0.44836283f};
	qn_tensor *x = ramp(2, 70), *ones = floats(1, (const int64_t[]){70}, NULL);
	for (int i = 0; i < 140; i++)
		((float *)op_data(x))[i] = ((float *)op_data(x))[i] / 3.0f - 1.0f;
	for (int i = 0; i < 70; i++)
		((float *)op_data(ones))[i] = 1.0f;
	const qn_tensor *y = op_run(op_node("LayerNormalization", 2, 1), x, ones, NULL);
	for (size_t i = 0; i < QN_LEN(at); i++)
		expect_bits("LayerNormalization", at[i], ((const float *)y->data)[at[i]], want[i]);
}

/* Beside 1, numbers of 2^-24 are lost one by one; together, before the first boundary or behind the last vector, they are not. */
static void test_sums(void **state)
{
	(void)state;
	const float e = 0x1p-24f, x[8] = {1, e, e, e, e, e, e, e};
	expect_bits("sum", 0, qn_engine_sum(x, 8, 0), 1.0f);
	expect_bits("sum", 1, qn_engine_sum(x, 8, 3), 1.0f + 4 * e + 4 * e); /* 1 | e e e e | e e e */
	expect_bits("sum", 2, qn_engine_sum(x, 7, 0), 1.0f + 4 * e);         /* 1 e e e | e e e: the last three round up to four */
	expect_bits("sum", 3, qn_engine_sum(x, 0, 5), 0.0f);
	qn_node *sum = op_node("ReduceSum", 2, 1);
	const qn_tensor *y = op_run(sum, floats(2, (const int64_t[]){1, 8}, x), op_ints(1, (const int64_t[]){1}), NULL);
	expect_bits("ReduceSum", 0, *(const float *)y->data, 1.0f);
	float two[16];
	for (int i = 0; i < 16; i++)
		two[i] = x[i / 2];
	y = op_run(sum, floats(2, (const int64_t[]){8, 2}, two), op_ints(1, (const int64_t[]){0}), NULL);
	expect_bits("ReduceSum", 1, ((const float *)y->data)[1], 1.0f);
	y = op_run(sum, floats(2, (const int64_t[]){2, 4}, x), op_ints(2, (const int64_t[]){0, 1}), NULL); /* several axes: as exact as ever */
	expect_bits("ReduceSum", 2, *(const float *)y->data, 1.0f + 8 * e);
	y = op_run(op_node("ReduceMean", 2, 1), floats(1, (const int64_t[]){3}, (const float[]){1, 2, 4}), op_ints(1, (const int64_t[]){0}), NULL);
	expect_bits("ReduceMean", 0, *(const float *)y->data, 7.0f * (1.0f / 3.0f));
}

static void test_quotients(void **state)
{
	(void)state;
	const int64_t one = 1;
	const qn_tensor *y = op_run(op_node("Div", 2, 1), floats(1, &one, (const float[]){5}), floats(1, &one, (const float[]){0.03f}), NULL);
	expect_bits("Div", 0, *(const float *)y->data, 5.0f * (1.0f / 0.03f));
	assert_true(5.0f * (1.0f / 0.03f) != 5.0f / 0.03f);
}

/* --- products: one chain of fused multiply-adds an element ------------------------------------------------------------ */
static float *noise(int64_t n)
{
	float *v = QN_NEW(&arena, float, n);
	for (int64_t i = 0; i < n; i++)
		v[i] = (float)draw(-1000, 1000) / 999.0f;
	return v;
}

static void products_once(int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
	const int64_t batch = 2, a_at[] = {m * k, 0}, b_at[] = {0, k * n};
	const float *a = noise(batch * m * k), *b = noise(batch * k * n);
	float *y = QN_NEW(&arena, float, batch * m * n);
	qn_gemm g = {.type = QN_F32, .ta = ta, .tb = tb, .chained = true, .m = m, .n = n, .k = k, .lda = ta ? m : k, .ldb = tb ? k : n, .ldc = n,
		.batch = batch, .c_step = m * n, .a_at = a_at, .b_at = b_at};
	qn_gemm_run(&g, (int)draw(1, 3), a, b, y);
	for (int64_t i = 0; i < batch * m * n; i++) {
		int64_t p = i / (m * n), row = i / n % m, col = i % n;
		float sum = 0.0f;
		for (int64_t l = 0; l < k; l++)
			sum = fmaf(a[a_at[p] + (ta ? l * m + row : row * k + l)], b[b_at[p] + (tb ? col * k + l : l * n + col)], sum);
		expect_bits("product", i, y[i], sum);
	}
}

static void test_products(void **state)
{
	(void)state;
	for (int i = 0; i < 40; i++)
		products_once(draw(1, 20), draw(1, 70), draw(1, 40), draw(0, 1), draw(0, 1));
	products_once(9, 33, 300, false, true);
	products_once(64, 128, 128, false, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_functions, engine_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_only_where_asked, engine_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_softmax, engine_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_softmax_masked, engine_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_layer_norm, engine_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_sums, engine_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_quotients, engine_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_products, engine_setup, op_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
