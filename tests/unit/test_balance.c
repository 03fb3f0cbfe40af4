/* test_balance.c - calibration, balance and scales on small graphs: what is found, what is refused, and that balancing alone changes
 * nothing. */
#include "tests/unit/pass_fixture.h"

#include "passes/stats.h"

#include <math.h>

/* Layers that have no role are given widths by name. */
static void load(const char *text)
{
	pass_graph(text);
	assert_int_equal(quern_config_layer(config, "*=8/8"), QUERN_OK);
	passes(NULL, "widths");
}

/* Inputs in [-1, 1] whose channels have very different sizes. */
static const qn_tensor *drawn(int64_t rows, int64_t width) { return drawn_rows(rows, width, 20.0f); }

static void add_samples(int n, int64_t width)
{
	for (int i = 0; i < n; i++)
		add_sample(drawn(3 + i * 2, width));
}

static void assert_near(const qn_tensor *a, const qn_tensor *b) { assert_true(distance(a, b) < 1e-5); }

/* --- balancing alone ---------------------------------------------------------------------------------------------- */
static void float_graph_is_kept(const char *text, int multiplications)
{
	load(text);
	add_samples(6, 64);
	const qn_tensor *x = drawn(9, 64);
	qn_tensor *before = run_on(x);
	int muls = text_count("Mul");
	passes("calibrate", "fold_balance");
	/* weights are recipes: only multiplications of activations count */
	int now = 0;
	for (const qn_node *n = graph->first; n; n = n->next)
		now += !strcmp(n->op->name, "Mul") && !n->out[0]->is_const;
	assert_int_equal(now - muls, multiplications);
	qn_tensor *after = run_on(x);
	for (int i = 0; i < graph->n_outputs; i++)
		assert_near(&before[i], &after[i]);
}

static void into_layer_norm(void **state)
{
	(void)state;
	float_graph_is_kept("input x f32[B,S,64]\n const g f32[64]\n const b f32[64]\n const q f32[64,32]\n const k f32[64,48]\n"
			    "n = LayerNormalization(x, g, b) axis=-1\n y = MatMul(n, q)\n z = MatMul(n, k)\n output y\n output z\n",
		0);
	assert_non_null(layer("q")->balance);
	assert_ptr_equal(layer("q")->balance, layer("k")->balance);
	assert_true(layer("q")->act_scale == layer("k")->act_scale);
}

static void into_rms_norm(void **state)
{
	(void)state;
	float_graph_is_kept("input x f32[B,S,64]\n const g f32[64]\n const q f32[64,32]\n n = RMSNormalization(x, g) axis=-1\n y = "
			    "MatMul(n, q)\n output y\n",
		0);
}

static void into_rows_of_linear(void **state)
{
	(void)state;
	float_graph_is_kept(
		"input x f32[B,S,64]\n const u f32[64,96]\n const c f32[96]\n const d f32[96,32]\n h = MatMul(x, u)\n i = Add(h, c)\n"
		"y = MatMul(i, d)\n output y\n",
		1); /* the input of the first layer takes the one multiplication */
}

static void multiplied(void **state)
{
	(void)state;
	/* the residual reads the norm too */
	float_graph_is_kept(
		"input x f32[B,S,64]\n const g f32[64]\n const b f32[64]\n const q f32[64,64]\n n = LayerNormalization(x, g, b) axis=-1\n"
		"y = MatMul(n, q)\n z = Add(y, n)\n output z\n",
		1);
}

/* --- ranges -------------------------------------------------------------------------------------------------------- */
static const char one_layer[] = "input x f32[B,S,64]\n const w f32[64,32]\n y = MatMul(x, w)\n output y\n";

