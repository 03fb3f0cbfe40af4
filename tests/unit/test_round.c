/* test_round.c - the rounding pass on small graphs: hidden channels in another order, who takes part, what falls back, repeatability. */
#include "tests/unit/pass_fixture.h"

#include "passes/gptq/permute.h"
#include "passes/gptq/layer.h"

#include <math.h>

static void load(const char *text, const char *bits)
{
	pass_graph(text);
	assert_int_equal(quern_config_layer(config, bits), QUERN_OK);
	assert_int_equal(quern_config_rounding(config, "gptq"), QUERN_OK);
	passes(NULL, "widths");
}

static const qn_tensor *drawn(int64_t rows, int64_t width) { return drawn_rows(rows, width, 3.0f); }

static void add_samples(int n, int64_t rows, int64_t width)
{
	for (int i = 0; i < n; i++)
		add_sample(drawn(rows, width));
}

/* --- hidden channels --------------------------------------------------------------------------------------------------------- */
static const char PLAIN[] = "input x f32[B,S,64]\n const a f32[64,96]\n const b f32[96]\n const c f32[96,64]\n const g f32[96]\n"
			    "h = MatMul(x, a)\n i = Add(h, b)\n j = Relu(i)\n k = Mul(j, g)\n y = MatMul(k, c)\n z = Add(y, x)\n output z\n";
static const char GATED[] = "input x f32[B,S,64]\n const a f32[64,96]\n const b f32[64,96]\n const c f32[96,64]\n"
			    "g = MatMul(x, a)\n u = MatMul(x, b)\n s = Sigmoid(g)\n t = Mul(g, s)\n h = Mul(t, u)\n y = MatMul(h, c)\n output y\n";
static const char SEEN[] = "input x f32[B,S,64]\n const a f32[64,96]\n const c f32[96,64]\n h = MatMul(x, a)\n j = Relu(h)\n y = MatMul(j, c)\n output y\n"
			   " output j\n";
static const char SOFTMAX[] = "input x f32[B,S,64]\n const a f32[64,96]\n const c f32[96,64]\n h = MatMul(x, a)\n j = Softmax(h) axis=-1\n y = MatMul(j, c)\n"
			      " output y\n";
static const char RESIDUAL[] = "input x f32[B,S,64]\n const a f32[64,96]\n const c f32[96,64]\n const d f32[64,32]\n n = Softmax(x) axis=-1\n"
			       "h = MatMul(n, a)\n j = Relu(h)\n y = MatMul(j, c)\n z = Add(n, y)\n o = MatMul(z, d)\n output o\n";

static size_t permute(const char *text)
{
	size_t n;
	load(text, "*=4");
	const qn_tensor *x = drawn(9, 64), *before = run_on(x);
	qn_gptq_mark(&plan, "gptq", true);
	assert_int_equal(qn_gptq_permute(graph, &plan, &arena, &n), QUERN_OK);
	assert_int_equal(qn_graph_check(graph), QUERN_OK);
	assert_true(distance(before, run_on(x)) < 1e-6);
	return n;
}

/* Norms of the columns of a weight stored [n, k] descend. */
static void assert_sorted(const qn_layer *l)
{
	const qn_tensor *t;
	assert_int_equal(qn_graph_load(graph, l->node->in[1], &arena, &t), QUERN_OK);
	double last = INFINITY;
	for (int64_t k = 0; k < l->k; k++) {
		double norm = 0;
		for (int64_t n = 0; n < l->n; n++)
			norm += qn_tensor_get(t, n * l->k + k) * qn_tensor_get(t, n * l->k + k);
		assert_true(norm <= last);
		last = norm;
	}
}

static void hidden_channels_are_sorted(void **state)
{
	(void)state;
	assert_int_equal(permute(PLAIN), 1);
	assert_sorted(layer("c"));
	assert_non_null(layer("a")->order);
	assert_null(layer("c")->order);
}

static void gated_hidden_channels_are_sorted(void **state)
{
	(void)state;
	assert_int_equal(permute(GATED), 1);
	assert_sorted(layer("c"));
	assert_ptr_equal(layer("a")->order, layer("b")->order);
}

static void what_others_see_keeps_its_order(void **state)
{
	(void)state;
	assert_int_equal(permute(SEEN), 0);
	assert_null(layer("a")->order);
}

static void only_elementwise_operators_let_an_order_through(void **state)
{
	(void)state;
	assert_int_equal(permute(SOFTMAX), 0);
}

