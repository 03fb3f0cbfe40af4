/* test_onnx_function.c - model-local functions are inlined; subgraphs become bodies that read outer values by name. */
#include "onnx_build.h"

static pb function(const char *name, const char *in, const char *out)
{
	pb f = {0};
	pb_str(&f, 1, name);
	pb_names(&f, 4, in);
	pb_names(&f, 5, out);
	pb_str(&f, 10, "local");
	pb_add(&f, 9, opset("", 17));
	pb_add(&f, 9, opset("local", 1));
	return f;
}

static pb call(const char *name, const char *label, const char *in, const char *out)
{
	pb n = node(name, label, in, out);
	pb_str(&n, 7, "local");
	return n;
}

static pb model_with(pb graph, int n, const pb *functions)
{
	pb m = model(graph);
	pb_add(&m, 8, opset("local", 1));
	for (int i = 0; i < n; i++)
		pb_add(&m, MODEL_FUNCTION, functions[i]);
	return m;
}

/* Twice(a) = Relu(a) + Relu(a), in an order that needs sorting, with inner names that the model uses too. */
static pb twice(void)
{
	pb f = function("Twice", "a", "b");
	pb_add(&f, 7, node("Add", "sum", "x,x", "b"));
	pb_add(&f, 7, node("Relu", "r", "a", "x"));
	return f;
}

static void nested_calls_and_name_clashes(void **state)
{
	(void)state;
	pb quad = function("Quad", "p", "q");
	pb_add(&quad, 7, call("Twice", "first", "p", "mid"));
	pb_add(&quad, 7, call("Twice", "second", "mid", "q"));
	pb g = graph_xy();
	pb_add(&g, GRAPH_NODE, call("Quad", "call", "x", "y"));
	pb functions[] = {quad, twice()};
	loads(model_with(g, 2, functions));
	assert_string_equal(listing(env.g), "Relu(x)->call/first/x;Add(call/first/x,call/first/x)->call/mid;"
					    "Relu(call/mid)->call/second/x;Add(call/second/x,call/second/x)->y;");
	assert_string_equal(env.g->first->name, "call/first/r");
	assert_int_equal(env.g->first->opset, 17);
}

static void constants_in_functions(void **state)
{
	(void)state;
	pb f = function("Shift", "a", "b"), g = graph_xy();
	pb_add(&f, 7, with(node("Constant", NULL, NULL, "c"), attr_ref("value_float", A_FLOAT, "by")));
	pb_add(&f, 7, node("Add", "sum", "a,c", "b"));
	pb d = attr_float("by", 3);
	pb_add(&f, 11, d);
	pb_add(&g, GRAPH_NODE, with(call("Shift", "one", "x", "h"), attr_float("by", 5)));
	pb_add(&g, GRAPH_NODE, call("Shift", "two", "h", "y"));
	loads(model_with(g, 1, &f));
	assert_string_equal(listing(env.g), "Add(x,one/c)->h;Add(h,two/c)->y;");
	assert_true(qn_tensor_get(content("one/c"), 0) == 5); /* from the call */
	assert_true(qn_tensor_get(content("two/c"), 0) == 3); /* the default */
	assert_string_equal(value("one/c")->weight, "one/c");
}

static void attribute_references(void **state)
{
	(void)state;
	pb inner = function("Leaky", "a", "b"), outer = function("Outer", "a", "b"), g = graph_xy();
	pb_str(&inner, 6, "slope");
	pb_add(&inner, 7, with(node("LeakyRelu", "l", "a", "b"), attr_ref("alpha", A_FLOAT, "slope")));
	pb_str(&outer, 6, "steep");
	pb_add(&outer, 7, with(call("Leaky", "in", "a", "b"), attr_ref("slope", A_FLOAT, "steep")));
	pb_add(&g, GRAPH_NODE, with(call("Outer", "given", "x", "h"), attr_float("steep", 0.25f)));
	pb_add(&g, GRAPH_NODE, call("Outer", "not_given", "h", "y"));
	pb functions[] = {inner, outer};
	loads(model_with(g, 2, functions));
	assert_true(qn_node_float(env.g->first, "alpha", 9) == 0.25f);
	assert_null(qn_node_attr(env.g->last, "alpha")); /* so the operator's own default counts */
}

static void absent_inputs_and_outputs(void **state)
{
	(void)state;
	pb f = function("Bound", "a,low,high", "b,same,low_again"), g = graph_xy();
	pb_add(&f, 7, node("Clip", "c", "a,low,high", "b"));
	pb_add(&f, 7, node("Identity", "i", "a", "same"));
	pb_add(&f, 7, node("Identity", "i", "high", "low_again"));
	pb_add(&g, GRAPH_INIT, raw("six", F32, "", (float[]){6}, 4));
	pb_add(&g, GRAPH_NODE, call("Bound", "k", "x,,six", "y,"));
	loads(model_with(g, 1, &f));
	assert_string_equal(env.g->first->out[0]->name, "y");
	assert_null(env.g->first->in[1]);
	assert_string_equal(env.g->first->in[2]->name, "six");
}

