/* test_config.c - configuration files: every field under both of its names, merging, what is refused and in which words, writing without loss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "passes/config_fields.h"
#include "passes/json.h"

#include <math.h>

static quern_context *ctx;
static quern_config *config;
static qn_arena arena;
static qn_ctx plain;

static int setup(void **state)
{
	(void)state;
	ctx = quern_open(NULL);
	config = quern_config_new(ctx);
	qn_arena_init(&arena, &plain);
	return config ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	qn_arena_release(&arena);
	quern_config_free(config);
	quern_close(ctx);
	return 0;
}

static void merges(const char *json)
{
	if (quern_config_parse(config, json, "c.json") != QUERN_OK)
		fail_msg("%s: %s", json, quern_message(ctx));
}

static const char *written(quern_config *c)
{
	const char *json;
	assert_int_equal(quern_config_write(c, &json), QUERN_OK);
	return json;
}

/* Every text of the NULL-ended list must be in the message, and nothing may have changed. */
#define refuses(json, ...) check_refused(json, (const char *const[]){"'c.json'", __VA_ARGS__, NULL})
static void check_refused(const char *json, const char *const *texts)
{
	const char *before = written(config);
	qn_status status = quern_config_parse(config, json, "c.json");
	if (status != QUERN_ERR_CONFIG)
		fail_msg("%s: taken, but should say '%s'", json, texts[1]);
	for (; *texts; texts++)
		if (!strstr(quern_message(ctx), *texts))
			fail_msg("%s: message '%s' lacks '%s'", json, quern_message(ctx), *texts);
	assert_string_equal(before, written(config));
}

/* {"part": {"name": value}} or, with a group in the name, {"part": {"group": {"name": value}}} */
static const char *one(const qn_field *f, const char *name, const char *value)
{
	const char *dot = strchr(name, '.');
	if (!dot)
		return qn_arena_printf(&arena, "{\"%s\": {\"%s\": %s}}", qn_part_names[f->part], name, value);
	return qn_arena_printf(&arena, "{\"%s\": {\"%.*s\": {\"%s\": %s}}}", qn_part_names[f->part], (int)(dot - name), name, dot + 1, value);
}

static double number_of(const qn_field *f)
{
	const void *at = qn_field_at(config, f);
	return f->kind == QN_FIELD_INT ? *(const int *)at : f->kind == QN_FIELD_NUMBER ? *(const double *)at : *(const bool *)at;
}

static bool is_number(const qn_field *f) { return f->kind == QN_FIELD_INT || f->kind == QN_FIELD_NUMBER || f->kind == QN_FIELD_BOOL; }

static void defaults_are_those_of_the_list(void **state)
{
	(void)state;
	for (size_t i = 0; i < qn_field_count; i++)
		if (is_number(&qn_fields[i]))
			assert_true(fabs(number_of(&qn_fields[i]) - qn_fields[i].initial) < 1e-12);
	assert_null(config->save_path);
	assert_null(config->load_path);
	assert_int_equal(config->calibration.n_overrides, 1);
	assert_int_equal(config->calibration.overrides[0].layers.n, 0);
	const char *first = written(config);
	quern_config *other = quern_config_new(ctx);
	merges("{}");
	assert_int_equal(quern_config_parse(other, first, "written"), QUERN_OK);
	assert_string_equal(first, written(other));
	quern_config_free(other);
}

/* A preset gives what nobody asked for, wherever it stands; a written configuration says the same. */
static void presets_give_way(void **state)
{
	(void)state;
	enum { VALUE = 2, FFN = 4 };
	assert_int_equal(qn_config_weight_bits(config, VALUE), 4);
	assert_int_equal(qn_config_embedding_bits(config), 16);
	assert_ptr_equal(qn_config_settled(&arena, config), config);
	assert_int_equal(quern_config_preset(config, "balanced"), QUERN_OK);
	assert_int_equal(qn_config_weight_bits(config, VALUE), 8);
	assert_int_equal(qn_config_weight_bits(config, FFN), 4);
	assert_int_equal(qn_config_embedding_bits(config), 8);
	assert_int_equal(qn_config_settled(&arena, config)->rounding, QN_ROUND_MSE);
	assert_int_equal(quern_config_calibration(config, "samples"), QUERN_OK);
	assert_int_equal(qn_config_settled(&arena, config)->rounding, QN_ROUND_GPTQ);
	assert_int_equal(quern_config_rounding(config, "signed"), QUERN_OK);
	assert_int_equal(qn_config_settled(&arena, config)->rounding, QN_ROUND_SIGNED);
	assert_int_equal(quern_config_bits(config, "value=16"), QUERN_OK);
	merges("{\"bit\": {\"embeddingWeightBits\": 16}}");
	assert_int_equal(quern_config_preset(config, "small"), QUERN_OK);
	assert_int_equal(qn_config_weight_bits(config, VALUE), 16);
	assert_int_equal(qn_config_embedding_bits(config), 16);
	merges("{\"bit\": {\"preset\": \"accurate\"}}");
	assert_int_equal(qn_config_weight_bits(config, FFN), 8);
	assert_int_equal(quern_config_preset(config, "tiny"), QUERN_ERR_CONFIG);
}