/* n, which has to keep its order, is met first as what a reads, then as what is added to y. */
static void a_sum_with_what_keeps_its_order_keeps_it_too(void **state)
{
	(void)state;
	assert_int_equal(permute(RESIDUAL), 1);
	assert_non_null(layer("a")->order);
	assert_null(layer("c")->order);
}

/* --- the pass ------------------------------------------------------------------------------------------------------------------ */
/* Distance of the rounded graph on the samples' kind of inputs; `bytes` gets a copy of the first layer's codes. */
static double rounded(const char *rounding, const char *bits, int samples, int threads, const void **bytes, size_t *size)
{
	load(PLAIN, bits);
	assert_int_equal(quern_config_rounding(config, rounding), QUERN_OK);
	ctx.threads = threads;
	add_samples(samples, 30, 64);
	const qn_tensor *x = drawn(50, 64), *before = run_on(x);
	passes("calibrate", "round");
	if (bytes) {
		*bytes = layer("a")->ready_weight->data;
		*size = qn_tensor_bytes(layer("a")->ready_weight);
	}
	passes("weights", NULL);
	return distance(before, run_on(x));
}

static void samples_make_the_error_smaller(void **state)
{
	double plain = rounded("mse", "*=4", 0, 0, NULL, NULL);
	pass_teardown(state), pass_setup(state);
	double gptq = rounded("gptq", "*=4", 12, 0, NULL, NULL);
	assert_true(gptq < 0.8 * plain);
	assert_string_equal(layer("a")->rounding, "gptq");
	assert_non_null(layer("a")->rounding_note); /* no stream */
	assert_null(layer("c")->rounding_note);     /* added to x */
}

static void too_few_rows_fall_back(void **state)
{
	(void)state;
	rounded("gptq", "*=4", 1, 0, NULL, NULL);
	assert_null(layer("a")->rounding);
	assert_non_null(layer("a")->rounding_note);
}

static void few_rows_say_nothing_of_importance_either(void **state)
{
	(void)state;
	rounded("importance", "*=4", 1, 0, NULL, NULL);
	assert_null(layer("a")->rounding);
	assert_non_null(layer("a")->rounding_note);
}

/* Ten ids, and some hundred of their copies. */
static void copies_are_no_rows(void **state)
{
	(void)state;
	load("input ids i64[B,S]\n const table f32[96,64]\n const a f32[64,96]\n x = Gather(table, ids)\n y = MatMul(x, a)\n output y\n", "a=4");
	int64_t dim[] = {1, 10};
	qn_tensor *ids = qn_tensor_new(&arena, QN_I64, 2, dim);
	for (int64_t i = 0; i < dim[1]; i++)
		qn_tensor_set(op_data(ids), QN_I64, i, (double)(7 * i));
	add_sample(ids);
	passes("calibrate", "round");
	assert_null(layer("a")->rounding);
	assert_string_equal(layer("a")->rounding_note, QN_TOO_FEW_ROWS);
}

/* One row in thirty is 10,000 times as large in one channel: by squares nothing else counts, and the mean of all rows is of no other. */
static void few_large_rows_do_not_decide(void **state)
{
	(void)state;
	load("input x f32[B,S,64]\n const a f32[64,96]\n const g f32[96]\n y = MatMul(x, a)\n z = LayerNormalization(y, g) axis=-1\n output z\n", "a=8");
	for (int i = 0; i < 12; i++) {
		const qn_tensor *x = drawn(30, 64);
		((float *)op_data(x))[64 * i + 5] = 1e4f + (float)draw(0, 1000);
		add_sample(x);
	}
	passes("calibrate", "round");
	assert_null(layer("a")->rounding);
	assert_non_null(strstr(layer("a")->rounding_note, "few are very large"));
	assert_null(layer("a")->ready_bias);
}

/* What c adds to r is 1e-9 of it: c could only make r's error good with weights that are blown up. */
static void small_layers_make_no_large_errors_good(void **state)
{
	(void)state;
	load("input x f32[B,S,64]\n const a f32[64,96]\n const c f32[96,96]\n const s f32[1] = 1e-9\n r = MatMul(x, a)\n j = Tanh(r)\n k = Mul(j, s)\n y = MatMul(k, c)\n"
	     "z = Add(y, r)\n output z\n", "*=4");
	const qn_tensor *t;
	assert_int_equal(qn_graph_load(graph, layer("c")->node->in[1], &arena, &t), QUERN_OK);
	add_samples(12, 30, 64);
	passes("calibrate", "round");
	int64_t n = qn_tensor_count(t);
	assert_string_equal(layer("c")->rounding, "gptq");
	float *w = QN_NEW(&arena, float, n);
	qn_dequantize_q4_0(&ctx, layer("c")->ready_weight->data, n, false, w);
	double before = 0, after = 0;
	for (int64_t i = 0; i < n; i++) {
		before += qn_tensor_get(t, i) * qn_tensor_get(t, i);
		after += (double)w[i] * (double)w[i];
	}
	assert_true(after < 4 * before);
}

