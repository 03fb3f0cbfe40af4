/* test_onnx_graph.c - from messages to a graph: order, names, inputs, outputs, constants, versions, attributes. */
#include "onnx_build.h"

/* y = Relu(x * W + b), nodes in the order that `order` says. */
static pb mlp(const char *order)
{
	pb g = graph_xy();
	pb_add(&g, GRAPH_INIT, ramp("W", "4,4", 16));
	pb_add(&g, GRAPH_INIT, ramp("b", "4", 4));
	for (; *order; order++)
		pb_add(&g, GRAPH_NODE,
			*order == 'm'   ? node("MatMul", "mm", "x,W", "h")
			: *order == 'a' ? node("Add", "add", "h,b", "s")
					: node("Relu", "act", "s", "y"));
	return g;
}

static void any_order(void **state)
{
	(void)state;
	const char *const orders[] = {"mar", "mra", "amr", "arm", "rma", "ram"};
	for (int i = 0; i < 6; i++) {
		loads(model(mlp(orders[i])));
		assert_string_equal(listing(env.g), "MatMul(x,W)->h;Add(h,b)->s;Relu(s)->y;");
		assert_int_equal(env.g->n_inputs, 1);
		assert_string_equal(env.g->output_names[0], "y");
		assert_true(env.g->outputs[0]->is_output && env.g->inputs[0]->is_input);
	}
}

static void long_chain_backwards(void **state)
{
	(void)state;
	enum { N = 20000 };
	pb g = graph_xy();
	for (int i = N; i-- > 0;) {
		char in[16], out[16];
		snprintf(in, sizeof in, i ? "t%d" : "x", i);
		snprintf(out, sizeof out, i == N - 1 ? "y" : "t%d", i + 1);
		pb_add(&g, GRAPH_NODE, node("Relu", NULL, in, out));
	}
	loads(model(g));
	assert_string_equal(env.g->first->in[0]->name, "x");
	assert_string_equal(env.g->last->out[0]->name, "y");
}

static void cycles(void **state)
{
	(void)state;
	pb g = graph_xy();
	pb_add(&g, GRAPH_NODE, node("Add", "one", "x,c", "a"));
	pb_add(&g, GRAPH_NODE, node("Relu", "two", "a", "c"));
	pb_add(&g, GRAPH_NODE, node("Relu", "out", "x", "y"));
	refuses(model(g), "cycle", "'one'");
	pb self = graph_xy();
	pb_add(&self, GRAPH_NODE, node("Relu", "own", "y", "y"));
	refuses(model(self), "cycle", "'own'");
}

static void names_defined_twice(void **state)
{
	(void)state;
	pb g = graph_xy();
	pb_add(&g, GRAPH_NODE, node("Relu", "one", "x", "y"));
	pb_add(&g, GRAPH_NODE, node("Relu", "two", "x", "y"));
	refuses(model(g), "'y'", "'one'", "'two'", "twice");
	g = graph_xy();
	pb_add(&g, GRAPH_INIT, ramp("y", "2,4", 8));
	pb_add(&g, GRAPH_NODE, node("Relu", "one", "x", "y"));
	refuses(model(g), "'y'", "twice");
	g = graph_xy();
	pb_add(&g, GRAPH_NODE, node("Relu", "one", "x", "x"));
	refuses(model(g), "cycle");
	g = graph_xy();
	pb_add(&g, GRAPH_INPUT, value_info("x", F32, "2,4"));
	pb_add(&g, GRAPH_NODE, node("Relu", "one", "x", "y"));
	refuses(model(g), "input 'x'", "twice");
	g = mlp("mar");
	pb_add(&g, GRAPH_INIT, ramp("W", "4,4", 16));
	refuses(model(g), "'W'", "twice");
	g = mlp("mar");
	pb_add(&g, GRAPH_INIT, ramp(NULL, "4,4", 16));
	refuses(model(g), "no name");
}

