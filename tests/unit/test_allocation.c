/* test_allocation.c - allocation files: what is written is read back exactly, another model or a slip is refused in words, edits by hand do what they say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "passes/allocation.h"
#include "passes/json.h"
#include "passes/stats.h"
#include "passes/tune/curve.h"

#include <math.h>

enum { K = 64, LAYERS = 8 };

static quern_context *context;
static quern_config *config;
static qn_ctx *ctx;
static qn_arena arena;
static qn_plan plan;
static float balance[K];
static char wide[301];

static const char ODD[] = "quo\"te\\\xc3\xbc [regex]* ,\n\xf0\x9f\x8c\xbe";

static int64_t *rows_of(int64_t from, int64_t step)
{
	int64_t *rows = QN_NEW(&arena, int64_t, 8);
	for (int64_t i = 0; i < 8; i++)
		rows[i] = from + i % 4 + i / 4 * step;
	return rows;
}

static qn_part *three_parts(void)
{
	static const qn_role roles[] = {QN_ROLE_QUERY, QN_ROLE_KEY, QN_ROLE_VALUE};
	qn_part *parts = QN_NEW(&arena, qn_part, 3);
	for (int i = 0; i < 3; i++)
		parts[i] = (qn_part){.role = roles[i], .rows = rows_of(4 * i, i ? 12 : 4), .n = 8, .weight_bits = 4 + i, .form = QN_FORM_I8};
	return parts;
}

/* As calibration would leave it; `bare`: as tagging leaves it. */
static void make_plan(qn_plan *p, bool bare)
{
	static const qn_layer_error error = {0.9987, INFINITY, 0.1};
	*p = (qn_plan){.arena = &arena, .config = config, .file = "model \"x\".onnx", .fingerprint = "00112233445566778899aabbccddeeff", .n = LAYERS};
	p->layers = QN_NEW(&arena, qn_layer, LAYERS);
	const qn_layer layers[LAYERS] = {
		{.name = "/a/q", .weight = "a.q", .role = QN_ROLE_QUERY, .weight_bits = 8, .act_bits = 8, .act_scale = 0.012345678f, .act_low = -0.7f,
			.act_high = 1.5679012f, .balance = balance, .form = QN_FORM_I8, .origin = QN_FROM_PIN, .error = &error},
		{.name = "/a/k", .weight = "a.k", .role = QN_ROLE_KEY, .weight_bits = 4, .act_bits = 8, .act_scale = 1.0f / 3, .act_zero_point = 17, .act_low = -20,
			.act_high = 65, .balance = balance, .form = QN_FORM_I8, .origin = QN_FROM_FALLBACK, .reason = "no multiple of 32",
			.act_reason = "no form"},
		{.name = "/b/qkv", .weight = "b.qkv", .role = QN_ROLE_QKV, .weight_bits = 6, .act_bits = 16, .act_scale = 2e-4f, .act_low = -6.5534f,
			.act_high = 6.5534f, .form = QN_FORM_I8, .parts = bare ? NULL : three_parts(), .n_parts = 3, .origin = QN_FROM_ROLE},
		{.name = "/conv", .weight = "conv", .weight_bits = 32, .act_bits = 32, .form = QN_FORM_F32, .block = -1},
		{.name = "/pinned", .weight = "pinned", .weight_bits = 16, .act_bits = 32, .form = QN_FORM_F16, .block = -1, .origin = QN_FROM_PIN},
		{.name = ODD, .weight = "a.q", .role = QN_ROLE_FFN, .weight_bits = 4, .act_bits = 8, .act_scale = 5e-4f, .act_low = -1e-3f, .act_high = 1e-3f,
			.form = QN_FORM_Q4_0, .origin = QN_FROM_DEFAULT, .weight_scale_min = 1e-3f},
		{.name = wide, .weight = wide, .role = QN_ROLE_HEAD, .weight_bits = 4, .act_bits = 32, .form = QN_FORM_Q4_0},
		{.name = "/table", .weight = wide, .role = QN_ROLE_EMBEDDING, .weight_bits = 8, .act_bits = 32, .form = QN_FORM_Q8_1},
	};
	memcpy(p->layers, layers, sizeof layers);
	static float scales[] = {0.1f, 1.0f / 3};
	static int zero_points[] = {-128, 7};
	static const qn_output_scales outputs[] = {{"logits", 1, scales, zero_points}, {NULL, 0, NULL, NULL}, {ODD, 2, scales, zero_points}};
	p->outputs = bare ? NULL : outputs;
	p->n_outputs = bare ? 0 : QN_LEN(outputs);
	for (size_t i = 0; i < LAYERS; i++) {
		qn_layer *l = &p->layers[i];
		l->rank = 2;
		l->shape[0] = l->shape[1] = l->k = K;
		l->weight_scale_min = l->weight_scale_min > 0 && !bare ? l->weight_scale_min : 1e-6f;
		if (!bare)
			continue;
		l->parts = l->n_parts ? three_parts() : NULL;
		l->weight_bits = l->act_bits = 32;
		l->act_scale = l->act_low = l->act_high = 0;
		l->act_zero_point = 0;
		l->balance = NULL;
		l->error = NULL;
		l->origin = QN_FROM_DEFAULT;
	}
}

