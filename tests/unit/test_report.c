/* test_report.c - reports: hostile names stay text, figures that are not known are left out, the page holds the same JSON, rankings and advice follow the figures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "passes/json.h"
#include "passes/report/escape.h"
#include "passes/report/html.h"
#include "passes/report/report.h"
#include "passes/tune/curve.h"

#include <math.h>

static const char HOSTILE[] = "</script><script>alert(1)</script>&amp;\"'\\\x01\x1b\x7f\n\xc3\xa9\xff\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\xe2\x82<!--";

static quern_context *context;
static qn_ctx *ctx;
static qn_arena arena;

static int setup(void **state)
{
	(void)state;
	context = quern_open(NULL);
	ctx = (qn_ctx *)context;
	qn_arena_init(&arena, ctx);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	qn_arena_release(&arena);
	quern_close(context);
	return 0;
}

static void bytes_that_are_no_utf8(void **state)
{
	(void)state;
	static const char *const pairs[][2] = {{"plain", "plain"}, {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\xbe", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\xbe"}, {"a\xff" "b", "a\xef\xbf\xbd" "b"},
		{"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"}, {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"}, {"\xed\x9f\xbf\xee\x80\x80", "\xed\x9f\xbf\xee\x80\x80"}, {"", ""}};
	for (size_t i = 0; i < QN_LEN(pairs); i++)
		assert_string_equal(qn_report_utf8(&arena, pairs[i][0]), pairs[i][1]);
}

static void names_stay_text(void **state)
{
	(void)state;
	qn_text html = {.arena = &arena}, json = {.arena = &arena};
	qn_report_html_string(&html, HOSTILE);
	assert_null(strpbrk(html.s, "<>\"'"));
	for (const char *p = html.s; *p; p++)
		assert_true((unsigned char)*p >= 0x20 && *p != 0x7f);
	assert_non_null(strstr(html.s, "&#60;/script&#62;"));
	assert_non_null(strstr(html.s, "&#x2401;&#x241b;&#x2421;&#x240a;"));
	qn_report_json_string(&json, HOSTILE);
	assert_null(strpbrk(json.s, "<>&"));
	const cJSON *v;
	assert_int_equal(qn_json_parse(ctx, &arena, "json", json.s, json.len, &v), QUERN_OK);
	assert_string_equal(v->valuestring, qn_report_utf8(&arena, HOSTILE));
}

/* --- a report made by hand ------------------------------------------------------------------------------------------------------------ */
enum { LAYERS = 12 };

static qn_report make_report(bool executed)
{
	qn_report r = {.arena = &arena, .command = "compile", .model = HOSTILE, .archive = HOSTILE, .target = "tract", .rounding = "mse", .mode = "max", .config = "{}\n", .method = 1,
		.embedding_bits = 16, .weights_before = 4000000, .weights_after = 1000000, .archive_bytes = 999, .bits_per_weight = 4.5, .n_layers = LAYERS, .executed = executed};
	r.layers = QN_NEW(&arena, qn_report_layer, LAYERS);
	for (int i = 0; i < LAYERS; i++) {
		r.layers[i] = (qn_report_layer){.name = HOSTILE, .weight = HOSTILE, .op = "Linear", .role = i ? "ffn" : "", .why = i ? NULL : HOSTILE, .form = "q4_0", .origin = "default",
			.reason = i == 3 ? HOSTILE : NULL, .block = i - 1, .rank = 2, .shape = {64, 32}, .weight_bits = 4, .act_bits = 32, .before = 8192, .after = 1152,
			.scale_min = 0.001, .scale_max = 0.25, .weight_sqnr = 20 + i, .act_scale = NAN, .act_low = NAN, .act_high = NAN, .cosine = NAN, .sqnr = NAN, .largest = NAN,
			.own_sqnr = NAN, .share = NAN, .seen_low = NAN, .seen_high = NAN};
		if (executed) {
			qn_report_layer *l = &r.layers[i];
			l->cosine = 0.99, l->sqnr = 15 + i, l->own_sqnr = i == 2 ? INFINITY : 18 + i, l->share = i == 5 ? 0.6 : 0.4 / (LAYERS - 1);
			l->has_input = true, l->input = (qn_spread){0.1, 0.5, 1, {9, 8, 7, 6, NAN}}, l->seen_low = -9, l->seen_high = 4;
		}
	}
	r.samples_name = executed ? "calib" : NULL;
	r.attributed = r.samples = r.samples_given = executed ? 2 : 0;
	r.alone = 0.1, r.together = 0.11;
	return r;
}