static void names_that_nothing_defines(void **state)
{
	(void)state;
	pb g = graph_xy();
	pb_add(&g, GRAPH_NODE, node("Add", "sum", "x,nowhere", "y"));
	refuses(model(g), "node 'sum' (Add)", "'nowhere'");
	g = graph_xy();
	pb_add(&g, GRAPH_NODE, node("Relu", "one", "x", "z"));
	refuses(model(g), "output", "'y'");
	g = (pb){0};
	pb_add(&g, GRAPH_INPUT, value_info("x", F32, "2"));
	pb_add(&g, GRAPH_NODE, node("Relu", "one", "x", "z"));
	refuses(model(g), "no outputs");
}

static void unnamed_nodes_and_absent_inputs(void **state)
{
	(void)state;
	for (int again = 0; again < 2; again++) {
		pb g = graph_xy();
		pb_add(&g, GRAPH_INIT, raw("top", F32, "", (float[]){6}, 4));
		pb_add(&g, GRAPH_INIT, ramp("W", "4,4", 16));
		pb_add(&g, GRAPH_NODE, node("Clip", NULL, "x,,top", "c"));
		pb_add(&g, GRAPH_NODE, node("MatMul", "", "c,W", "h"));
		pb_add(&g, GRAPH_NODE, node("MatMul", NULL, "h,W", "y"));
		loads(model(g));
		assert_string_equal(listing(env.g), "Clip(x,,top)->c;MatMul(c,W)->h;MatMul(h,W)->y;");
		assert_null(env.g->first->in[1]);
		assert_string_equal(env.g->first->name, "Clip_c");
		assert_string_equal(env.g->last->name, "MatMul_y");
	}
}

static void absent_outputs_and_missing_inputs(void **state)
{
	(void)state;
	pb g = graph_xy();
	pb_add(&g, GRAPH_NODE, node("Dropout", "d", "x", "y,"));
	loads(model(g));
	assert_int_equal(env.g->first->n_out, 2);
	assert_null(env.g->first->out[1]);
	g = graph_xy();
	pb_add(&g, GRAPH_NODE, node("MatMul", "mm", "x", "y"));
	refuses(model(g), "'mm'", "lacks input 1");
	g = graph_xy();
	pb_add(&g, GRAPH_NODE, node("MatMul", "mm", ",x", "y"));
	refuses(model(g), "'mm'", "lacks input 0");
	g = graph_xy();
	pb_add(&g, GRAPH_NODE, node("MatMul", "mm", "x,x,x", "y"));
	refuses(model(g), "'mm'", "3 inputs");
	g = graph_xy();
	pb_add(&g, GRAPH_NODE, node("MatMul", "mm", "x,x", "y,z"));
	refuses(model(g), "'mm'", "2 outputs");
}

static void initializers_listed_as_inputs(void **state)
{
	(void)state;
	pb g = mlp("mar"), m = {0};
	pb_add(&g, GRAPH_INPUT, value_info("W", F32, "4,4"));
	pb_add(&g, GRAPH_INPUT, value_info("b", F32, "4"));
	pb_int(&m, 1, 3);
	pb_add(&m, 7, g);
	pb_add(&m, 8, opset("", 8));
	loads(m);
	assert_int_equal(env.g->n_inputs, 1);
	assert_string_equal(env.g->inputs[0]->name, "x");
	assert_true(value("W")->is_const && !value("W")->is_input);
	assert_int_equal(env.g->first->opset, 8);
}

static void outputs_of_every_kind(void **state)
{
	(void)state;
	pb g = {0};
	pb_add(&g, GRAPH_INPUT, value_info("x", F32, "2"));
	pb_add(&g, GRAPH_INIT, ramp("w", "2", 2));
	pb_add(&g, GRAPH_NODE, node("Relu", "r", "x", "y"));
	const char *const names[] = {"y", "w", "x", "y"};
	for (int i = 0; i < 4; i++)
		pb_add(&g, GRAPH_OUTPUT, value_info(names[i], F32, "2"));
	loads(model(g));
	assert_int_equal(env.g->n_outputs, 4);
	for (int i = 0; i < 4; i++)
		assert_string_equal(env.g->output_names[i], names[i]);
	assert_ptr_equal(env.g->outputs[0], env.g->outputs[3]);
	assert_true(env.g->outputs[1]->is_const);
	assert_true(env.g->outputs[2]->is_input);
}