static int setup(void **state)
{
	(void)state;
	context = quern_open(NULL);
	config = quern_config_new(context);
	ctx = config->ctx;
	qn_arena_init(&arena, ctx);
	memset(wide, 'w', sizeof wide - 1);
	for (int i = 0; i < K; i++)
		balance[i] = expf((float)i / 7 - 4);
	make_plan(&plan, false);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	qn_arena_release(&arena);
	quern_config_free(config);
	quern_close(context);
	return 0;
}

static char *text_of(const qn_plan *p)
{
	qn_text t = {.arena = &arena};
	qn_allocation_write(p, &t);
	return t.s;
}

/* The text with one piece replaced. */
static const char *edited(const char *text, const char *from, const char *to)
{
	const char *at = strstr(text, from);
	if (!at)
		fail_msg("'%s' lacks '%s'", text, from);
	return qn_arena_printf(&arena, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

static qn_status load(const char *text, qn_plan *p, qn_allocation **f)
{
	qn_status status = qn_allocation_parse(ctx, &arena, "a.json", text, strlen(text), f);
	if (status == QUERN_OK) {
		make_plan(p, true);
		status = qn_allocation_apply(ctx, p, *f);
	}
	return status;
}

static void loads(const char *text, qn_plan *p, qn_allocation **f)
{
	if (load(text, p, f) != QUERN_OK)
		fail_msg("%s", ctx->message);
}

#define refuses(text, ...) check_refused(text, (const char *const[]){"'a.json'", __VA_ARGS__, NULL})
static void check_refused(const char *text, const char *const *words)
{
	qn_plan p;
	qn_allocation *f;
	if (load(text, &p, &f) != QUERN_ERR_CONFIG)
		fail_msg("taken, but should say '%s'", words[1]);
	for (; *words; words++)
		if (!strstr(ctx->message, *words))
			fail_msg("message '%s' lacks '%s'", ctx->message, *words);
}

static void all_comes_back(void **state)
{
	(void)state;
	qn_plan p;
	qn_allocation *f;
	loads(text_of(&plan), &p, &f);
	qn_allocation_settle(ctx, &p, f);
	for (size_t i = 0; i < LAYERS; i++) {
		const qn_layer *a = &plan.layers[i], *b = &p.layers[i];
		assert_int_equal(a->weight_bits, b->weight_bits);
		assert_int_equal(a->act_bits, b->act_bits);
		assert_memory_equal(&a->act_scale, &b->act_scale, sizeof(float));
		assert_memory_equal(&a->act_low, &b->act_low, sizeof(float));
		assert_memory_equal(&a->act_high, &b->act_high, sizeof(float));
		assert_memory_equal(&a->weight_scale_min, &b->weight_scale_min, sizeof(float));
		assert_int_equal(a->act_zero_point, b->act_zero_point);
		assert_int_equal(b->origin, i == 3 ? QN_FROM_DEFAULT : QN_FROM_LOADED);
		for (int k = 0; k < a->n_parts; k++)
			assert_int_equal(a->parts[k].weight_bits, b->parts[k].weight_bits);
	}
	assert_memory_equal(p.layers[0].balance, balance, sizeof balance);
	assert_ptr_equal(p.layers[0].balance, p.layers[1].balance); /* one vector, as before */
	assert_null(p.layers[2].balance);
	assert_true(p.layers[0].error->cosine == 0.9987 && isnan(p.layers[0].error->sqnr) && p.layers[0].error->largest == 0.1);
	/* a second round gives the same text, but for the origins */
	for (size_t i = 0; i < LAYERS; i++)
		p.layers[i].origin = plan.layers[i].origin;
	p.layers[1].reason = plan.layers[1].reason;
	p.layers[1].act_reason = plan.layers[1].act_reason;
	assert_string_equal(text_of(&plan), text_of(&p));
}

/* The curve of a tuning goes along; a file without one has no word of it. */
static void a_tuning_is_kept(void **state)
{
	(void)state;
	qn_curve_point points[] = {{1000, 4.5, 0.25, NAN, NULL, 0}, {1400, 5.25, 1.0 / 3e3, 2e-4, ODD, 8}};
	qn_tuning tuning = {"kl", 24, {1400, 5.25, 1.0 / 3e3, NAN, NULL, 0}, points, 2, 2};
	qn_plan tuned = plan, p;
	qn_allocation *f;
	assert_null(strstr(text_of(&plan), "tuning"));
	tuned.tuning = &tuning;
	const char *text = text_of(&tuned);
	loads(text, &p, &f);
	const qn_tuning *u = p.tuning;
	assert_string_equal(u->measure, "kl");
	assert_true(u->samples == 24 && u->n == 2 && u->chosen.bytes == 1400 && isnan(u->chosen.measured) && isnan(u->points[0].measured));
	assert_true(u->points[1].error == 1.0 / 3e3 && u->points[1].measured == 2e-4 && u->points[1].weight_bits == 8);
	assert_string_equal(u->points[1].changed, ODD);
	assert_string_equal(strstr(text, "tuning"), strstr(text_of(&p), "tuning"));
	refuses(edited(text, "\"bits\": 4.5", "\"bits\": \"x\""), "tuning, point 1", "'bits'", "a number");
	refuses(edited(text, "\"kl\"", "\"kI\""), "tuning", "'measure'", "cosine, kl");
}

/* The published order; ours stand between them. */
static void keys_are_in_order(void **state)
{
	(void)state;
	static const char *const file[] = {"\"format\"", "\"version\"", "\"model\"", "\"file\"", "\"fingerprint\"", "\"layers\""};
	static const char *const layer[] = {"\"name\"", "\"weight\"", "\"role\"", "\"block\"", "\"shape\"", "\"weightBits\"", "\"weightForm\"", "\"actBits\"",
		"\"actScale\"", "\"actZeroPoint\"", "\"actRange\"", "\"origin\"", "\"reason\""};
	const char *at = text_of(&plan);
	for (size_t i = 0; i < QN_LEN(file); i++)
		assert_non_null(at = strstr(at, file[i]));
	at = strstr(at, "/a/k") - 20;
	const char *end = strchr(at + 20, '\n');
	for (size_t i = 0; i < QN_LEN(layer); i++) {
		at = strstr(at, layer[i]);
		assert_true(at && at < end);
	}
	const char *text = text_of(&plan);
	assert_null(strstr(text, "/conv")); /* no role, no width of its own */
	assert_non_null(strstr(text, "\"rows\": [[4, 8], [16, 20]]"));
	assert_non_null(strstr(text, "\"balance\": \"/a/q\""));
	assert_non_null(strstr(text, "no multiple of 32; no form"));
}

static void slips_are_refused(void **state)
{
	(void)state;
	const char *text = text_of(&plan);
	refuses(edited(text, "\"weightBits\"", "\"weightBit\""), "layer '/a/q'", "'weightBits' is missing");
	refuses(edited(text, "\"weightForm\"", "\"weightFrom\""), "layer '/a/q'", "weightFrom", "did you mean 'weightForm'?");
	refuses(edited(text, "\"actScale\"", "\"act_scale\""), "layer '/a/q'", "act_scale");
	refuses(edited(text, "\"weightBits\": 8", "\"weightBits\": \"8\""), "layer '/a/q'", "weightBits", "\"8\"", "1 or more");
	refuses(edited(text, "\"weightBits\": 8", "\"weightBits\": 0"), "weightBits", "0", "1 or more");
	refuses(edited(text, "\"weightBits\": 8", "\"weightBits\": 4.5"), "weightBits", "4.5", "whole");
	refuses(edited(text, "\"actScale\": 0", "\"actScale\": -0"), "actScale", "over 0");
	refuses(edited(text, "\"i8\"", "\"i4\""), "weightForm", "i4", "q4_0, q8_1, i8, f16, f32", "did you mean 'i8'?");
	refuses(edited(text, "\"query\"", "\"querry\""), "role", "querry", "did you mean 'query'?");
	refuses(edited(text, "\"pin\"", "\"pni\""), "origin", "pni");
	refuses(edited(text, "\"actRange\": [-0.7", "\"actRange\": [-0.7, 3"), "actRange", "LOW");
	refuses(edited(text, "\"actRange\": [-0.7", "\"actRange\": [9"), "actRange", "LOW");
	refuses(edited(text, "\"cosine\"", "\"cosinus\""), "layer '/a/q'", "cosinus", "did you mean 'cosine'?");
	refuses(edited(text, "\"balance\": \"/a/q\"", "\"balance\": \"/a/x\""), "layer '/a/k'", "balance", "/a/x");
	refuses(edited(text, "\"balance\": [", "\"balance\": [1, "), "balance", "65", "64");
	refuses(edited(text, "\"balance\": [", "\"balance\": [0, "), "balance", "1e-12");
	refuses(edited(text, "\"balance\": [", "\"balance\": [1e-45, "), "balance", "1e-12");
	refuses(edited(text, "\"actZeroPoint\": 17", "\"actZeroPoint\": 170"), "layer '/a/k'", "actZeroPoint", "-128 to 128 at 8 bits");
	refuses(edited(text, "quern-allocation", "quern"), "format", "quern-allocation");
	refuses(edited(text, "\"version\": 1", "\"version\": 2"), "version", "2");
	refuses(edited(text, "\"layers\"", "\"layer\""), "'layers' is missing");
	refuses(edited(text, "\"version\": 1,", "\"version\": 1, \"roundings\": \"mse\","), "roundings", "did you mean 'rounding'?");
	refuses(edited(text, "\"fingerprint\"", "\"finger\""), "model", "'fingerprint' is missing");
	refuses(edited(text, "[[4, 8], [16, 20]]", "[[4, 8], [6, 20]]"), "layer '/b/qkv'", "rows", "ascending");
	refuses(edited(text, "\"rows\"", "\"row\""), "layer '/b/qkv'", "'rows' is missing");
	refuses(edited(text, "\"zeroPoint\": [-128]", "\"zeroPoint\": []"), "output 1", "zeroPoint");
	refuses(edited(text, "\"zeroPoint\"", "\"zeropoint\""), "output 1", "'zeroPoint' is missing");
	refuses(edited(text, "\"scale\": [", "\"scale\": [-"), "output 1", "scale", "over 0");
	refuses("[]", "a list");
	refuses("{}", "'format' is missing");
}

static void another_model_is_refused(void **state)
{
	(void)state;
	const char *text = text_of(&plan);
	refuses(edited(text, "0011", "1100"), "another model", "110022", "001122", "0 differences", "weights");
	refuses(edited(text, "\"name\": \"/a/q\"", "\"name\": \"/a/x\""), "2 differences", "layer '/a/q' of the model is not in the file",
		"layer '/a/x' of the file is not in the model");
	refuses(edited(text, "\"shape\": [64, 64]", "\"shape\": [64, 65]"), "1 differences", "layer '/a/q' has another shape");
	refuses(edited(text, "\"weight\": \"a.k\"", "\"weight\": \"a.v\""), "'/a/k'", "'a.v'", "'a.k'");
	refuses(edited(text, "\"role\": \"key\"", "\"role\": \"value\""), "'/a/k'", "value", "key");
	refuses(edited(text, "[[4, 8], [16, 20]]", "[[4, 8], [16, 21]]"), "parts", "'/b/qkv'");
	refuses(edited(text, "\"name\": \"/pinned\"", "\"name\": \"/a/q\""), "'/a/q' is there twice");
	const char *none = "{\"format\": \"quern-allocation\", \"version\": 1, \"model\": {\"fingerprint\": \"\"}, \"layers\": []}";
	refuses(none, "another model", "6 differences");
}

static void widths_by_hand(void **state)
{
	(void)state;
	qn_plan p;
	qn_allocation *f;
	const char *text = text_of(&plan);
	/* a weight's width keeps the scale of the activation */
	loads(edited(text, "\"weightBits\": 8", "\"weightBits\": 4"), &p, &f);
	qn_allocation_settle(ctx, &p, f);
	assert_int_equal(p.layers[0].weight_bits, 4);
	assert_true(p.layers[0].act_scale == plan.layers[0].act_scale);
	/* an activation's width has another scale: it is asked for anew */
	static const char *const widths[] = {"\"actBits\": 16", "\"actBits\": 7", "\"actBits\": 9"};
	for (size_t i = 0; i < QN_LEN(widths); i++) {
		loads(edited(text, "\"actBits\": 8", widths[i]), &p, &f);
		qn_allocation_settle(ctx, &p, f);
		assert_true(p.layers[0].act_scale == 0);
		assert_true(p.layers[1].act_scale == plan.layers[1].act_scale);
		assert_non_null(p.layers[0].balance);
	}
	/* and so it is after a pin */
	loads(text, &p, &f);
	p.layers[1].act_bits = 16;
	qn_allocation_settle(ctx, &p, f);
	assert_true(p.layers[1].act_scale == 0 && p.layers[1].act_zero_point == 0);
}

static void parts_by_hand(void **state)
{
	(void)state;
	qn_plan p;
	qn_allocation *f;
	const char *text = text_of(&plan), *parts = strstr(text, ", \"parts\": ["), *end = strstr(parts, "}]") + 2;
	const char *without = qn_arena_printf(&arena, "%.*s%s", (int)(parts - text), text, end);
	loads(without, &p, &f);
	for (int i = 0; i < 3; i++)
		assert_int_equal(p.layers[2].parts[i].weight_bits, 6);
	loads(edited(text, "\"weightBits\": 5 }", "\"weightBits\": 3 }"), &p, &f);
	assert_int_equal(p.layers[2].parts[1].weight_bits, 3);
	refuses(edited(text, "\"weightBits\": 6, \"weightForm\": \"i8\", \"parts\"", "\"weightBits\": 8, \"weightForm\": \"i8\", \"parts\""), "'/b/qkv'",
		"weightBits is 8", "widest part has 6");
	refuses(edited(text, "\"weightBits\": 5 }", "\"weightBits\": 9 }"), "weightBits is 6", "widest part has 9");
}

/* Where a lower bound made the scale, the range does not tell its width, and the file says it. */
static void bounded_scales(void **state)
{
	(void)state;
	qn_plan p;
	qn_allocation *f;
	const char *text = text_of(&plan);
	assert_non_null(strstr(text, "\"scaleBits\": 8"));
	loads(text, &p, &f);
	qn_allocation_settle(ctx, &p, f);
	assert_true(p.layers[5].act_scale == 5e-4f);
	for (int bits = 2; bits <= 16; bits++) {
		float most = 3.7f, symmetric = most / (float)((1 << (bits - 1)) - 1), whole = (most + 1) / (float)((1 << bits) - 1);
		for (int other = 2; other <= 16; other++) {
			assert_int_equal(qn_scale_is_of_width(symmetric, 0, -1, most, other), other == bits);
			assert_int_equal(qn_scale_is_of_width(whole, 5, -1, most, other), other == bits);
		}
	}
}

static void settings_of_all_layers(void **state)
{
	(void)state;
	qn_plan p;
	qn_allocation *f;
	loads(text_of(&plan), &p, &f);
	assert_int_equal(f->rounding, QN_ROUND_MSE);
	assert_int_equal(quern_config_rounding(config, "minmax"), QUERN_OK);
	assert_int_equal(quern_config_percentile(config, 0.9999), QUERN_OK);
	quern_config_dynamic_activations(config, true);
	quern_config_equalize(config, true);
	loads(text_of(&plan), &p, &f);
	assert_true(f->equalize); /* the pass that finds the factors has not run */
	plan.equalization_done = true;
	loads(text_of(&plan), &p, &f);
	assert_false(f->equalize);
	assert_int_equal(f->rounding, QN_ROUND_MINMAX);
	assert_true(f->percentile == 0.9999);
	assert_true(f->dynamic_activations);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_comes_back, setup, teardown),
		cmocka_unit_test_setup_teardown(a_tuning_is_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(keys_are_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(slips_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(another_model_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(widths_by_hand, setup, teardown),
		cmocka_unit_test_setup_teardown(parts_by_hand, setup, teardown),
		cmocka_unit_test_setup_teardown(bounded_scales, setup, teardown),
		cmocka_unit_test_setup_teardown(settings_of_all_layers, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
