/* test_dump.c - what is read back from an archive: the text of graph.nnef, the variables, and what contradicts itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "passes/nnef/archive.h"
#include "passes/nnef/folder.h"
#include "passes/nnef/nnef_text.h"

#include <stdlib.h>

static qn_ctx ctx;
static qn_arena arena;
static char root[64];

static int setup(void **state)
{
	(void)state;
	qn_arena_init(&arena, &ctx);
	strcpy(root, "/tmp/quern-dump-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	qn_arena_release(&arena);
	qn_path_remove(root);
	return 0;
}

static void test_reader(void **state)
{
	(void)state;
	const char *good = "version 1.0; # a comment\nextension tract_symbol B;\nextension KHR_enable_operator_expressions;\n"
			   "fragment f<?>( x: tensor<?> ) -> ( y: tensor<?> ) { y = x + 1.0; }\n"
			   "fragment g(x: tensor<scalar>) -> (y: tensor<scalar>);\n"
			   "graph net(a, b) -> (y, z) {\n a = external<scalar>(shape=[B, 4]);\n"
			   " b = tract_core_external(datum_type='i32', shape=[B*2]);\n"
			   " w = variable<scalar>(shape=[4], label='x ; y');\n"
			   " (y, v) = split2(f(a) + w, axis=1-1);\n z = f(add(a, a)) < w;\n}\n";
	qn_nnef_text t;
	assert_int_equal(qn_nnef_text_read(&ctx, &arena, good, &t), QUERN_OK);
	assert_string_equal(t.graph, "net");
	assert_int_equal(t.n_inputs, 2);
	assert_string_equal(t.inputs[1].definition, "tract_core_external(datum_type='i32', shape=[B*2])");
	assert_string_equal(t.outputs[0].definition, "split2(f(a) + w, axis=1-1)");
	assert_string_equal(t.symbols[0], "B");
	assert_string_equal(t.labels[0], "x ; y");
	assert_string_equal(t.operators[0].name, "add");
	assert_int_equal(t.operators[0].count, 2);
	for (size_t n = 0; n + 1 < strlen(good); n++) /* cut anywhere: an error, never more */
		assert_int_equal(qn_nnef_text_read(&ctx, &arena, qn_arena_strndup(&arena, good, n), &t), QUERN_ERR_FORMAT);
	assert_int_equal(qn_nnef_text_read(&ctx, &arena, "version 1.0;\ngraph g(a) -> (a)\n{ a = 'x; }", &t), QUERN_ERR_FORMAT);
	assert_non_null(strstr(ctx.message, "line 3"));
}

/* An archive with this text and one variable, opened; NULL with the message when it is refused. */
static quern_archive *open_with(quern_context *c, const char *name, const char *text, const char *label)
{
	qn_archive *ar;
	const char *path = qn_arena_printf(&arena, "%s/%s", root, name);
	assert_int_equal(qn_archive_create(&ctx, &arena, path, &ar), QUERN_OK);
	if (label)
		assert_int_equal(qn_archive_add_tensor(ar, label, qn_tensor_new(&arena, QN_Q4_0, 2, (const int64_t[]){2, 64})), QUERN_OK);
	if (text)
		assert_int_equal(qn_archive_add(ar, "graph.nnef", text, strlen(text)), QUERN_OK);
	assert_int_equal(qn_archive_commit(ar), QUERN_OK);
	quern_archive *opened;
	qn_status st = quern_archive_open(c, path, &opened);
	assert_true(st == QUERN_OK || (st == QUERN_ERR_FORMAT && !opened));
	return opened;
}

static const char *const text = "version 1.0;\nextension tract_symbol n;\ngraph net(x) -> (y)\n{\n"
				"    x = external<scalar>(shape=[n, 64]);\n    w = variable<scalar>(shape=[2, 64], label='a/w');\n"
				"    y = exp(matmul(x, w)) * 2.0;\n}\n";

static void test_described(void **state)
{
	(void)state;
	quern_context *c = quern_open(NULL);
	quern_archive *ar = open_with(c, "good.nnef.tgz", text, "a/w");
	assert_non_null(ar);
	assert_string_equal(quern_archive_graph_name(ar), "net");
	assert_string_equal(quern_archive_graph_text(ar), text);
	assert_int_equal(quern_archive_variables(ar), 1);
	quern_variable v;
	quern_archive_variable(ar, 0, &v);
	assert_string_equal(v.label, "a/w");
	assert_string_equal(v.type, "q4_0");
	assert_true(v.used && v.rank == 2 && v.shape[0] == 2 && v.shape[1] == 64 && v.bytes == 72);
	assert_int_equal(quern_archive_operators(ar), 3);
	assert_int_equal(quern_archive_symbols(ar), 1);
	assert_string_equal(quern_archive_symbol(ar, 0), "n");
	quern_port p;
	quern_archive_input(ar, 0, &p);
	assert_string_equal(p.definition, "external<scalar>(shape=[n, 64])");
	quern_archive_output(ar, 0, &p);
	assert_string_equal(p.definition, "exp(matmul(x, w)) * 2.0");
	quern_archive_free(ar);
	quern_close(c);
}

static void test_contradictions(void **state)
{
	(void)state;
	quern_context *c = quern_open(NULL);
	assert_null(open_with(c, "no-text.tar", NULL, "a/w"));
	assert_non_null(strstr(quern_message(c), "graph.nnef"));
	assert_null(open_with(c, "no-variable.tar", text, "a/v"));
	assert_non_null(strstr(quern_message(c), "'a/w.dat' is missing"));
	quern_archive *ar = open_with(c, "unused.tar", "version 1.0; graph g(x) -> (x) { x = external(shape=[1]); }", "a/w");
	quern_variable v;
	assert_non_null(ar);
	quern_archive_variable(ar, 0, &v);
	assert_false(v.used);
	quern_archive_free(ar);
	quern_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_reader, setup, teardown),
		cmocka_unit_test_setup_teardown(test_described, setup, teardown),
		cmocka_unit_test_setup_teardown(test_contradictions, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