static const cJSON *parsed(const qn_report *r, const char **text)
{
	qn_text t = {.arena = &arena};
	const cJSON *v;
	qn_report_json(r, &t);
	if (qn_json_parse(ctx, &arena, "report", t.s, t.len, &v) != QUERN_OK)
		fail_msg("%s\n%s", ctx->message, t.s);
	*text = t.s;
	return v;
}

static void what_is_not_known_is_left_out(void **state)
{
	(void)state;
	const char *text;
	qn_report r = make_report(false);
	const cJSON *layer = cJSON_GetArrayItem(cJSON_GetObjectItem(parsed(&r, &text), "layers"), 2);
	assert_null(cJSON_GetObjectItem(layer, "share"));
	assert_null(cJSON_GetObjectItem(layer, "cosine"));
	assert_null(cJSON_GetObjectItem(layer, "actScale"));
	assert_true(cJSON_GetObjectItem(layer, "weightSqnrDb")->valuedouble == 22);
	r = make_report(true);
	layer = cJSON_GetArrayItem(cJSON_GetObjectItem(parsed(&r, &text), "layers"), 2);
	assert_true(cJSON_IsNull(cJSON_GetObjectItem(layer, "ownSqnrDb")));
	assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(cJSON_GetObjectItem(layer, "channels"), "largest")), 4);
	assert_null(strstr(text, "nan"));
	assert_null(strstr(text, "inf"));
}

static void the_page_holds_the_data(void **state)
{
	(void)state;
	static qn_curve_point points[] = {{1000, 4.5, 0.1, NAN, NULL, 0}, {2000, 5, 0.01, 0.012, HOSTILE, 8}};
	static const qn_tuning tuning = {.measure = "cosine", .samples = 2, .chosen = {1500, 4.7, 0.05, 0.06, NULL, 0}, .points = points, .n = 2};
	for (int executed = 0; executed < 2; executed++) {
		qn_report r = make_report(executed);
		const char *json;
		qn_report_advise(&r);
		r.tuning = &tuning;
		parsed(&r, &json);
		qn_text page = {.arena = &arena};
		qn_report_html(&r, &page);
		assert_non_null(strstr(page.s, json));
		assert_null(strstr(page.s, "alert(1)</script>"));
		assert_null(strstr(page.s, "nan"));
		assert_null(strstr(page.s, "://"));
		assert_true(!strncmp(page.s, QN_REPORT_HTML_BEGINS, strlen(QN_REPORT_HTML_BEGINS)));
	}
}

/* Whatever the sizes: no layers, one, all exact. */
static void odd_reports_are_drawn(void **state)
{
	(void)state;
	for (size_t n = 0; n < 2; n++)
		for (int exact = 0; exact < 2; exact++) {
			qn_report r = make_report(true);
			r.n_layers = n;
			for (size_t i = 0; i < n && exact; i++)
				r.layers[i].sqnr = r.layers[i].own_sqnr = r.layers[i].weight_sqnr = INFINITY, r.layers[i].share = 0;
			qn_text page = {.arena = &arena};
			const char *json;
			qn_report_advise(&r);
			qn_report_html(&r, &page);
			parsed(&r, &json);
			assert_null(strstr(page.s, "nan"));
		}
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;
	for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
		n++;
	return n;
}

/* Only where gptq rounded a layer are smaller errors together its doing. */
static void gptq_is_named_where_it_was(void **state)
{
	(void)state;
	qn_report r = make_report(true);
	r.alone = 0.4, r.together = 0.1;
	for (int gptq = 0; gptq < 2; gptq++) {
		r.layers[3].rounding = gptq ? "gptq" : NULL;
		qn_text page = {.arena = &arena};
		qn_report_html(&r, &page);
		assert_int_equal(count(page.s, "as gptq rounds them to"), gptq);
	}
}

/* Layers of one reason share a line, which names some of them. */
static void fallbacks_are_grouped(void **state)
{
	(void)state;
	qn_report r = make_report(true);
	for (int i = 0; i < LAYERS; i++) {
		r.layers[i].name = qn_arena_printf(&arena, "layer%d", i);
		r.layers[i].reason = i == 0 ? "lone" : i == 1 ? NULL : "common";
	}
	qn_text list = {.arena = &arena};
	assert_true(qn_report_fallbacks(&r, &list));
	assert_int_equal(count(list.s, "<li>"), 2);
	assert_int_equal(count(list.s, "common"), 1);
	assert_non_null(strstr(list.s, "<code>layer0</code> 4 bits asked, stored as q4_0: lone"));
	assert_non_null(strstr(list.s, "<code>layer7</code> and 4 more: 4 bits"));
	assert_null(strstr(list.s, "layer8"));
}

