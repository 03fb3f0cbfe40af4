/* test_onnx_node.c - versions, operators without a row, Constant nodes, attributes, legal but odd names. */
#include "onnx_build.h"

static pb relu_model(int64_t ir, int n_opsets, const char *const *domains, const int64_t *versions)
{
	pb g = graph_xy(), m = {0};
	pb_add(&g, GRAPH_NODE, node("Relu", "r", "x", "y"));
	if (ir)
		pb_int(&m, 1, ir);
	pb_add(&m, 7, g);
	for (int i = 0; i < n_opsets; i++)
		pb_add(&m, 8, opset(domains[i], versions[i]));
	return m;
}
#define DOMAINS(...)                                                                                                                       \
	(const char *const[])                                                                                                              \
	{                                                                                                                                  \
		__VA_ARGS__                                                                                                                \
	}
#define VERSIONS(...)                                                                                                                      \
	(const int64_t[])                                                                                                                  \
	{                                                                                                                                  \
		__VA_ARGS__                                                                                                                \
	}

static void versions(void **state)
{
	(void)state;
	loads(relu_model(99, 1, DOMAINS(NULL), VERSIONS(99)));
	assert_non_null(strstr(env.logged, "warning: the model has IR version 99"));
	assert_non_null(strstr(env.logged, "warning: the model uses opset 99"));
	loads(relu_model(8, 1, DOMAINS("ai.onnx"), VERSIONS(17)));
	assert_string_equal(env.logged, "");
	assert_int_equal(env.g->first->opset, 17);
	loads(relu_model(8, 3, DOMAINS("ai.onnx", "", "com.microsoft"), VERSIONS(17, 17, 1)));
	refuses(relu_model(8, 2, DOMAINS("ai.onnx", ""), VERSIONS(17, 18)), "17", "18", "ai.onnx");
	refuses(relu_model(8, 0, NULL, NULL), "opset_import");
	refuses(relu_model(8, 1, DOMAINS("com.microsoft"), VERSIONS(1)), "'r'", "ai.onnx", "opset_import");
	refuses(relu_model(8, 1, DOMAINS(""), VERSIONS(6)), "opset 6", "7", "onnx.version_converter");
	refuses(relu_model(8, 1, DOMAINS(""), VERSIONS(0)), "version 0");
	refuses(relu_model(8, 1, DOMAINS(""), VERSIONS(-3)), "version -3");
	refuses(relu_model(0, 1, DOMAINS(""), VERSIONS(17)), "no IR version");
	loads(relu_model(3, 1, DOMAINS(""), VERSIONS(7)));
}

static void unsupported_operators(void **state)
{
	(void)state;
	pb g = graph_xy(), body = {0};
	pb_add(&body, GRAPH_NODE, node("Hidden", "in_loop", "x", "t"));
	pb_add(&g, GRAPH_NODE, node("Wrong", "w1", "x", "a"));
	pb_add(&g, GRAPH_NODE, node("Wrong", "w2", "x", "b"));
	pb_add(&g, GRAPH_NODE, node("Relu", "fine", "x", "y"));
	pb_add(&g, GRAPH_NODE, with(node("Loop", "loop", ",,x", "c"), attr_msg("body", A_GRAPH, 6, body)));
	pb custom = node("Special", NULL, "x", "d");
	pb_str(&custom, 7, "com.acme");
	pb_add(&g, GRAPH_NODE, custom);
	pb m = model(g);
	pb_add(&m, 8, opset("com.acme", 3));
	refuses(m, "4 operators", "ai.onnx:Wrong version 17, 2 nodes, such as 'w1'", "ai.onnx:Loop version 17, 1 node, such as 'loop'",
		"ai.onnx:Hidden version 17, 1 node, such as 'in_loop'", "com.acme:Special version 3, 1 node, such as 'Special_d'");
	assert_null(strstr(env.ctx.message, "Relu"));
	g = graph_xy();
	for (int i = 0; i < 100; i++) {
		char op[128];
		snprintf(op, sizeof op, "VeryLongOperatorNameNumber%03dWithMoreLettersThanAnyoneWouldReadToTheEnd", i);
		pb_add(&g, GRAPH_NODE, node(op, op, "x", op));
	}
	refuses(model(g), "100 operators", "Number000", "more");
	g = graph_xy();
	pb_add(&g, GRAPH_NODE, node("", "nothing", "x", "y"));
	refuses(model(g), "'nothing'", "no operator");
}