static const char *dims_of(const char *name)
{
	return qn_shape_text(&env.arena, &value(name)->fact.shape);
}

static void input_shapes(void **state)
{
	(void)state;
	pb g = {0};
	pb_add(&g, GRAPH_INPUT, value_info("a", I64, "batch,,4,x_1"));
	pb_add(&g, GRAPH_INPUT, value_info("b", F16, "2*s, ,batch"));
	pb_add(&g, GRAPH_INPUT, value_info("c", BOOL, NULL));
	pb_add(&g, GRAPH_INPUT, value_info("d", F32, ""));
	pb_add(&g, GRAPH_INPUT, value_info("x", F32, "0,"));
	pb_add(&g, GRAPH_NODE, node("Identity", "r", "a", "y"));
	pb_add(&g, GRAPH_OUTPUT, value_info("y", I64, "wrong"));
	loads(model(g));
	assert_string_equal(dims_of("a"), "[batch, a_1, 4, x_1]");
	assert_string_equal(dims_of("b"), "[2*s,  , batch]");
	assert_int_equal(value("a")->fact.type, QN_I64);
	assert_int_equal(value("b")->fact.type, QN_F16);
	assert_int_equal(value("c")->fact.shape.rank, -1);
	assert_int_equal(value("d")->fact.shape.rank, 0);
	assert_true(qn_dim_is(value("x")->fact.shape.dim[0], 0));
	assert_false(qn_dim_equal(value("x")->fact.shape.dim[1], value("a")->fact.shape.dim[3])); /* x_1 is somebody else's name */
	assert_true(qn_dim_equal(value("a")->fact.shape.dim[0], value("b")->fact.shape.dim[2]));
}

static pb with_input(pb info)
{
	pb g = {0};
	pb_add(&g, GRAPH_INPUT, info);
	pb_add(&g, GRAPH_INPUT, value_info("x", F32, "2"));
	pb_add(&g, GRAPH_NODE, node("Relu", "r", "x", "y"));
	pb_add(&g, GRAPH_OUTPUT, value_info("y", F32, "2"));
	return model(g);
}

static void inputs_that_are_refused(void **state)
{
	(void)state;
	refuses(with_input(value_info("i", F32, "-1,4")), "input 'i'", "-1", "axis 0");
	refuses(with_input(value_info("i", STRING, "1")), "input 'i'", "string");
	refuses(with_input(value_info("i", 77, "1")), "input 'i'", "unknown (77)");
	refuses(with_input(value_info("i", F32, "1,1,1,1,1,1,1,1,1")), "input 'i'", "rank 9");
	const unsigned fields[] = {4, 5, 8, 9};
	const char *const what[] = {"a sequence", "a map", "a sparse tensor", "an optional"};
	for (int i = 0; i < 4; i++) {
		pb type = {0}, info = {0};
		pb_add(&type, fields[i], (pb){0});
		pb_str(&info, 1, "i");
		pb_add(&info, 2, type);
		refuses(with_input(info), "input 'i'", what[i]);
	}
	pb info = {0};
	pb_str(&info, 1, "i");
	refuses(with_input(info), "input 'i'", "no type");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(any_order, teardown),
		cmocka_unit_test_teardown(long_chain_backwards, teardown),
		cmocka_unit_test_teardown(cycles, teardown),
		cmocka_unit_test_teardown(names_defined_twice, teardown),
		cmocka_unit_test_teardown(names_that_nothing_defines, teardown),
		cmocka_unit_test_teardown(unnamed_nodes_and_absent_inputs, teardown),
		cmocka_unit_test_teardown(absent_outputs_and_missing_inputs, teardown),
		cmocka_unit_test_teardown(initializers_listed_as_inputs, teardown),
		cmocka_unit_test_teardown(outputs_of_every_kind, teardown),
		cmocka_unit_test_teardown(input_shapes, teardown),
		cmocka_unit_test_teardown(inputs_that_are_refused, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
