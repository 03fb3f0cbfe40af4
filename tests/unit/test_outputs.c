/* test_outputs.c - graph outputs that are quantized: they lie on the codes of the scales that were chosen, and nothing else changes. */
#include "tests/unit/pass_fixture.h"

#include "passes/stats.h"

#include <math.h>

static int setup(void **state)
{
	pass_setup(state);
	config->calibration.quantize_outputs = true;
	config->calibration.mode = QN_CALIB_MAX;
	quern_config_bits(config, "32");
	return 0;
}

enum { ROWS = 7, WIDTH = 32 };

static const qn_tensor *drawn(void)
{
	int64_t dim[] = {ROWS, WIDTH};
	qn_tensor *t = qn_tensor_new(&arena, QN_F32, 2, dim);
	for (int64_t i = 0; i < ROWS * WIDTH; i++)
		((float *)op_data(t))[i] = (float)draw(-1000, 1000) * 1e-3f * (i % 5 == 3 ? 20.0f : 0.3f);
	return t;
}

static void load(const char *text, bool samples)
{
	pass_graph(text);
	if (!samples)
		env.samples = NULL;
	passes(NULL, "widths");
}

static const float *result(const qn_tensor *x, int output)
{
	return run_on(x)[output].data;
}

static const char GRAPH[] = "input x f32[N,32]\n const w f32[32,32]\n h = MatMul(x, w)\n y = Sigmoid(h)\n output h\n output y\n";

static void lies_on_codes(const float *y, const float *exact, const qn_output_scales *s)
{
	for (int64_t i = 0; i < ROWS * WIDTH; i++) {
		double scale = (double)s->scale[s->n > 1 ? i % WIDTH : 0], code = (double)y[i] / scale;
		int zero = s->zero_point[s->n > 1 ? i % WIDTH : 0];
		assert_true(fabs(code - nearbyint(code)) < 1e-3);
		assert_in_range((uint64_t)(nearbyint(code) + zero + 128), 0, 255);
		assert_true(fabs((double)y[i] - (double)exact[i]) <= 1.001 * scale); /* a rounded zero point moves the ends by half a step */
	}
}

static void each_kind(void **state)
{
	for (int kind = QN_OUTPUT_TENSOR; kind <= QN_OUTPUT_SIGMOID; kind++)
		for (int method = 0; method < 4; method += 2) {
			pass_teardown(state);
			setup(state);
			config->calibration.output = kind;
			config->calibration.method = method;
			load(GRAPH, true);
			const qn_tensor *x = drawn(), *in[] = {x};
			assert_int_equal(qn_samples_add(env.samples, in), QUERN_OK);
			const float *h = result(x, 0), *y = result(x, 1);
			passes("calibrate", NULL);
			assert_int_equal(plan.n_outputs, 2);
			assert_int_equal(plan.outputs[0].n, kind == QN_OUTPUT_CHANNELS ? WIDTH : 1);
			if (kind != QN_OUTPUT_SIGMOID)
				lies_on_codes(result(x, 0), h, &plan.outputs[0]);
			lies_on_codes(result(x, 1), y, &plan.outputs[1]); /* made of the exact h, not of the rounded one */
		}
}

static void needs_samples(void **state)
{
	load(GRAPH, false);
	assert_int_equal(qn_pipeline_run(graph, &env, "calibrate", NULL), QUERN_ERR_CONFIG);
	assert_non_null(strstr(ctx.message, "--calib"));
	pass_teardown(state);
	setup(state);
	config->calibration.output = QN_OUTPUT_SIGMOID;
	load(GRAPH, false);
	assert_int_equal(qn_pipeline_run(graph, &env, "calibrate", NULL), QUERN_OK);
	assert_int_equal(text_count("FakeQuant"), 2);
}

static void integers_stay(void **state)
{
	(void)state;
	config->calibration.output = QN_OUTPUT_SIGMOID;
	load("input x f32[N,32]\n y = Cast(x) to=7\n output y\n", false);
	assert_int_equal(qn_pipeline_run(graph, &env, "calibrate", NULL), QUERN_OK);
	assert_int_equal(text_count("FakeQuant"), 0);
	assert_non_null(strstr(logged, "output 'y' is not quantized"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_kind, setup, pass_teardown),
		cmocka_unit_test_setup_teardown(needs_samples, setup, pass_teardown),
		cmocka_unit_test_setup_teardown(integers_stay, setup, pass_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