/* Statistics of samples of different lengths are those of all values in one. */
static void lengths_and_batches(void **state)
{
	(void)state;
	assert_int_equal(quern_config_method(config, 0), QUERN_OK);
	assert_int_equal(quern_config_mode(config, "max"), QUERN_OK);
	load(one_layer);
	static const int64_t shapes[][2] = {{1, 3}, {2, 7}, {1, 1}};
	float low = INFINITY, high = -INFINITY;
	for (int i = 0; i < 3; i++) {
		int64_t dim[] = {shapes[i][0], shapes[i][1], 64};
		const qn_tensor *in[] = {drawn(dim[0] * dim[1], 64)};
		for (int64_t k = 0; k < dim[0] * dim[1] * 64; k++) {
			float v = ((const float *)in[0]->data)[k];
			low = v < low ? v : low;
			high = v > high ? v : high;
		}
		qn_tensor t = *in[0];
		memcpy(t.dim, dim, sizeof dim);
		in[0] = &t;
		assert_int_equal(qn_samples_add(env.samples, in), QUERN_OK);
	}
	passes("calibrate", "scales");
	const qn_stats *s = qn_calibration_find(env.calibration, graph->inputs[0]);
	assert_non_null(s);
	assert_int_equal(s->count, 18 * 64);
	assert_int_equal(s->n_rows, 0); /* nothing to balance, so no rows to measure it on */
	float least = 0, most = 0;
	for (int k = 0; k < 64; k++) {
		least = fminf(least, s->channel_low[k]);
		most = fmaxf(most, s->channel_high[k]);
	}
	assert_true(least == low && most == high);
	float range = fmaxf(-low, high);
	assert_true(layer("w")->act_scale == (float)((double)range / 127));
	assert_int_equal(env.calibration->n_outputs, 1);
	assert_true(plan.outputs[0].scale[0] > 0);
}

/* The scale of the second layer and the balance of the first. */
static float scale_of(const int *order, int threads, const float **balance)
{
	op_teardown(NULL);
	op_setup(NULL);
	ctx.threads = threads;
	load("input x f32[B,S,64]\n const w f32[64,96]\n const v f32[96,32]\n h = MatMul(x, w)\n i = Relu(h)\n y = MatMul(i, v)\n output "
	     "y\n");
	const qn_tensor *in[8];
	for (int i = 0; i < 8; i++)
		in[i] = drawn(4 + i, 64);
	for (int i = 0; i < 8; i++)
		assert_int_equal(qn_samples_add(env.samples, &in[order[i]]), QUERN_OK);
	passes("calibrate", "fold_balance");
	*balance = layer("w")->balance;
	return layer("v")->act_scale;
}

static void order_and_threads(void **state)
{
	(void)state;
	static const int order[2][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {6, 2, 7, 0, 5, 1, 4, 3}};
	for (int mode = 0; mode < 3; mode++) {
		config->calibration.mode = mode;
		const float *m;
		float first = scale_of(order[0], 1, &m), kept[64];
		assert_non_null(m);
		memcpy(kept, m, sizeof kept);
		for (int turn = 0; turn < 2; turn++) {
			assert_true(scale_of(order[turn], turn ? 1 : 3, &m) == first);
			assert_memory_equal(kept, m, sizeof kept);
		}
	}
}

static void masked_values(void **state)
{
	(void)state;
	static const char *const constants[] = {"-3.4028234663852886e38", "-1e9", "-inf", "-10000"};
	for (size_t i = 0; i < QN_LEN(constants); i++) {
		op_teardown(NULL);
		op_setup(NULL);
		bool infinite = !strcmp(constants[i], "-inf"); /* no layer can read that */
		quern_config_method(config, 0);
		quern_config_mode(config, "max");
		load(qn_arena_printf(&arena,
			"input s f32[1,4,4]\n const mask f32[4,4] = 0 %s %s %s 0 0 %s %s 0 0 0 %s 0 0 0 0\n const w f32[4,8]\n"
			"m = Add(s, mask)\n p = Softmax(m) axis=-1\n y = MatMul(p, w)\n z = MatMul(%s, w)\n output y\n output z\n",
			constants[i], constants[i], constants[i], constants[i], constants[i], constants[i], infinite ? "p" : "m"));
		int64_t dim[] = {1, 4, 4};
		qn_tensor *t = qn_tensor_new(&arena, QN_F32, 3, dim);
		for (int k = 0; k < 16; k++)
			((float *)op_data(t))[k] = (float)k - 7.5f;
		const qn_tensor *in[] = {t};
		assert_int_equal(qn_samples_add(env.samples, in), QUERN_OK);
		passes("calibrate", "scales");
		const qn_stats *m = qn_calibration_find(env.calibration, qn_graph_find_value(graph, "m"));
		assert_true(infinite || (m->masked == 6 && m->count == 10 && m->channel_low[0] == -7.5f && m->channel_high[3] == 7.5f));
		assert_true(infinite || strstr(logged, "6 of 16 values were made by a mask"));
		assert_int_equal(qn_calibration_find(env.calibration, qn_graph_find_value(graph, "p"))->masked, 0);
		for (size_t k = 0; k < plan.n; k++)
			if (plan.layers[k].act_bits == 8)
				assert_true(plan.layers[k].act_scale > 0 && plan.layers[k].act_scale <= 7.6f / 127);
	}
}

