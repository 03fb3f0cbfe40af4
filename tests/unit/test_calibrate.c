/* test_calibrate.c - runs over the samples side by side: what is seen of each, and which one is blamed. */
#include "tests/unit/pass_fixture.h"

#include "passes/stats.h"

enum { WIDTH = 32, SAMPLES = 11 };

static void load(const char *text)
{
	pass_graph(text);
	assert_int_equal(quern_config_layer(config, "*=8/8"), QUERN_OK);
	passes(NULL, "widths");
}

/* Sample i has i + 1 rows, so that its size tells which one it is. */
static void add_samples(int bad, float value)
{
	for (int i = 0; i < SAMPLES; i++) {
		const qn_tensor *x = drawn_rows(i + 1, WIDTH, 2.0f);
		for (int64_t k = 0; k < qn_tensor_count(x); k++)
			((float *)op_data((qn_tensor *)(uintptr_t)x))[k] += 3;
		if (i == bad)
			((float *)op_data((qn_tensor *)(uintptr_t)x))[5] = value;
		add_sample(x);
	}
}

static void each_is_seen_once(void **state)
{
	(void)state;
	load("input x f32[1,S,32]\n const w f32[32,32]\n h = Sqrt(x)\n y = MatMul(h, w)\n output y\n");
	add_samples(-1, 0);
	passes("calibrate", "calibrate");
	const qn_stats *s = qn_calibration_find(env.calibration, graph->outputs[0]->producer->in[0]);
	assert_non_null(s);
	assert_int_equal(s->count, SAMPLES * (SAMPLES + 1) / 2 * WIDTH);
	float low[WIDTH], high[WIDTH];
	for (int k = 0; k < WIDTH; k++)
		low[k] = INFINITY, high[k] = -INFINITY;
	for (int i = 0; i < SAMPLES; i++) {
		const qn_tensor *in[1];
		assert_int_equal(qn_samples_read(env.samples, (size_t)i, &arena, in), QUERN_OK);
		const float *x = in[0]->data;
		for (int64_t k = 0; k < qn_tensor_count(in[0]); k++) {
			low[k % WIDTH] = fminf(low[k % WIDTH], sqrtf(x[k]));
			high[k % WIDTH] = fmaxf(high[k % WIDTH], sqrtf(x[k]));
		}
	}
	assert_memory_equal(s->channel_low, low, sizeof low);
	assert_memory_equal(s->channel_high, high, sizeof high);
}

static const char *name_of_rows(int64_t rows)
{
	for (size_t i = 0; i < qn_samples_count(env.samples); i++) {
		const qn_tensor *in[1];
		assert_int_equal(qn_samples_read(env.samples, i, &arena, in), QUERN_OK);
		if (in[0]->dim[1] == rows)
			return qn_samples_name(env.samples, i);
	}
	return "none";
}

static void fails_for(int64_t rows, const char *why)
{
	if (qn_pipeline_run(graph, &env, "calibrate", "calibrate") == QUERN_OK)
		fail_msg("nothing is wrong with the sample of %lld rows", (long long)rows);
	if (!strstr(ctx.message, qn_arena_printf(&arena, "'%s'", name_of_rows(rows))) || !strstr(ctx.message, why))
		fail_msg("%s", ctx.message);
}

static void a_nan_names_sample_and_node(void **state)
{
	for (int bad = 0; bad < SAMPLES; bad += 5) {
		pass_teardown(state);
		pass_setup(state);
		load("input x f32[1,S,32]\n const w f32[32,32]\n h = Sqrt(x)\n y = MatMul(h, w)\n output y\n");
		add_samples(bad, -1);
		fails_for(bad + 1, "Sqrt");
	}
}

/* An index beyond the table is an error of that sample alone. */
static void a_failed_node_names_its_sample(void **state)
{
	for (int bad = 0; bad < SAMPLES; bad += 5) {
		pass_teardown(state);
		pass_setup(state);
		load("input i i64[1,S]\n const t f32[2,32]\n const w f32[32,32]\n g = Gather(t, i) axis=0\n y = MatMul(g, w)\n output y\n");
		for (int i = 0; i < SAMPLES; i++) {
			qn_tensor *ids = qn_tensor_new(&arena, QN_I64, 2, (int64_t[]){1, i + 1});
			((int64_t *)op_data(ids))[i] = i == bad ? 7 : 1;
			add_sample(ids);
		}
		fails_for(bad + 1, "id 7 is out of range");
	}
}

/* Values far below the least scale would all be 0. */
static void a_layer_of_zeros_is_told(void **state)
{
	(void)state;
	config->calibration.method = 0;
	load("input x f32[1,S,32]\n const w f32[32,32]\n y = MatMul(x, w)\n output y\n");
	const qn_tensor *x = drawn_rows(3, WIDTH, 0.3f);
	for (int64_t k = 0; k < qn_tensor_count(x); k++)
		((float *)op_data((qn_tensor *)(uintptr_t)x))[k] *= 5e-4f;
	add_sample(x);
	passes("calibrate", "scales");
	if (!strstr(logged, "all codes of 'x' are 0"))
		fail_msg("%s", logged);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_is_seen_once, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(a_nan_names_sample_and_node, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(a_failed_node_names_its_sample, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(a_layer_of_zeros_is_told, pass_setup, pass_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
