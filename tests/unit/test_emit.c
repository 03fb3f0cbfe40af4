/* test_emit.c - the text and the variables that a graph becomes; tests/engine runs such archives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "passes/nnef/emitter.h"
#include "passes/nnef/folder.h"
#include "passes/passes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static qn_ctx ctx;
static qn_arena arena;
static qn_graph *g;
static char root[64];

static int setup(void **state)
{
	(void)state;
	qn_arena_init(&arena, &ctx);
	g = qn_graph_new(&arena, &ctx, qn_dims_new(&arena));
	strcpy(root, "/tmp/quern-emit-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	qn_arena_release(&arena);
	qn_path_remove(root);
	return 0;
}

/* --- graphs in few words --------------------------------------------------------------------------------------- */
/* Dims: symbols by text, or numbers. */
static qn_value *input(const char *name, qn_dtype type, int rank, const char *const *dim)
{
	qn_value *v = qn_graph_value(g, name);
	v->is_input = true;
	v->fact.type = type;
	v->fact.shape.rank = rank;
	for (int i = 0; i < rank; i++) {
		char *end;
		long n = strtol(dim[i], &end, 10);
		v->fact.shape.dim[i] = *dim[i] && !*end ? qn_dim_const(n) : qn_dim_symbol(g->dims, dim[i]);
	}
	qn_value **inputs = QN_NEW(&arena, qn_value *, g->n_inputs + 1);
	for (int i = 0; i < g->n_inputs; i++)
		inputs[i] = g->inputs[i];
	inputs[g->n_inputs++] = v;
	g->inputs = inputs;
	return v;
}

static void output(qn_value *v, const char *name)
{
	qn_value **outputs = QN_NEW(&arena, qn_value *, g->n_outputs + 1);
	const char **names = QN_NEW(&arena, const char *, g->n_outputs + 1);
	for (int i = 0; i < g->n_outputs; i++) {
		outputs[i] = g->outputs[i];
		names[i] = g->output_names[i];
	}
	outputs[g->n_outputs] = v;
	names[g->n_outputs++] = name;
	v->is_output = true;
	g->outputs = outputs;
	g->output_names = names;
}

static qn_value *constant(const char *name, qn_dtype type, int rank, const int64_t *dim, double first, double step)
{
	qn_tensor *t = qn_tensor_new(&arena, type, rank, dim);
	int64_t n = qn_tensor_count(t);
	for (int64_t i = 0; i < n; i++)
		qn_tensor_set((void *)(uintptr_t)t->data, type, i, first + step * (double)i);
	qn_value *v = qn_graph_const(g, name, t);
	v->weight = name;
	return v;
}

static qn_value *apply2(const char *op, const char *name, qn_value *a, qn_value *b)
{
	qn_value *in[] = {a, b};
	return qn_graph_apply(g, NULL, op, name, in, b ? 2 : 1);
}

static const int64_t one[1] = {1}, four[1] = {4}, row[2] = {1, 4}, square[2] = {4, 4};

static void infer(void)
{
	qn_arena scratch;
	qn_arena_init(&scratch, &ctx);
	qn_pass_env env = {.ctx = &ctx, .scratch = &scratch};
	assert_int_equal(qn_pass_shapes(g, &env), QUERN_OK);
	qn_arena_release(&scratch);
}

static const char *path_of(const char *name) { return qn_arena_printf(&arena, "%s/%s", root, name); }

static qn_status try_emit(const char *name)
{
	qn_archive *ar;
	QN_TRY(qn_archive_create(&ctx, &arena, path_of(name), &ar));
	QN_TRY(qn_emit_graph(&ctx, g, QN_TARGET_TRACT, ar));
	return qn_archive_commit(ar);
}

/* graph.nnef of the inferred and emitted graph. */
static const char *emit(void)
{
	infer();
	if (try_emit("out") != QUERN_OK)
		fail_msg("%s", ctx.message);
	FILE *f = fopen(path_of("out/graph.nnef"), "rb");
	assert_non_null(f);
	char *text = qn_arena_alloc(&arena, 1 << 16);
	assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
	fclose(f);
	return text;
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;
	for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
		n++;
	return n;
}