/* Many lines of one block stand beside each other, in all of the width. */
static void many_lines_stay_low(void **state)
{
	(void)state;
	qn_report r = make_report(true);
	r.n_layers = 480;
	qn_report_layer *layers = QN_NEW(&arena, qn_report_layer, r.n_layers);
	for (size_t i = 0; i < r.n_layers; i++) {
		layers[i] = r.layers[1];
		layers[i].block = 0, layers[i].ordinal = (int)i + 1;
	}
	r.layers = layers;
	qn_text chart = {.arena = &arena};
	qn_chart_bits(&r, &chart);
	double width, height;
	const char *box = strstr(chart.s, "viewBox=\"0 0 ");
	assert_non_null(box);
	assert_int_equal(sscanf(box, "viewBox=\"0 0 %lf %lf", &width, &height), 2);
	assert_true(height < 2600); /* 26 a line: at least five beside each other */
	assert_int_equal(count(chart.s, "<rect"), r.n_layers);
	assert_int_equal(count(chart.s, ">ffn 480<"), 1);
}

/* Marks of the axis of sizes differ, however small the model. */
static void small_sizes_are_told_apart(void **state)
{
	(void)state;
	static qn_curve_point points[] = {{2560, 4.5, 0.1, NAN, NULL, 0}, {8448, 16, 0.01, NAN, NULL, 0}};
	static const qn_tuning tuning = {.measure = "cosine", .samples = 2, .chosen = {2560, 4.5, 0.1, NAN, NULL, 0}, .points = points, .n = 2};
	qn_report r = make_report(true);
	r.tuning = &tuning;
	qn_text chart = {.arena = &arena};
	assert_true(qn_chart_curve(&r, &chart));
	assert_int_equal(count(chart.s, ">3000<"), 1);
	assert_int_equal(count(chart.s, ">8000<"), 1);
	assert_int_equal(count(chart.s, "weights and constants, B<"), 1);
}

static const qn_report_advice *find_advice(const qn_report *r, const char *flags)
{
	for (size_t i = 0; i < r->n_advice; i++)
		if (r->advice[i].flags && strstr(r->advice[i].flags, flags))
			return &r->advice[i];
	return NULL;
}

static void advice_follows_figures(void **state)
{
	(void)state;
	qn_report r = make_report(false);
	size_t *order = qn_report_ranking(&r, &arena);
	for (size_t i = 0; i < LAYERS; i++)
		assert_int_equal(order[i], i); /* by the weights */
	qn_report_advise(&r);
	assert_non_null(find_advice(&r, "--calib"));
	assert_null(find_advice(&r, "--layer"));
	r = make_report(true);
	r.layers[5].name = "it's/MatMul";
	assert_int_equal(qn_report_ranking(&r, &arena)[0], 5);
	qn_report_advise(&r);
	assert_non_null(find_advice(&r, "--layer 'it'\\''s/MatMul=8'"));
	assert_non_null(find_advice(&r, "--rounding gptq"));
	assert_non_null(find_advice(&r, "quern tune MODEL.onnx"));
	r = make_report(true);
	r.tuning = &(qn_tuning){0};
	qn_report_advise(&r);
	assert_null(find_advice(&r, "quern tune"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bytes_that_are_no_utf8, setup, teardown),
		cmocka_unit_test_setup_teardown(names_stay_text, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_not_known_is_left_out, setup, teardown),
		cmocka_unit_test_setup_teardown(the_page_holds_the_data, setup, teardown),
		cmocka_unit_test_setup_teardown(odd_reports_are_drawn, setup, teardown),
		cmocka_unit_test_setup_teardown(gptq_is_named_where_it_was, setup, teardown),
		cmocka_unit_test_setup_teardown(fallbacks_are_grouped, setup, teardown),
		cmocka_unit_test_setup_teardown(many_lines_stay_low, setup, teardown),
		cmocka_unit_test_setup_teardown(small_sizes_are_told_apart, setup, teardown),
		cmocka_unit_test_setup_teardown(advice_follows_figures, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
