/* test_shapes.c - the shapes walk: what is known up to the symbols is folded, symbols that must be equal are bound, the rest is an error
 * that names its node. */
#include "tests/unit/graph_text.h"

#include "passes/pipeline.h"

static char logged[1024];

static void note(void *user, quern_log_level level, const char *text)
{
	(void)user;
	if (level == QUERN_LOG_WARN)
		snprintf(logged, sizeof logged, "%s", text);
}

static const char *last = "shapes";

static qn_status walk(const char *text)
{
	text_graph(text);
	qn_pass_env env = {.ctx = &ctx};
	ctx.log = note;
	logged[0] = 0;
	return qn_pipeline_run(graph, &env, NULL, last);
}

static void assert_walks(const char *text)
{
	if (walk(text) != QUERN_OK)
		fail_msg("%s", ctx.message);
}

static void assert_shape(int output, const char *text)
{
	assert_string_equal(qn_shape_text(&arena, &graph->outputs[output]->fact.shape), text);
}

static int nodes(void)
{
	int n = 0;
	for (const qn_node *p = graph->first; p; p = p->next)
		n++;
	return n;
}

#define X "input x f32[B,S,64]\n"

static void test_shape_subgraph_vanishes(void **state)
{
	(void)state;
	assert_walks(
		X "const i0 i64[] = 0\nconst i1 i64[] = 1\nconst first i64[1] = 0\nconst rest i64[2] = 4 16\ns = Shape(x)\nb = Gather(s, "
		  "i0)\nn = Gather(s, i1)\n"
		  "bu = Unsqueeze(b, first)\nnu = Unsqueeze(n, first)\nto = Concat(bu, nu, rest) axis=0\ny = Reshape(x, to)\noutput y\n");
	assert_shape(0, "[B, S, 4, 16]");
	assert_int_equal(nodes(), 1);
}

static void test_sizes_through_arithmetic(void **state)
{
	(void)state;
	assert_walks(X "const i1 i64[] = 1\nconst one i64[] = 1\nconst two i64[] = 2\nconst zero i64[] = 0\nconst first i64[1] = 0\nconst "
		       "like f32[] = 1\n"
		       "s = Shape(x)\nn = Gather(s, i1)\nm = Mul(n, two)\na = Add(m, one)\nf = Cast(a) to=1\ni = Cast(f) to=7\nstep = "
		       "CastLike(like, n)\nr = Range(zero, i, step)\n"
		       "au = Unsqueeze(a, first)\nc = ConstantOfShape(au)\noutput r\noutput c\n");
	assert_shape(0, "[2*S + 1]");
	assert_shape(1, "[2*S + 1]");
}

static void test_mark_of_an_unchanged_size(void **state)
{
	(void)state;
	assert_walks("input x f32[B,T]\ninput p f32[B,P]\nconst minus i64[2] = -1 -1\nconst ones i64[2] = 1 1\nconst i1 i64[1] = 1\nconst "
		     "one f32[1,1] = 1\n"
		     "s = Shape(x)\nq = Shape(p)\nd = Sub(s, q)\nt = Gather(d, i1) axis=0\nb = Gather(s, i1) axis=0\nto = Concat(t, b) "
		     "axis=0\nm = Equal(to, minus)\n"
		     "w = Where(m, ones, to)\ny = Expand(one, w)\noutput y\n");
	assert_shape(0, "[T - P, T]");
}

static void test_broadcast_binds(void **state)
{
	(void)state;
	assert_walks(X "input m f32[N,1,64]\ny = Add(x, m)\noutput y\n");
	assert_true(qn_dim_equal(qn_dim_resolve(graph->dims, qn_dim_symbol(graph->dims, "B")),
		qn_dim_resolve(graph->dims, qn_dim_symbol(graph->dims, "N"))));
}