static bool has_file(const char *name) { return access(path_of(qn_arena_printf(&arena, "out/%s", name)), R_OK) == 0; }

/* --- the document ------------------------------------------------------------------------------------------------ */
static void test_document(void **state)
{
	(void)state;
	const char *dims[] = {"batch", "4"};
	g->name = "torch-jit";
	qn_value *x = input("input.1", QN_F32, 2, dims);
	qn_value *y = apply2("Mul", "/encoder/layer.0/Mul_output_0", x, constant("scale", QN_F32, 0, NULL, 0.125, 0));
	qn_value *z = apply2("Add", "/Add_output_0", y, constant("encoder.layer.0.bias", QN_F32, 1, four, -1, 0.5));
	output(z, "logits");
	assert_string_equal(emit(),
		"version 1.0;\n"
		"extension tract_registry tract_core;\n"
		"extension KHR_enable_operator_expressions;\n"
		"extension tract_symbol batch;\n"
		"\n"
		"graph torch_jit(input_1) -> (logits)\n"
		"{\n"
		"    input_1 = external<scalar>(shape=[batch, 4]);\n"
		"    encoder_layer_0_bias = variable<scalar>(shape=[1, 4], label='encoder.layer.0.bias');\n"
		"\n"
		"    encoder_layer_0_Mul_output_0 = mul(input_1, 0.125);\n"
		"    logits_value = add(encoder_layer_0_Mul_output_0, encoder_layer_0_bias);\n"
		"    logits = leaky_relu(logits_value, alpha=1.0);\n"
		"}\n");
	assert_true(has_file("encoder.layer.0.bias.dat"));
}

static void test_input_types(void **state)
{
	(void)state;
	const char *dims[] = {"n"};
	const qn_dtype types[] = {QN_F32, QN_I64, QN_BOOL, QN_I32, QN_F16, QN_U8};
	const char *want[] = {"a0 = external<scalar>(shape=[n]);", "a1 = external<integer>(shape=[n]);",
		"a2 = external<logical>(shape=[n]);", "a3 = tract_core_external(shape=[n], datum_type='i32');",
		"a4 = tract_core_external(shape=[n], datum_type='f16');", "a5 = tract_core_external(shape=[n], datum_type='u8');"};
	for (size_t i = 0; i < QN_LEN(types); i++)
		output(apply2("Identity", "y", input(qn_arena_printf(&arena, "a%zu", i), types[i], 1, dims), NULL),
			qn_arena_printf(&arena, "y%zu", i));
	const char *text = emit();
	for (size_t i = 0; i < QN_LEN(want); i++)
		assert_int_equal(count(text, want[i]), 1);
}

/* --- names -------------------------------------------------------------------------------------------------------- */

/* A value, a symbol and an input that all want one name; the input gets it. */
static void test_name_clash(void **state)
{
	(void)state;
	const char *dims[] = {"batch", "batch "};
	qn_value *x = input("batch", QN_F32, 2, dims);
	qn_value *y = apply2("Neg", "batch!", x, NULL);
	output(apply2("Exp", "e", y, NULL), "out");
	const char *text = emit();
	assert_int_equal(count(text, "batch = external<scalar>(shape=[batch_2, batch_3]);"), 1);
	assert_int_equal(count(text, "batch_4 = neg(batch);"), 1);
	assert_int_equal(count(text, "out = exp(batch_4);"), 1);
}