/* Another value than the default, within the range. */
static const char *other_value(const qn_field *f)
{
	if (f->kind == QN_FIELD_BOOL)
		return f->initial > 0 ? "false" : "true";
	if (f->kind == QN_FIELD_INT)
		return f->initial > f->low ? qn_arena_printf(&arena, "%g", f->low) : qn_arena_printf(&arena, "%g", f->low + 1);
	return strcmp(f->snake, "hist_search_percentile_max") ? "0.12345678901234567" : "0.99991234567890123";
}

static void every_field_under_both_names(void **state)
{
	(void)state;
	for (size_t i = 0; i < qn_field_count; i++) {
		const qn_field *f = &qn_fields[i];
		const char *const names[] = {f->json, f->snake};
		for (int k = 0; k < 2 && is_number(f); k++) {
			quern_config_free(config);
			config = quern_config_new(ctx);
			const char *value = other_value(f), *untouched = written(config);
			merges(one(f, names[k], value));
			double wanted = f->kind == QN_FIELD_BOOL ? !strcmp(value, "true") : strtod(value, NULL);
			assert_true(number_of(f) == wanted); /* bit for bit */
			assert_string_not_equal(untouched, written(config));
			const char *json = written(config);
			quern_config *again = quern_config_new(ctx);
			assert_int_equal(quern_config_parse(again, json, "again"), QUERN_OK);
			assert_string_equal(json, written(again));
			quern_config_free(again);
		}
	}
}

static void ranges_and_types(void **state)
{
	(void)state;
	for (size_t i = 0; i < qn_field_count; i++) {
		const qn_field *f = &qn_fields[i];
		const char *range = qn_field_range(&arena, f), *last = strrchr(f->json, '.') ? strrchr(f->json, '.') + 1 : f->json;
		refuses(one(f, f->json, "null"), last, "null");
		refuses(one(f, f->snake, "null"), f->snake, "null");
		if (!is_number(f))
			continue;
		refuses(one(f, f->json, "\"8\""), last, "the string \"8\"", range);
		refuses(one(f, f->json, "[1]"), last, "a list", range);
		if (f->kind == QN_FIELD_BOOL) {
			refuses(one(f, f->json, "1"), last, "1", "true or false");
			continue;
		}
		const char *low = qn_arena_printf(&arena, "%g", f->low - 1);
		refuses(one(f, f->json, low), last, low, range);
		if (!isinf(f->high))
			refuses(one(f, f->json, qn_arena_printf(&arena, "%g", f->high + 1)), last, range);
		if (f->kind == QN_FIELD_INT)
			refuses(one(f, f->json, "1.5"), last, "1.5", "a whole number", range);
		else
			refuses(one(f, f->json, "true"), last, "true", range);
	}
	refuses("{\"bit\": {\"queryActBits\": 99999999999}}", "queryActBits", "99999999999");
}

static void unknown_names(void **state)
{
	(void)state;
	refuses("{\"bit\": {\"queryWeightBit\": 8}}", "bit.queryWeightBit", "(8)", "did you mean 'queryWeightBits'?", "1 or more");
	refuses("{\"bit\": {\"query_weight_bit\": 8}}", "did you mean 'query_weight_bits'?");
	refuses("{\"calibration\": {\"minClipRatio\": 0.5}}", "did you mean 'minclipRatio'?", "-1..1");
	refuses("{\"calibration\": {\"histogram\": {\"numBin\": 5}}}", "calibration.histogram.numBin", "did you mean 'numBins'?");
	refuses("{\"calibration\": {\"histograms\": {}}}", "did you mean 'histogram'?");
	refuses("{\"calibration\": {\"queryActBits\": 8}}", "calibration.queryActBits");
	refuses("{\"calibration\": {\"xyzzyplugh\": 8}}", "calibration.xyzzyplugh");
	refuses("{\"bits\": {}}", "'bits'", "did you mean 'bit'?");
	refuses("{\"calibration\": []}", "calibration", "a list", "an object");
	refuses("{\"calibration\": {\"histogram\": 3}}", "histogram", "3", "an object");
	refuses("[1, 2]", "a list");
	refuses("3", "a number");
	refuses("{\"calibration\": {\"histogram\": {\"percentile\": 1e400}}}", "line 1", "too large");
	refuses("{\"calibration\": {\"histogram\": {\"searchPercentileMin\": 0.9999995}}}", "searchPercentileMin", "searchPercentileMax");
}