static void test_assumption_is_told(void **state)
{
	(void)state;
	last = "canonicalize";
	assert_walks("input x f32[B,S]\ninput m f32[1,S]\nconst from i64[1] = 0\nconst to i64[1] = 8\nconst axis i64[1] = 1\npart = "
		     "Slice(m, from, to, axis)\ny = Add(x, part)\noutput y\n");
	assert_shape(0, "[B, S]");
	assert_non_null(strstr(logged, "min(S,8) is S"));
	last = "shapes";
}

static void test_last_of_a_range(void **state)
{
	(void)state;
	assert_walks("input x f32[S,4]\nconst zero i64[] = 0\nconst one i64[] = 1\nconst last i64[] = -1\nconst first i64[1] = 0\nsh = "
		     "Shape(x) end=1\nn = Squeeze(sh, first)\nr = Range(zero, n, one)\n"
		     "top = Gather(r, last)\nmore = Add(top, one)\nu = Range(zero, more, one)\noutput u\n");
	assert_shape(0, "[S]");
}

static void test_all_positions(void **state)
{
	(void)state;
	text_graph("input x f32[B,S]\nsh = Shape(x)\nc = ConstantOfShape(sh)\nn = NonZero(c)\noutput n\n");
	int64_t one = 1;
	qn_node_set_tensor(graph, graph->first->next, "value", qn_tensor_i64s(&arena, &one, 1));
	assert_walks("");
	assert_shape(0, "[2, B*S]");
	assert_int_equal(text_count("NonZero"), 0);
}

static void test_start_that_leaves_room(void **state)
{
	(void)state;
	/* table[64 - S:] has S rows; x[-S:] is all of x */
	assert_walks("input x f32[S,4]\nconst table f32[64,4]\nconst size i64[1] = 64\nconst zero i64[1] = 0\nconst far i64[1] = "
		     "9223372036854775807\nsh = Shape(x) end=1\nfrom = Sub(size, sh)\n"
		     "back = Sub(zero, sh)\na = Slice(table, from, far, zero)\nb = Slice(x, back, far, zero)\ny = Add(a, b)\noutput y\n");
	assert_shape(0, "[S, 4]");
}

static void test_weights_keep_their_names(void **state)
{
	(void)state;
	assert_walks("input x f32[B,64]\nconst w f32[64,96]\nconst g f32[1,32]\nconst table f32[4]\nconst grow i64[2] = 64 4\nconst parts "
		     "i64[3] = 32 32 32\n"
		     "a, b, c = Split(w, parts) axis=1\nscaled = Mul(a, g)\nwide = Expand(table, grow)\ny = MatMul(x, scaled)\nz = "
		     "MatMul(x, wide)\noutput y\noutput z\n");
	const qn_value *y = graph->outputs[0]->producer->in[1], *z = graph->outputs[1]->producer->in[1];
	assert_string_equal(y->weight, "w");
	assert_null(z->weight); /* larger than what it is made of: no weight of the file */
}

static void test_data_dependent_size(void **state)
{
	(void)state;
	assert_int_equal(walk("input x f32[B,4]\ninput n i64[1]\ny = Expand(x, n)\noutput y\n"), QUERN_ERR_UNSUPPORTED);
	assert_non_null(strstr(ctx.message, "node 'y' (Expand)"));
	assert_non_null(strstr(ctx.message, "'n'"));
}

static void test_contradiction(void **state)
{
	(void)state;
	assert_int_equal(walk("input x f32[B,4]\ninput y f32[B,5]\nz = Add(x, y)\noutput z\n"), QUERN_ERR_SHAPE);
	assert_non_null(strstr(ctx.message, "4 and 5"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, op_setup, op_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {CASE(test_shape_subgraph_vanishes), CASE(test_sizes_through_arithmetic),
		CASE(test_mark_of_an_unchanged_size), CASE(test_broadcast_binds), CASE(test_assumption_is_told), CASE(test_last_of_a_range),
		CASE(test_all_positions), CASE(test_start_that_leaves_room), CASE(test_weights_keep_their_names),
		CASE(test_data_dependent_size), CASE(test_contradiction)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
