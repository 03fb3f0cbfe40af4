/* test_emit_names.c - identifiers, labels, numbers and sizes as they stand in graph.nnef. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "passes/nnef/emitter.h"
#include "passes/nnef/folder.h"

#include <math.h>
#include <stdlib.h>

static qn_ctx ctx;
static qn_arena arena;
static qn_graph *g;

static int setup(void **state)
{
	(void)state;
	qn_arena_init(&arena, &ctx);
	g = qn_graph_new(&arena, &ctx, qn_dims_new(&arena));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	qn_arena_release(&arena);
	return 0;
}

/* As much of one as names and numbers need. */
static qn_emitter *new_emitter(void)
{
	qn_emitter *em = QN_NEW(&arena, qn_emitter, 1);
	em->arena = &arena;
	em->ids = qn_names_new(&arena);
	em->labels = qn_names_new(&arena);
	em->symbols = qn_names_new(&arena);
	em->symbol_lines.arena = &arena;
	em->base = (qn_emit){.arena = &arena, .ctx = &ctx, .graph = g, .emitter = em};
	return em;
}

static void test_identifiers(void **state)
{
	(void)state;
	qn_emitter *em = new_emitter();
	const char *cases[][2] = {{"/encoder/layer.0/query/MatMul_output_0", "encoder_layer_0_query_MatMul_output_0"},
		{"logits", "logits"}, {"logits", "logits_2"}, {"_x", "_x"}, {"0", "v_0"}, {"", "v"}, {"///", "v_2"},
		{"onnx::MatMul_7", "onnx__MatMul_7"},
		{"inference", "v_inference"}, {"true", "v_true"}, {"graph", "v_graph"}, {"graphs", "graphs"}, {"in", "v_in"},
		{"caf\xc3\xa9", "caf"},
		{"a.b", "a_b"}, {"a-b", "a_b_2"}};
	for (size_t i = 0; i < QN_LEN(cases); i++)
		assert_string_equal(qn_emit_identifier(em, cases[i][0]), cases[i][1]);
	char longest[400];
	memset(longest, 'q', sizeof longest - 1);
	longest[sizeof longest - 1] = '\0';
	const char *a = qn_emit_identifier(em, longest), *b = qn_emit_identifier(em, longest);
	assert_true(strlen(a) <= 128 && strlen(b) <= 128 && strcmp(a, b));
	assert_string_equal(qn_emit_symbol(em, "s + 1"), "s___1");
	assert_string_equal(qn_emit_symbol(em, " "), "dim");
	assert_string_equal(qn_emit_symbol(em, "s + 1"), "s___1");
	assert_string_equal(qn_emit_symbol(em, "DynamicDimension.0"), "DynamicDimension_0");
	assert_string_equal(qn_emit_symbol(em, "logits"), "logits_3");
}

static void test_labels(void **state)
{
	(void)state;
	qn_emitter *em = new_emitter();
	const char *cases[][2] = {{"encoder.layer.0.weight", "encoder.layer.0.weight"}, {"/a/b", "a/b"}, {"../../etc/passwd", "etc/passwd"},
		{"a//./b", "a/b_2"}, {"A/B", "A/B_3"}, {"", "value"}, {"..", "value_2"}, {"a\\b", "a_b"}, {"a'b\"c\n", "a_b_c_"},
		{"x.dat/y", "x.dat_/y"}, {"onnx::MatMul_7", "onnx__MatMul_7"}, {"c/", "c"}};
	for (size_t i = 0; i < QN_LEN(cases); i++) {
		const char *label = qn_emit_label(em, cases[i][0]);
		assert_string_equal(label, cases[i][1]);
		assert_true(qn_path_is_inside(qn_arena_printf(&arena, "%s.dat", label)));
	}
	qn_text deep = {.arena = &arena};
	for (int i = 0; i < 500; i++)
		qn_text_add(&deep, "part/");
	assert_true(strlen(qn_emit_label(em, deep.s)) <= 200);
}

static void test_floats(void **state)
{
	(void)state;
	qn_emitter *em = new_emitter();
	const double cases[] = {0, -0.0, 1, -1, 0.1f, 1e-5f, 3.4028234663852886e38, -3.4028234663852886e38, 1e-45, 1.17549435e-38, 16777217,
		1e10};
	for (size_t i = 0; i < QN_LEN(cases); i++) {
		const char *s = qn_emit_float(&em->base, cases[i]);
		assert_true(strtof(s, NULL) == (float)cases[i]);
		assert_non_null(strpbrk(s, ".e"));
	}
	uint32_t seed = 1;
	for (int i = 0; i < 20000; i++) {
		seed = seed * 1664525u + 1013904223u;
		float f;
		memcpy(&f, &seed, sizeof f);
		if (isfinite(f))
			assert_true(strtof(qn_emit_float(&em->base, (double)f), NULL) == f);
	}
	assert_string_equal(qn_emit_float(&em->base, INFINITY), "inf");
	assert_string_equal(qn_emit_float(&em->base, 0.5), "0.5");
	assert_string_equal(qn_emit_float(&em->base, 2), "2.0");
	assert_int_equal(em->status, QUERN_OK);
	qn_emit_float(&em->base, NAN);
	assert_int_equal(em->status, QUERN_ERR_UNSUPPORTED);
}

static void test_dims(void **state)
{
	(void)state;
	qn_emitter *em = new_emitter();
	qn_dims *t = g->dims;
	qn_dim s = qn_dim_symbol(t, "s"), b = qn_dim_symbol(t, "b 1"), two = qn_dim_const(2);
	assert_string_equal(qn_emit_dim(&em->base, qn_dim_sub(t, qn_dim_const(0), s)), "0-s");
	assert_string_equal(qn_emit_dim(&em->base, qn_dim_min(t, qn_dim_sub(t, qn_dim_const(-3), s), qn_dim_sub(t, two, b))),
		"min(0-s - 3,2 - b_1)");
	assert_string_equal(qn_emit_dim(&em->base, qn_dim_floordiv(t, s, two)), "s/2");
	assert_int_equal(em->status, QUERN_OK);
	qn_emit_dim(&em->base, qn_dim_floordiv(t, s, b));
	assert_int_equal(em->status, QUERN_ERR_UNSUPPORTED);
	em->status = QUERN_OK;
	qn_emit_dim(&em->base, qn_dim_symbol(t, "?nonzero"));
	assert_int_equal(em->status, QUERN_ERR_UNSUPPORTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_identifiers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_labels, setup, teardown),
		cmocka_unit_test_setup_teardown(test_floats, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dims, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