static void given_twice(void **state)
{
	(void)state;
	refuses("{\"bit\": {\"queryActBits\": 8, \"queryActBits\": 8}}", "'queryActBits' is given twice");
	refuses("{\"bit\": {}, \"bit\": {}}", "'bit' is given twice");
	refuses("{\"bit\": {\"queryActBits\": 8, \"query_act_bits\": 8}}", "queryActBits", "query_act_bits", "twice");
	refuses("{\"calibration\": {\"maxPercentile\": {\"percentile\": 0.5}, \"percentile\": 0.5}}", "percentile", "twice");
	refuses("{\"bit\": {\"layers\": {\"a\": {\"weightBits\": 4, \"weight_bits\": 4}}}}", "layers.a.weight_bits", "both");
	refuses("{\"bit\": {\"layers\": {\"a\": {\"weightBits\": 4}, \"a\": {\"weightBits\": 4}}}}", "'a' is given twice");
}

static void what_is_no_json(void **state)
{
	(void)state;
	refuses("", "empty");
	refuses("{", "line 1", "no JSON");
	refuses("{\n\n  \"bit\": }", "line 3, column 10");
	refuses("{} {}", "after the end");
	refuses("// note\n{}", "comments");
	refuses("{\"bit\": {} /* note */}", "comments");
	refuses("# note\n{}", "comments");
	refuses("{\"calibration\": {\"percentile\": NaN}}", "NaN");
	refuses("{\"calibration\": {\"percentile\": -Infinity}}", "Infinity");
	refuses("{\"calibration\": {\"percentile\": Infinity}}", "Infinity");
	refuses("{\"calibration\": {\"percentile\": nan}}", "line 1, column 32");
	refuses("{\"calibration\": {\"percentile\": .5}}", "line 1, column 32");
	refuses("{\"calibration\": {\"percentile\": 01}}", "no JSON number");
	refuses("{\"calibration\": {\"percentile\": 1.}}", "no JSON number");
	refuses("{\"calibration\": {\"percentile\": 0x1}}", "no JSON number");
	refuses("{\"calibration\": {\"percentile\": +1}}", "line 1, column 32");
	refuses("{\"bit\": {\"savePath\": \"a\tb\"}}", "control character");
	refuses("{\"bit\": {\"savePath\": \"a\\u0000b\"}}", "\\u0000");
	refuses("{\"bit\": {\"savePath\": \"a\\xb\"}}", "no JSON");
	refuses("{\"bit\": {\"savePath\": \"ab}}", "does not end");
	refuses("{'bit': {}}", "line 1", "no JSON");
	refuses("{\"bit\": {},}", "no JSON");
	char deep[20001];
	memset(deep, '[', 20000);
	deep[20000] = '\0';
	refuses(deep, "nested too deeply");
}