/* Reshape's attribute form is older than its row. */
static void operators_too_old_for_their_row(void **state)
{
	(void)state;
	pb g = graph_xy(), m = {0};
	pb_add(&g, GRAPH_NODE, node("Expand", "e", "x,x", "y"));
	pb_int(&m, 1, 3);
	pb_add(&m, 7, g);
	pb_add(&m, 8, opset("", 7));
	refuses(m, "ai.onnx:Expand version 7", "supported from version 8 on");
}

static void already_quantized(void **state)
{
	(void)state;
	pb g = graph_xy();
	pb n = node("QLinearLeftOver", "q", "x,x", "y");
	pb_str(&n, 7, "com.microsoft");
	pb_add(&g, GRAPH_NODE, n);
	refuses(model(g), "com.microsoft:QLinearLeftOver", "already quantized", "float model");
}

static void constant(pb a, qn_dtype type, int rank, double first)
{
	pb g = {0};
	pb_add(&g, GRAPH_NODE, node("Identity", "id", "c", "y"));
	pb_add(&g, GRAPH_NODE, with(node("Constant", "k", NULL, "c"), a));
	pb_add(&g, GRAPH_OUTPUT, value_info("y", F32, NULL));
	loads(model(g));
	const qn_tensor *t = content("c");
	assert_int_equal(t->type, type);
	assert_int_equal(t->rank, rank);
	assert_true(qn_tensor_get(t, 0) == first);
	assert_string_equal(value("c")->weight, "c");
	assert_string_equal(listing(env.g), "Identity(c)->y;");
}

static void constants_of_every_form(void **state)
{
	(void)state;
	constant(attr_msg("value", A_TENSOR, 5, raw("other", F32, "1", (float[]){4}, 4)), QN_F32, 1, 4);
	constant(attr_float("value_float", 2.5f), QN_F32, 0, 2.5);
	constant(attr_int("value_int", -3), QN_I64, 0, -3);
	pb f = attr("value_floats", A_FLOATS), i = attr("value_ints", A_INTS), s = {0};
	pb_float(&f, 7, 1.5f);
	pb_float(&f, 7, 2.5f);
	constant(f, QN_F32, 1, 1.5);
	pb_int(&i, 8, 7);
	constant(i, QN_I64, 1, 7);
	pb_add(&s, 1, raw(NULL, F32, "1", (float[]){9}, 4));
	pb_add(&s, 2, raw(NULL, I64, "1", (int64_t[]){0}, 8));
	pb_int(&s, 3, 3);
	constant(attr_msg("sparse_value", A_SPARSE, 22, s), QN_F32, 1, 9);
	pb old = {0}; /* IR 1: no kind */
	pb_str(&old, 1, "value_float");
	pb_float(&old, 2, 3);
	constant(old, QN_F32, 0, 3);
}