/* --- constants ------------------------------------------------------------------------------------------------------ */
static void test_stored_once(void **state)
{
	(void)state;
	const char *dims[] = {"4", "4"};
	qn_value *x = input("x", QN_F32, 2, dims);
	qn_value *a = constant("a", QN_F32, 2, square, 0, 1), *b = constant("b", QN_F32, 2, square, 0, 1);
	qn_value *other = constant("A", QN_F32, 2, square, 0, 2), *flat = constant("flat", QN_F32, 1, four, 7, 1);
	qn_value *flat2 = constant("flat2", QN_F32, 2, row, 7, 1);
	qn_value *ints = constant("ints", QN_I32, 2, square, 0, 0), *zeros = constant("zeros", QN_F32, 2, square, 0, 0);
	qn_value *y = apply2("Add", "y1", apply2("Add", "y2", apply2("MatMul", "y3", x, a), b), other);
	y = apply2("Add", "y4", apply2("Add", "y5", y, flat), flat2);
	qn_node *cast = apply2("Cast", "y7", apply2("Add", "y6", apply2("Cast", "y8", y, NULL), ints), NULL)->producer;
	qn_node_set_int(g, cast, "to", 1);
	qn_node_set_int(g, cast->in[0]->producer->in[0]->producer, "to", 6);
	output(apply2("Add", "y9", cast->out[0], zeros), "out");
	const char *text = emit();
	assert_int_equal(count(text, "variable<"), 5);
	assert_true(has_file("a.dat") && has_file("A_2.dat") && has_file("flat.dat") && has_file("ints.dat") && has_file("zeros.dat"));
	assert_int_equal(count(text, "variable<integer>(shape=[4, 4], label='ints')"), 1);
}

/* A deferred constant: the transposed copy differs from the original, its copy does not. */
static void test_recipes(void **state)
{
	(void)state;
	const int64_t big[2] = {200, 100};
	const char *dims[] = {"n", "100"};
	qn_value *x = input("x", QN_F32, 2, dims);
	qn_value *w = constant("w", QN_F32, 2, big, 0, 1);
	qn_value *t1 = apply2("Transpose", "t1", w, NULL), *t2 = apply2("Transpose", "t2", w, NULL);
	qn_value *h = apply2("Add", "h", apply2("MatMul", "m1", x, t1), apply2("MatMul", "m2", x, t2));
	output(apply2("MatMul", "m3", h, w), "out");
	const char *text = emit();
	assert_int_equal(count(text, "variable<"), 2);
	assert_int_equal(count(text, "shape=[100, 200]"), 1);
	assert_int_equal(count(text, "shape=[200, 100]"), 1);
	assert_int_equal(count(text, "transpose("), 0);
}

static void test_literals(void **state)
{
	(void)state;
	const char *dims[] = {"n", "4"};
	qn_value *i = input("i", QN_I64, 2, dims), *x = input("x", QN_F32, 2, dims);
	qn_value *y = apply2("Mul", "y", i, constant("big", QN_I64, 0, NULL, 3000000001.0, 0));
	output(apply2("Add", "y2", y, constant("k", QN_I64, 1, one, -7, 0)), "ints");
	output(apply2("Max", "y3", x, constant("inf", QN_F32, 0, NULL, -INFINITY, 0)), "a");
	output(apply2("Mul", "y4", x, constant("nan", QN_F32, 1, one, NAN, 0)), "b");
	output(apply2("Mul", "y5", x, constant("third", QN_F32, 2, (const int64_t[]){1, 1}, 1.0f / 3, 0)), "c");
	const char *text = emit();
	assert_int_equal(count(text, "tract_core_cast(3000000001, to='i64')"), 1);
	assert_int_equal(count(text, "tract_core_cast(-7, to='i64')"), 1);
	assert_int_equal(count(text, "-inf"), 1);
	assert_int_equal(count(text, "0.33333334"), 1);
	assert_int_equal(count(text, "label='nan'"), 1);
	assert_int_equal(count(text, "variable<"), 1);
}