static void layers_and_names(void **state)
{
	(void)state;
	merges("{\"bit\": {\"layers\": {\"a/*\": {\"weightBits\": 4}, \"b\": {\"act_bits\": 16, \"weight_bits\": 8}},"
	       "\"weight_16bits\": [\"x\", \"y\"], \"activation16Bits\": [\"z\"]}}");
	assert_int_equal(config->n_pins, 2);
	assert_string_equal(config->pins[1].name, "b");
	assert_int_equal(config->pins[1].weight_bits, 8);
	assert_int_equal(config->pins[1].act_bits, 16);
	/* a name given again takes the later place and keeps the rest; lists are replaced */
	merges("{\"bit\": {\"layers\": {\"a/*\": {\"actBits\": 12}}, \"weight16Bits\": [\"w\"]}}");
	assert_int_equal(config->n_pins, 2);
	assert_string_equal(config->pins[1].name, "a/*");
	assert_int_equal(config->pins[1].weight_bits, 4);
	assert_int_equal(config->pins[1].act_bits, 12);
	assert_int_equal(config->weight_16.n, 1);
	assert_int_equal(config->act_16.n, 1);
	refuses("{\"bit\": {\"layers\": {\"a\": {}}}}", "layers.a", "weightBits");
	refuses("{\"bit\": {\"layers\": {\"a\": 4}}}", "layers.a", "4");
	refuses("{\"bit\": {\"layers\": {\"\": {\"weightBits\": 4}}}}", "empty");
	refuses("{\"bit\": {\"layers\": {\"a\": {\"weightBit\": 4}}}}", "layers.a.weightBit", "did you mean 'weightBits'?");
	refuses("{\"bit\": {\"layers\": {\"a\": {\"weightBits\": 0}}}}", "layers.a.weightBits", "0", "1 or more");
	refuses("{\"bit\": {\"weight16Bits\": \"a\"}}", "weight16Bits", "a list of layers");
	refuses("{\"bit\": {\"weight16Bits\": [\"a\", 3]}}", "weight16Bits", "3", "a list of layers");
	refuses("{\"bit\": {\"weight16Bits\": [\"\"]}}", "weight16Bits", "not empty");
}

static void layer_overrides(void **state)
{
	(void)state;
	merges("{\"calibration\": {\"layer_overrides\": {\"actScaleMin\": {\"0.001\": [\"a\", \"b\"], \"5e-4\": [\"c\"]}, \"min_clip_ratio\": {\"0.5\": [\"d\"]}}}}");
	const qn_calibration_config *k = &config->calibration;
	assert_int_equal(k->n_overrides, 3);
	assert_string_equal(k->overrides[1].parameter, "actScaleMin");
	assert_true(k->overrides[1].value == 5e-4); /* the published default's entry, now with a layer */
	assert_string_equal(k->overrides[1].layers.v[0], "c");
	assert_string_equal(k->overrides[2].parameter, "minclipRatio");
	const char *json = written(config);
	quern_config *again = quern_config_new(ctx);
	assert_int_equal(quern_config_parse(again, json, "again"), QUERN_OK);
	assert_string_equal(json, written(again));
	quern_config_free(again);
	refuses("{\"calibration\": {\"layerOverrides\": {\"actScaleMax\": {\"1\": []}}}}", "actScaleMax", "did you mean 'actScaleMin'?");
	refuses("{\"calibration\": {\"layerOverrides\": {\"percentile\": {\"1\": []}}}}", "percentile", "actScaleMin, weightScaleMin, minclipRatio");
	refuses("{\"calibration\": {\"layerOverrides\": {\"actScaleMin\": {\"2\": []}}}}", "actScaleMin", "'2'", "0..1");
	refuses("{\"calibration\": {\"layerOverrides\": {\"actScaleMin\": {\"x\": []}}}}", "actScaleMin", "'x'");
	refuses("{\"calibration\": {\"layerOverrides\": {\"actScaleMin\": {\"nan\": []}}}}", "actScaleMin", "'nan'");
	refuses("{\"calibration\": {\"layerOverrides\": {\"actScaleMin\": {\"0.1\": \"a\"}}}}", "actScaleMin.0.1", "a list of layers");
	refuses("{\"calibration\": {\"layerOverrides\": {\"actScaleMin\": []}}}", "layerOverrides.actScaleMin", "an object");
}

static void odd_names_survive(void **state)
{
	(void)state;
	char wide[301];
	memset(wide, 'n', 300);
	wide[300] = '\0';
	const char *const names[] = {"quo\"te", "back\\slash", "sp ace", "regex.*[a](b)?", "\xc3\xbc\xe5\xb1\xa4\xf0\x9f\x8c\xbe", "line\nbreak", "{", wide};
	for (size_t i = 0; i < QN_LEN(names); i++) {
		assert_int_equal(quern_config_layer(config, qn_arena_printf(&arena, "%s=8/16", names[i])), QUERN_OK);
		assert_int_equal(quern_config_weight_16bits(config, names[i]), QUERN_OK);
	}
	assert_int_equal(quern_config_save_bits(config, names[0]), QUERN_OK);
	const char *json = written(config);
	quern_config *again = quern_config_new(ctx);
	assert_int_equal(quern_config_parse(again, json, "again"), QUERN_OK);
	assert_string_equal(json, written(again));
	assert_int_equal(again->n_pins, QN_LEN(names));
	for (size_t i = 0; i < QN_LEN(names); i++) {
		assert_string_equal(again->pins[i].name, names[i]);
		assert_string_equal(again->weight_16.v[i], names[i]);
	}
	assert_string_equal(again->save_path, names[0]);
	quern_config_free(again);
	merges("{\"bit\": {\"layers\": {\"\\u00fc\\ud83c\\udf3e\\/\": {\"weightBits\": 3}}}}");
	assert_string_equal(config->pins[config->n_pins - 1].name, "\xc3\xbc\xf0\x9f\x8c\xbe/");
}