static void not_a_number(void **state)
{
	(void)state;
	load("input x f32[B,S,64]\n const w f32[64,32]\n l = Log(x)\n k = Abs(l)\n y = MatMul(k, w)\n output y\n");
	add_samples(1, 64);
	assert_int_equal(qn_pipeline_run(graph, &env, "calibrate", "scales"), QUERN_ERR_NUMERIC);
	assert_non_null(strstr(ctx.message, "'l' (Log)"));
	assert_non_null(strstr(ctx.message, "sample 0"));
}

static void never_observed(void **state)
{
	(void)state;
	load("input x f32[B,S,64]\n input other f32[B,T,8]\n const w f32[64,32]\n y = MatMul(x, w)\n output y\n output other\n");
	int64_t dim[] = {1, 0, 64}, other[] = {1, 1, 8};
	const qn_tensor *in[] = {qn_tensor_new(&arena, QN_F32, 3, dim), qn_tensor_new(&arena, QN_F32, 3, other)};
	assert_int_equal(qn_samples_add(env.samples, in), QUERN_OK);
	passes("calibrate", "scales");
	assert_int_equal(layer("w")->act_bits, 32);
	assert_true(layer("w")->act_scale == 0);
	assert_non_null(layer("w")->act_reason);
	assert_non_null(strstr(logged, "no sample gave 'x' a value"));
}

static void needs_samples(void **state)
{
	(void)state;
	load(one_layer);
	env.samples = NULL;
	assert_int_equal(qn_pipeline_run(graph, &env, "calibrate", "calibrate"), QUERN_ERR_CONFIG);
	assert_non_null(strstr(ctx.message, "--calib"));
	assert_non_null(strstr(ctx.message, "--dynamic-activations"));
	assert_non_null(strstr(ctx.message, "'w', 8 bits)"));
	quern_config_dynamic_activations(config, true);
	passes("calibrate", "fold_balance");
	assert_null(env.calibration);
}

static bool stop(void *user, const char *stage, size_t done, size_t total)
{
	(void)user;
	(void)stage;
	(void)total;
	return done < 2;
}

static void cancelled(void **state)
{
	(void)state;
	load(one_layer);
	add_samples(4, 64);
	ctx.progress = stop;
	assert_int_equal(qn_pipeline_run(graph, &env, "calibrate", "fold_balance"), QUERN_ERR_CANCELLED);
}

static void lower_bounds(void **state)
{
	(void)state;
	quern_config_method(config, 0);
	config->calibration.act_scale_min = 1;
	qn_layer_override o = {.parameter = "actScaleMin", .value = 2};
	QN_GROW(&config->arena, o.layers.v, o.layers.n, o.layers.cap);
	o.layers.v[o.layers.n++] = "w";
	QN_GROW(&config->arena, config->calibration.overrides, config->calibration.n_overrides, config->calibration.cap_overrides);
	config->calibration.overrides[config->calibration.n_overrides++] = o;
	load("input x f32[B,S,64]\n const w f32[64,32]\n const v f32[64,32]\n y = MatMul(x, w)\n z = MatMul(x, v)\n output y\n output z\n");
	add_samples(2, 64);
	passes("calibrate", "scales");
	assert_true(layer("w")->act_scale == 2 && layer("v")->act_scale == 1);
}

/* What an allocation file may hold: else the file that was saved is refused. */
static void factors_are_within_bounds(void **state)
{
	(void)state;
	pass_graph("input x f32[B,S,64]\n const w f32[64,32]\n y = MatMul(x, w)\n output y\n");
	float *w = op_data(qn_graph_find_value(graph, "w")->fact.value);
	for (int n = 0; n < 32; n++)
		w[n] *= 1e20f;
	assert_int_equal(quern_config_layer(config, "*=32/8"), QUERN_OK);
	passes(NULL, "widths");
	add_samples(6, 64);
	passes("calibrate", "scales");
	const float *m = layer("w")->balance;
	assert_non_null(m);
	for (int64_t k = 0; k < 64; k++)
		assert_true(m[k] >= QN_LEAST_FACTOR && m[k] <= QN_MOST_FACTOR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(into_layer_norm, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(into_rms_norm, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(into_rows_of_linear, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(multiplied, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(lengths_and_batches, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(order_and_threads, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(masked_values, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(not_a_number, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(never_observed, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(needs_samples, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(cancelled, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(lower_bounds, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(factors_are_within_bounds, pass_setup, pass_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