static void results_that_are_inputs(void **state)
{
	(void)state;
	pb f = function("Pass", "a", "a,r,r"), g = graph_xy();
	pb_add(&f, 7, node("Relu", "r", "a", "r"));
	pb_add(&g, GRAPH_NODE, call("Pass", "p", "x", "u,v,w"));
	pb_add(&g, GRAPH_NODE, node("Sum", "s", "u,v,w", "y"));
	loads(model_with(g, 1, &f));
	assert_string_equal(listing(env.g), "Relu(x)->v;Sum(x,v,v)->y;");
}

static void refused_functions(void **state)
{
	(void)state;
	pb f = function("Self", "a", "b"), g = graph_xy();
	pb_add(&f, 7, call("Self", "again", "a", "b"));
	pb_add(&g, GRAPH_NODE, call("Self", "c", "x", "y"));
	refuses(model_with(g, 1, &f), "'Self'", "calls itself");

	pb ping = function("Ping", "a", "b"), pong = function("Pong", "a", "b");
	pb_add(&ping, 7, call("Pong", "x", "a", "b"));
	pb_add(&pong, 7, call("Ping", "y", "a", "b"));
	g = graph_xy();
	pb_add(&g, GRAPH_NODE, call("Ping", "c", "x", "y"));
	refuses(model_with(g, 2, (pb[]){ping, pong}), "'Ping'", "calls itself");

	g = graph_xy();
	pb_add(&g, GRAPH_NODE, call("Twice", "c", "x,x", "y"));
	refuses(model_with(g, 1, (pb[]){twice()}), "'c'", "'Twice'", "2 inputs");
	refuses(model_with(graph_xy(), 2, (pb[]){twice(), twice()}), "'Twice'", "twice");

	f = function("Broken", "a", "b");
	pb_add(&f, 7, node("Add", "sum", "a,x", "b")); /* the caller's x is not the function's */
	g = graph_xy();
	pb_add(&g, GRAPH_NODE, call("Broken", "c", "x", "y"));
	refuses(model_with(g, 1, &f), "'c/sum'", "'x'");

	f = function("Hollow", "a", "b");
	g = graph_xy();
	pb_add(&g, GRAPH_NODE, call("Hollow", "c", "x", "y"));
	refuses(model_with(g, 1, &f), "'Hollow'", "'b'");

	f = function("Old", "a", "b");
	pb_add(&f, 7, node("Unheard", "u", "a", "b"));
	g = graph_xy();
	pb_add(&g, GRAPH_NODE, call("Old", "c", "x", "y"));
	refuses(model_with(g, 1, &f), "ai.onnx:Unheard version 17, 1 node, such as 'u'");
}

/* f30 calls f29 twice, which calls f28 twice, ...: a small file that means 2^30 nodes. */
static void explosion(void **state)
{
	(void)state;
	pb functions[31], g = graph_xy();
	for (int i = 0; i < 31; i++) {
		char name[16], inner[16];
		snprintf(name, sizeof name, "f%d", i);
		snprintf(inner, sizeof inner, "f%d", i - 1);
		functions[i] = function(name, "a", "b");
		pb_add(&functions[i], 7, i ? call(inner, "one", "a", "h") : node("Relu", "one", "a", "h"));
		pb_add(&functions[i], 7, i ? call(inner, "two", "h", "b") : node("Relu", "two", "h", "b"));
	}
	pb_add(&g, GRAPH_NODE, call("f30", "c", "x", "y"));
	refuses(model_with(g, 31, functions), "expand to more than");
}

static pb body(pb n, const char *out)
{
	pb g = {0};
	pb_str(&g, 2, "body");
	pb_add(&g, GRAPH_NODE, n);
	pb_add(&g, GRAPH_OUTPUT, value_info(out, F32, NULL));
	return g;
}

static pb branch(const char *name, const char *label, const char *in, const char *out, pb then_body, pb else_body)
{
	return with(with(node(name, label, in, out), attr_msg("then_branch", A_GRAPH, 6, then_body)),
		attr_msg("else_branch", A_GRAPH, 6, else_body));
}

static const qn_graph *body_of(const qn_node *n, const char *which)
{
	const qn_attr *a = qn_node_attr(n, which);
	assert_true(a && a->kind == QN_ATTR_GRAPH);
	return a->graph;
}