static void numbers_read_back(void **state)
{
	(void)state;
	const double values[] = {0, -0.0, 0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, 0.30000000000000004, 123456789012345680, 5e-4, 1e-6, 2.5};
	for (size_t i = 0; i < QN_LEN(values); i++) {
		qn_text t = {.arena = &arena};
		qn_json_double(&t, values[i]);
		double back = strtod(t.s, NULL);
		assert_memory_equal(&back, &values[i], sizeof back);
	}
	qn_text t = {.arena = &arena};
	qn_json_double(&t, 5e-4);
	assert_string_equal(t.s, "0.0005");
	uint32_t bits = 1;
	for (int i = 0; i < 100000; i++) {
		float f, back;
		bits = bits * 1664525u + 1013904223u;
		uint32_t finite = bits & 0x7effffff;
		memcpy(&f, &finite, sizeof f);
		qn_text s = {.arena = &arena};
		qn_json_float(&s, f);
		back = (float)strtod(s.s, NULL);
		assert_memory_equal(&back, &f, sizeof f);
	}
}

static void options_are_written_as_fields(void **state)
{
	(void)state;
	assert_int_equal(quern_config_bits(config, "ffn=4,head=6"), QUERN_OK);
	assert_int_equal(quern_config_act_bits(config, "query=8"), QUERN_OK);
	assert_int_equal(quern_config_method(config, 3), QUERN_OK);
	assert_int_equal(quern_config_mode(config, "histogram-kl"), QUERN_OK);
	assert_int_equal(quern_config_embedding_bits(config, 8), QUERN_OK);
	quern_config_dynamic_activations(config, true);
	quern_config_equalize(config, true);
	const char *json = written(config);
	quern_config *again = quern_config_new(ctx);
	assert_int_equal(quern_config_parse(again, json, "again"), QUERN_OK);
	for (int i = 0; i < QN_CONFIG_ROLES; i++) {
		assert_int_equal(qn_config_weight_bits(again, i), qn_config_weight_bits(config, i));
		assert_int_equal(qn_config_act_bits(again, i), qn_config_act_bits(config, i));
	}
	assert_int_equal(again->calibration.method, 3);
	assert_int_equal(again->calibration.mode, QN_CALIB_HISTOGRAM);
	assert_int_equal(again->calibration.hist_search_type, 2);
	assert_int_equal(again->embedding_bits, 8);
	assert_true(again->dynamic_activations);
	assert_true(again->equalize);
	quern_config_free(again);
}

static void files(void **state)
{
	(void)state;
	assert_int_equal(quern_config_read(config, "/no/such/file.json"), QUERN_ERR_IO);
	assert_non_null(strstr(quern_message(ctx), "'/no/such/file.json'"));
	assert_int_equal(quern_config_read(config, "/"), QUERN_ERR_IO);
	assert_int_equal(quern_config_read(config, "/dev/zero"), QUERN_ERR_IO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(defaults_are_those_of_the_list, setup, teardown),
		cmocka_unit_test_setup_teardown(presets_give_way, setup, teardown),
		cmocka_unit_test_setup_teardown(every_field_under_both_names, setup, teardown),
		cmocka_unit_test_setup_teardown(ranges_and_types, setup, teardown),
		cmocka_unit_test_setup_teardown(unknown_names, setup, teardown),
		cmocka_unit_test_setup_teardown(given_twice, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_no_json, setup, teardown),
		cmocka_unit_test_setup_teardown(layers_and_names, setup, teardown),
		cmocka_unit_test_setup_teardown(layer_overrides, setup, teardown),
		cmocka_unit_test_setup_teardown(odd_names_survive, setup, teardown),
		cmocka_unit_test_setup_teardown(numbers_read_back, setup, teardown),
		cmocka_unit_test_setup_teardown(options_are_written_as_fields, setup, teardown),
		cmocka_unit_test_setup_teardown(files, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