/* The table keeps plain codes, and a product with other codes would be stored beside it. */
static void a_tied_head_keeps_the_codes_of_its_table(void **state)
{
	(void)state;
	load("input ids i64[B,S]\n const table f32[96,64]\n x = Gather(table, ids)\n r = Relu(x)\n t = Transpose(table) perm=1,0\n y = MatMul(r, t)\n output y\n", "*=4");
	assert_int_equal(plan.n, 2);
	qn_gptq_mark(&plan, "gptq", true);
	for (size_t i = 0; i < plan.n; i++) {
		assert_int_equal(plan.layers[i].form, QN_FORM_Q4_0);
		assert_null(plan.layers[i].rounding);
		assert_non_null(plan.layers[i].rounding_note);
	}
}

/* Their squares are more than f32 holds. */
static void large_inputs_are_weighed(void **state)
{
	(void)state;
	load(PLAIN, "*=4");
	assert_int_equal(quern_config_rounding(config, "importance"), QUERN_OK);
	add_sample(drawn_rows(40, 64, 1e25f));
	passes("calibrate", "round");
	assert_non_null(layer("a")->ready_weight);
	assert_string_equal(layer("a")->rounding, "importance");
}

static void eight_bits_take_part(void **state)
{
	(void)state;
	assert_true(rounded("gptq", "*=8", 12, 0, NULL, NULL) < 0.01);
	assert_string_equal(layer("a")->rounding, "gptq");
	assert_non_null(layer("a")->ready_bias);
}

static void the_same_samples_give_the_same_bytes(void **state)
{
	const void *bytes, *again;
	size_t n, m;
	rounded("gptq", "*=4", 12, 1, &bytes, &n);
	void *copy = malloc(n);
	memcpy(copy, bytes, n);
	pass_teardown(state), pass_setup(state);
	rounded("gptq", "*=4", 12, 3, &again, &m);
	assert_int_equal(n, m);
	assert_memory_equal(copy, again, n);
	free(copy);
}

/* Also where nothing was calibrated, as when an allocation file has the scales. */
static void samples_are_taken_by_content(void **state)
{
	enum { SAMPLES = 12 };
	static const char *const rounding[] = {"gptq", "importance"};
	for (size_t r = 0; r < QN_LEN(rounding); r++) {
		double first[2][SAMPLES];
		for (int turn = 0; turn < 2; turn++) {
			pass_teardown(state), pass_setup(state);
			load(PLAIN, "*=4");
			assert_int_equal(quern_config_rounding(config, rounding[r]), QUERN_OK);
			const qn_tensor *x[SAMPLES];
			for (int i = 0; i < SAMPLES; i++)
				x[i] = drawn(30 + i, 64);
			for (int i = 0; i < SAMPLES; i++)
				add_sample(x[turn ? SAMPLES - 1 - i : i]);
			passes("round", "round");
			for (size_t i = 0; i < SAMPLES; i++) {
				const qn_tensor *in[1];
				assert_int_equal(qn_samples_read(env.samples, i, &arena, in), QUERN_OK);
				first[turn][i] = qn_tensor_get(in[0], 0);
			}
		}
		assert_memory_equal(first[0], first[1], sizeof first[0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(hidden_channels_are_sorted, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(gated_hidden_channels_are_sorted, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(what_others_see_keeps_its_order, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(only_elementwise_operators_let_an_order_through, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(a_sum_with_what_keeps_its_order_keeps_it_too, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(samples_make_the_error_smaller, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(too_few_rows_fall_back, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(few_rows_say_nothing_of_importance_either, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(copies_are_no_rows, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(few_large_rows_do_not_decide, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(small_layers_make_no_large_errors_good, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(a_tied_head_keeps_the_codes_of_its_table, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(large_inputs_are_weighed, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(eight_bits_take_part, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(the_same_samples_give_the_same_bytes, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(samples_are_taken_by_content, pass_setup, pass_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