/* Weights as initializers and as Constant nodes give the same graph; a chain over a weight leaves the weight's name alone. */
static void weights_either_way(void **state)
{
	(void)state;
	char first[256];
	for (int as_node = 0; as_node < 2; as_node++) {
		pb g = graph_xy(), w = raw(as_node ? NULL : "W", F16, "16", (uint16_t[16]){0x3c00}, 32);
		int64_t shape[] = {4, 4};
		pb_add(&g, GRAPH_NODE, node("MatMul", "mm", "x,w4", "y"));
		pb_add(&g, GRAPH_NODE, node("Identity", "i", "w3", "w4"));
		pb_add(&g, GRAPH_NODE, with(node("Cast", "c", "w1", "w2"), attr_int("to", F32)));
		pb_add(&g, GRAPH_NODE, node("Transpose", "t", "w2", "w3"));
		pb_add(&g, GRAPH_NODE, node("Reshape", "r", "W,shape", "w1"));
		if (as_node)
			pb_add(&g, GRAPH_NODE, with(node("Constant", NULL, NULL, "W"), attr_msg("value", A_TENSOR, 5, w)));
		else
			pb_add(&g, GRAPH_INIT, w);
		pb_add(&g, GRAPH_INIT, raw("shape", I64, "2", shape, 16));
		loads(model(g));
		assert_string_equal(value("W")->weight, "W");
		assert_true(content("W")->type == QN_F16 && qn_tensor_get(content("W"), 0) == 1);
		if (!as_node)
			snprintf(first, sizeof first, "%s", listing(env.g));
	}
	assert_string_equal(first, listing(env.g));
	assert_string_equal(first, "Reshape(W,shape)->w1;Cast(w1)->w2;Transpose(w2)->w3;Identity(w3)->w4;MatMul(x,w4)->y;");
}

static pb bad_constant(pb n)
{
	pb g = {0};
	pb_add(&g, GRAPH_NODE, n);
	pb_add(&g, GRAPH_NODE, node("Identity", "id", "c", "y"));
	pb_add(&g, GRAPH_OUTPUT, value_info("y", F32, NULL));
	return model(g);
}

static void constants_that_are_refused(void **state)
{
	(void)state;
	pb text = attr("value_string", A_STRING);
	pb_str(&text, 4, "hello");
	refuses(bad_constant(with(node("Constant", "k", NULL, "c"), text)), "node 'id'", "constant 'c'", "string");
	refuses(bad_constant(with(node("Constant", "k", NULL, "c"), attr_msg("value", A_TENSOR, 5, tensor(NULL, STRING, "1")))), "'c'",
		"string");
	refuses(bad_constant(node("Constant", "k", NULL, "c")), "constant 'c'", "no content");
	refuses(bad_constant(with(with(node("Constant", "k", NULL, "c"), attr_int("value_int", 1)), attr_float("value_float", 1))), "'c'",
		"more than one");
	refuses(bad_constant(with(node("Constant", "k", NULL, "c"), attr_float("value_int", 1))), "'c'", "value_int");
	refuses(bad_constant(with(node("Constant", "k", NULL, "c"), attr("value", A_TENSOR))), "'c'", "value");
	refuses(bad_constant(with(node("Constant", "k", NULL, "c"), attr_msg("value", A_TENSOR, 5, ramp(NULL, "3", 2)))), "constant 'c'",
		"8 bytes", "need 12");
	refuses(bad_constant(node("Constant", "k", NULL, "c,d")), "2 outputs");
	pb unused = attr("value_string", A_STRING), g = graph_xy();
	pb_add(&g, GRAPH_NODE, node("Relu", "r", "x", "y"));
	pb_add(&g, GRAPH_NODE, with(node("Constant", "k", NULL, "c"), unused));
	loads(model(g));
}