/* --- outputs -------------------------------------------------------------------------------------------------------- */
static void test_outputs(void **state)
{
	(void)state;
	const char *dims[] = {"n", "4"};
	qn_value *x = input("x", QN_F32, 2, dims);
	qn_value *y = apply2("Exp", "inner", x, NULL);
	output(y, "second name");
	output(x, "x");
	output(x, "same");
	output(y, "third");
	output(constant("table", QN_F32, 2, square, 0, 1), "constant");
	output(apply2("Shape", "shape", x, NULL), "sizes");
	output(constant("k", QN_F32, 0, NULL, 2, 0), "scalar");
	const char *text = emit();
	assert_int_equal(count(text, "graph graph(x) ->"), 0); /* the name is one of NNEF's words */
	assert_int_equal(count(text, "(x) -> (second_name, x, same, third, constant, sizes, v_scalar)"), 1);
	assert_int_equal(count(text, "    second_name = exp(x);"), 1);
	assert_int_equal(count(text, "    same = leaky_relu(x, alpha=1.0);"), 1);
	assert_int_equal(count(text, "    third = concat([second_name], axis=0);"), 1);
	assert_int_equal(count(text, "    constant = copy(table);"), 1);
	assert_int_equal(count(text, "    sizes = tract_core_cast([n, 4], to='i64');"), 1);
	assert_int_equal(count(text, "    v_scalar = copy(2.0);"), 1);
}

/* --- refusals ------------------------------------------------------------------------------------------------------- */
static void test_rows_without_emission(void **state)
{
	(void)state;
	static const qn_op first = {.name = "First", .infer = qn_infer_same, .max_in = 1};
	static const qn_op second = {.name = "Second", .infer = qn_infer_same, .max_in = 1};
	const char *dims[] = {"n"};
	qn_value *v = input("x", QN_F32, 1, dims);
	v = qn_graph_node(g, NULL, &first, "a", &v, 1, 1)->out[0];
	v = qn_graph_node(g, NULL, &second, "b", &v, 1, 1)->out[0];
	v = qn_graph_node(g, NULL, &first, "c", &v, 1, 1)->out[0];
	output(v, "y");
	infer();
	assert_int_equal(try_emit("out"), QUERN_ERR_UNSUPPORTED);
	assert_non_null(strstr(ctx.message, "First (2, first 'a'), Second (1, first 'b')"));
	assert_int_equal(access(path_of("out"), F_OK), -1);
}

static void test_unknown_facts(void **state)
{
	(void)state;
	const char *dims[] = {"?rows of NonZero", "4"};
	output(apply2("Exp", "node", input("x", QN_F32, 2, dims), NULL), "y");
	infer();
	assert_int_equal(try_emit("out"), QUERN_ERR_UNSUPPORTED);
	assert_non_null(strstr(ctx.message, "axis 0 of 'x'"));
	g->inputs[0]->fact.shape.rank = -1;
	assert_int_equal(try_emit("out"), QUERN_ERR_UNSUPPORTED);
	g->inputs[0]->fact = (qn_fact){.type = QN_BF16};
	assert_int_equal(try_emit("out"), QUERN_ERR_UNSUPPORTED);
	assert_non_null(strstr(ctx.message, "bf16"));
	qn_archive *ar;
	assert_int_equal(qn_archive_create(&ctx, &arena, path_of("out"), &ar), QUERN_OK);
	assert_int_equal(qn_emit_graph(&ctx, g, QN_TARGET_KHRONOS, ar), QUERN_ERR_UNSUPPORTED);
}

static bool stop_at_two(void *user, const char *stage, size_t done, size_t total)
{
	assert_string_equal(stage, "write");
	assert_int_equal(total, 3);
	*(size_t *)user = done;
	return done < 2;
}

static void test_cancelled(void **state)
{
	(void)state;
	const char *dims[] = {"n"};
	size_t done = 0;
	output(apply2("Exp", "c", apply2("Exp", "b", apply2("Exp", "a", input("x", QN_F32, 1, dims), NULL), NULL), NULL), "y");
	infer();
	ctx.progress = stop_at_two;
	ctx.progress_user = &done;
	assert_int_equal(try_emit("out"), QUERN_ERR_CANCELLED);
	ctx.progress = NULL;
	assert_int_equal(done, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_document, setup, teardown),
		cmocka_unit_test_setup_teardown(test_input_types, setup, teardown),
		cmocka_unit_test_setup_teardown(test_name_clash, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stored_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_recipes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_literals, setup, teardown),
		cmocka_unit_test_setup_teardown(test_outputs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rows_without_emission, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unknown_facts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cancelled, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