static void subgraphs(void **state)
{
	(void)state;
	pb g = graph_xy(), inner = body(node("Add", "sum", "h,w", "y"), "y"); /* inner y is not the model's */
	pb_add(&inner, GRAPH_INIT, ramp("w", "4", 4));
	pb_add(&g, GRAPH_INIT, raw("yes", BOOL, "", "\1", 1));
	pb_add(&g, GRAPH_NODE, branch("If", "if", "yes", "y", inner, body(node("Identity", "i", "x", "z"), "z")));
	pb_add(&g, GRAPH_NODE, node("Relu", "r", "x", "h")); /* only the subgraph reads it: must come first */
	loads(model(g));
	assert_string_equal(env.g->first->name, "r");
	const qn_graph *t = body_of(env.g->last, "then_branch"), *e = body_of(env.g->last, "else_branch");
	assert_int_equal(t->n_outputs, 1);
	const qn_value *h = t->first->in[0], *w = t->first->in[1];
	assert_string_equal(h->name, "h");
	assert_true(!h->producer && !h->is_input && !h->is_const);
	assert_true(w->is_const);
	assert_string_equal(w->weight, "w");
	assert_string_equal(t->output_names[0], "y");
	assert_string_not_equal(t->outputs[0]->name, "y"); /* unique over the whole model */
	assert_string_equal(e->first->in[0]->name, "x");
	/* and the node itself reads what its subgraphs read */
	assert_int_equal(env.g->last->n_in, 3);
	assert_ptr_equal(env.g->last->in[1], value("h"));
	assert_ptr_equal(env.g->last->in[2], value("x"));
}

static void refused_subgraphs(void **state)
{
	(void)state;
	pb g = graph_xy();
	pb_add(&g, GRAPH_INIT, raw("yes", BOOL, "", "\1", 1));
	pb_add(&g, GRAPH_NODE,
		branch("If", "if", "yes", "y", body(node("Add", "sum", "x,nowhere", "t"), "t"), body(node("Relu", "r", "x", "e"), "e")));
	refuses(model(g), "'sum'", "'nowhere'");
	g = graph_xy();
	pb_add(&g, GRAPH_INIT, raw("yes", BOOL, "", "\1", 1));
	pb_add(&g, GRAPH_NODE,
		branch("If", "if", "yes", "y", body(node("Relu", "a", "y", "t"), "t"), body(node("Relu", "b", "x", "e"), "e")));
	refuses(model(g), "'if'", "cycle");
	g = graph_xy();
	pb_add(&g, GRAPH_NODE, with(node("If", "if", "x", "y"), attr("then_branch", A_GRAPH)));
	refuses(model(g), "'if'", "'then_branch'", "no graph");
	g = graph_xy();
	pb_add(&g, GRAPH_NODE,
		branch("If", "if", "x,x", "y", body(node("Relu", "a", "x", "t"), "t"), body(node("Relu", "b", "x", "e"), "e")));
	refuses(model(g), "'if'", "2 inputs");
}

static void functions_in_subgraphs(void **state)
{
	(void)state;
	pb g = graph_xy(), f = function("Choose", "a", "b"), middle = body(call("Twice", "t", "k", "u"), "u");
	pb_add(&f, 7, with(node("Constant", NULL, NULL, "no"), attr_int("value_int", 0)));
	pb_add(&f, 7, node("Relu", "r", "a", "k"));
	pb_add(&f, 7,
		branch("If", "if", "no", "b", middle,
			body(branch("If", "if2", "no", "v", body(node("Relu", "n", "k", "v1"), "v1"),
				     body(node("Neg", "m", "k", "v2"), "v2")),
				"v")));
	pb_add(&g, GRAPH_NODE, call("Choose", "c", "x", "y"));
	loads(model_with(g, 2, (pb[]){f, twice()}));
	assert_string_equal(env.g->first->out[0]->name, "c/k");
	const qn_graph *t = body_of(env.g->last, "then_branch"), *e = body_of(env.g->last, "else_branch");
	assert_string_equal(t->first->in[0]->name, "c/k"); /* the outer graph's name for it */
	const qn_graph *deep = body_of(e->first, "else_branch");
	assert_string_equal(deep->first->in[0]->name, "c/k");
	assert_non_null(qn_graph_find_value((qn_graph *)(uintptr_t)e, "c/k")); /* captured level by level */
}

static void too_deep(void **state)
{
	(void)state;
	for (int levels = 60; levels <= 70; levels += 10) {
		pb inner = body(node("Relu", "r", "x", "y"), "y"), other = body(node("Relu", "r", "x", "y"), "y"), g = graph_xy();
		for (int i = 1; i < levels; i++)
			inner = body(branch("If", "if", "yes", "y", inner, body(node("Relu", "r", "x", "y"), "y")), "y");
		pb_add(&g, GRAPH_INIT, raw("yes", BOOL, "", "\1", 1));
		pb_add(&g, GRAPH_NODE, branch("If", "if", "yes", "y", inner, other));
		if (levels < 64)
			loads(model(g));
		else
			refuses(model(g), "subgraphs nest deeper than 64");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(nested_calls_and_name_clashes, teardown),
		cmocka_unit_test_teardown(constants_in_functions, teardown),
		cmocka_unit_test_teardown(attribute_references, teardown),
		cmocka_unit_test_teardown(absent_inputs_and_outputs, teardown),
		cmocka_unit_test_teardown(results_that_are_inputs, teardown),
		cmocka_unit_test_teardown(refused_functions, teardown),
		cmocka_unit_test_teardown(explosion, teardown),
		cmocka_unit_test_teardown(subgraphs, teardown),
		cmocka_unit_test_teardown(refused_subgraphs, teardown),
		cmocka_unit_test_teardown(functions_in_subgraphs, teardown),
		cmocka_unit_test_teardown(too_deep, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