static void attributes(void **state)
{
	(void)state;
	pb g = graph_xy(), strings = attr("words", A_STRINGS), ints = attr("numbers", A_INTS), text = attr("text", A_STRING);
	pb_str(&strings, 9, "one");
	pb_str(&strings, 9, "two");
	pb_bytes(&ints, 8, "\x01\x02", 2); /* packed, although the schema has it unpacked */
	pb_int(&ints, 8, -5);
	pb_str(&text, 4, "hello");
	pb n = with(with(with(with(node("Relu", "r", "x", "y"), strings), ints), text), attr_float("alpha", 0.5f));
	n = with(n, attr_msg("tensor", A_TENSOR, 5, ramp(NULL, "2", 2)));
	pb_add(&g, GRAPH_NODE, n);
	loads(model(g));
	const qn_node *r = env.g->first;
	assert_string_equal(qn_node_string(r, "text", ""), "hello");
	assert_true(qn_node_float(r, "alpha", 0) == 0.5f);
	const qn_attr *a = qn_node_attr(r, "numbers");
	assert_true(a->kind == QN_ATTR_INTS && a->n == 3 && a->ints[1] == 2 && a->ints[2] == -5);
	assert_true(qn_node_attr(r, "words")->n == 2);
	assert_string_equal(qn_node_attr(r, "words")->strings[1], "two");
	assert_true(qn_tensor_get(qn_node_attr(r, "tensor")->t, 1) == 1);
	g = graph_xy();
	pb_add(&g, GRAPH_NODE, with(with(node("Relu", "r", "x", "y"), attr_int("axis", 1)), attr_int("axis", 2)));
	refuses(model(g), "'r'", "'axis'", "twice");
	g = graph_xy();
	pb_add(&g, GRAPH_NODE, with(node("Relu", "r", "x", "y"), attr_ref("axis", A_INT, "a")));
	refuses(model(g), "'r'", "'axis'", "function");
	g = graph_xy();
	pb_add(&g, GRAPH_NODE, with(node("Relu", "r", "x", "y"), attr("tensors", 9)));
	refuses(model(g), "'r'", "'tensors'", "kind 9");
	pb bare = {0};
	pb_str(&bare, 1, "bare");
	g = graph_xy();
	pb_add(&g, GRAPH_NODE, with(node("Relu", "r", "x", "y"), bare));
	refuses(model(g), "'r'", "'bare'", "no value");
}

static void legal_names(void **state)
{
	(void)state;
	char longest[3001];
	memset(longest, 'n', 3000);
	longest[3000] = '\0';
	const char *const names[] = {
		"/enc/layers.0/MatMul", "a b", "\"q\\u'", "größe", "重み", "\xf0\x9f\x8c\xbe", ".*[x]+?", longest, "\n"};
	for (size_t i = 0; i < QN_LEN(names); i++) {
		pb g = graph_xy();
		pb_add(&g, GRAPH_INIT, ramp(names[i], "4,4", 16));
		pb n = {0};
		pb_str(&n, 1, "x");
		pb_str(&n, 1, names[i]);
		pb_str(&n, 2, "y");
		pb_str(&n, 3, names[i]);
		pb_str(&n, 4, "MatMul");
		pb_add(&g, GRAPH_NODE, n);
		loads(model(g));
		assert_string_equal(env.g->first->name, names[i]);
		assert_string_equal(env.g->first->in[1]->name, names[i]);
	}
	const char *const bad[] = {"\xff", "a\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\x01r"};
	for (size_t i = 0; i < QN_LEN(bad); i++) {
		pb g = graph_xy();
		pb_add(&g, GRAPH_NODE, node("Relu", bad[i], "x", "y"));
		refuses(model(g), "UTF-8", "'name'");
	}
}

static void nodes_of_one_name(void **state)
{
	(void)state;
	pb g = graph_xy();
	pb_add(&g, GRAPH_NODE, node("Relu", "same", "x", "h"));
	pb_add(&g, GRAPH_NODE, node("Relu", "same", "h", "y"));
	loads(model(g));
	assert_string_equal(env.g->first->name, "same");
	assert_string_not_equal(env.g->last->name, "same");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(versions, teardown),
		cmocka_unit_test_teardown(unsupported_operators, teardown),
		cmocka_unit_test_teardown(operators_too_old_for_their_row, teardown),
		cmocka_unit_test_teardown(already_quantized, teardown),
		cmocka_unit_test_teardown(constants_of_every_form, teardown),
		cmocka_unit_test_teardown(weights_either_way, teardown),
		cmocka_unit_test_teardown(constants_that_are_refused, teardown),
		cmocka_unit_test_teardown(attributes, teardown),
		cmocka_unit_test_teardown(legal_names, teardown),
		cmocka_unit_test_teardown(nodes_of_one_name, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
