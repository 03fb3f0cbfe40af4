/* test_passes.c - rewritings keep results: every graph is run as it was written and as the passes leave it. */
#include "tests/unit/graph_text.h"

#include "passes/pipeline.h"
#include "passes/plan.h"

#include <math.h>

static const qn_tensor *inputs[4];

static void afresh(void)
{
	op_teardown(NULL);
	op_setup(NULL);
}

static qn_tensor *run_graph(void)
{
	qn_tensor *y = QN_NEW(&arena, qn_tensor, graph->n_outputs);
	if (qn_exec_run(&ctx, graph, inputs, &arena, y, NULL, NULL) != QUERN_OK)
		fail_msg("%s", ctx.message);
	return y;
}

static void passes_up_to(const char *first, const char *last)
{
	static qn_plan plan;
	plan = (qn_plan){.arena = &arena};
	qn_pass_env env = {.ctx = &ctx, .plan = &plan, .tolerate_dynamic = !strcmp(last, "shapes")};
	if (qn_pipeline_run(graph, &env, first, last) != QUERN_OK)
		fail_msg("%s", ctx.message);
}

/* Random inputs in [-2, 2], symbols 3, 4, 5 ... in order of appearance; integers in [0, 3]. */
static void draw_inputs(void)
{
	const char *seen[8];
	int n = 0;
	for (int i = 0; i < graph->n_inputs; i++) {
		const qn_fact *f = &graph->inputs[i]->fact;
		int64_t dim[QN_MAX_RANK];
		for (int k = 0; k < f->shape.rank; k++) {
			if (qn_dim_is_const(f->shape.dim[k])) {
				dim[k] = f->shape.dim[k].k;
				continue;
			}
			const char *text = qn_dim_text(&arena, f->shape.dim[k], NULL, NULL);
			int s = 0;
			while (s < n && strcmp(seen[s], text))
				s++;
			if (s == n)
				seen[n++] = text;
			dim[k] = 3 + s;
		}
		qn_tensor *t = qn_tensor_new(&arena, f->type, f->shape.rank, dim);
		for (int64_t k = 0; k < qn_tensor_count(t); k++)
			qn_tensor_set(
				op_data(t), t->type, k, qn_dtype_is_float(t->type) ? (double)draw(-2000, 2000) / 1000 : (double)draw(0, 3));
		inputs[i] = t;
	}
}

/* Runs the graph before and after the passes up to `last`; equal to `tolerance` relative to the largest number. */
static void assert_kept(const char *text, const char *last, double tolerance)
{
	text_graph(text);
	draw_inputs();
	passes_up_to(NULL, "shapes");
	const qn_tensor *before = run_graph();
	passes_up_to("widen", last);
	const qn_tensor *after = run_graph();
	for (int i = 0; i < graph->n_outputs; i++) {
		int64_t n = qn_tensor_count(&before[i]);
		double largest = 1e-6, worst = 0;
		assert_int_equal(n, qn_tensor_count(&after[i]));
		assert_int_equal(before[i].rank, after[i].rank);
		for (int64_t k = 0; k < n; k++) {
			double a = qn_tensor_get(&before[i], k), b = qn_tensor_get(&after[i], k);
			largest = fmax(largest, fabs(a));
			worst = fmax(worst, isnan(a) && isnan(b) ? 0 : fabs(a - b));
		}
		if (!(worst <= tolerance * largest))
			fail_msg("output %d differs by %g of %g", i, worst, largest);
	}
}

/* What is left is `n` of `op` and `others` nodes besides. */
static void assert_left(const char *op, int n, int others)
{
	int k = 0;
	for (const qn_node *node = graph->first; node; node = node->next)
		k += !node->out[0] || !node->out[0]->is_const;
	assert_int_equal(text_count(op), n);
	assert_int_equal(k - n, others);
}

#define X "input x f32[B,S,16]\n"

static void test_gelu(void **state)
{
	(void)state;
	static const char *const forms[] = {
		"d = Div(x, r2)\ne = Erf(d)\na = Add(e, one)\nm = Mul(x, a)\ny = Mul(m, half)\n",
		"d = Mul(x, i2)\ne = Erf(d)\na = Add(one, e)\nh = Mul(half, x)\ny = Mul(h, a)\n",
		"d = Div(x, r2)\ne = Erf(d)\na = Add(e, one)\nh = Mul(a, half)\ny = Mul(h, x)\n",
		"d = Div(x, r2)\ne = Erf(d)\na = Add(e, one)\nm = Mul(a, x)\ny = Div(m, two)\n",
	};
	for (size_t i = 0; i < QN_LEN(forms); i++) {
		afresh();
		assert_kept(qn_arena_printf(&arena,
				    "%sconst one f32[] = 1\nconst half f32[] = 0.5\nconst two f32[] = 2\nconst r2 f32[] = "
				    "1.41421356\nconst i2 f32[] = 0.70710678\n%soutput y\n",
				    X, forms[i]),
			"canonicalize", 1e-5);
		assert_left("Gelu", 1, 0);
	}
}

static void test_gelu_by_tanh(void **state)
{
	(void)state;
	static const char *const forms[] = {
		"p = Pow(x, three)\nc = Mul(p, k)\ns = Add(x, c)\ni = Mul(s, q)\nt = Tanh(i)\na = Add(t, one)\nh = Mul(x, half)\ny = "
		"Mul(h, a)\n",
		"s2 = Mul(x, x)\np = Mul(s2, x)\nc = Mul(k, p)\ns = Add(c, x)\ni = Mul(q, s)\nt = Tanh(i)\na = Add(one, t)\nm = Mul(x, "
		"a)\ny = Mul(half, m)\n",
		"s2 = Mul(x, x)\nc = Mul(s2, k)\nb = Add(c, one)\nm = Mul(x, b)\ni = Mul(m, q)\nt = Tanh(i)\na = Add(t, one)\nh = "
		"Mul(half, x)\ny = Mul(h, a)\n",
		"xq = Mul(x, q)\ns2 = Mul(x, x)\nc = Mul(s2, k)\nb = Add(one, c)\ni = Mul(xq, b)\nt = Tanh(i)\na = Add(t, one)\nh = "
		"Mul(half, x)\ny = Mul(h, a)\n",
	};
	for (size_t i = 0; i < QN_LEN(forms); i++) {
		afresh();
		assert_kept(qn_arena_printf(&arena,
				    "%sconst one f32[] = 1\nconst half f32[] = 0.5\nconst three f32[] = 3\nconst k f32[] = 0.044715\nconst "
				    "q f32[] = 0.79788456\n%soutput y\n",
				    X, forms[i]),
			"canonicalize", 1e-4);
		assert_left("Gelu", 1, 0);
	}
}

static void test_swish(void **state)
{
	(void)state;
	static const char *const forms[] = {
		"s = Sigmoid(x)\ny = Mul(x, s)\n", "s = Sigmoid(x)\ny = Mul(s, x)\n", "a = Mul(x, k)\ns = Sigmoid(a)\ny = Mul(x, s)\n"};
	for (size_t i = 0; i < QN_LEN(forms); i++) {
		afresh();
		assert_kept(qn_arena_printf(&arena, "%sconst k f32[] = 1.702\n%soutput y\n", X, forms[i]), "canonicalize", 1e-5);
		assert_left("Swish", 1, 0);
	}
}

static void test_norms(void **state)
{
	(void)state;
	static const struct {
		const char *op, *text;
	} forms[] = {
		{"LayerNormalization", "m = ReduceMean(x, last)\nd = Sub(x, m)\nq = Mul(d, d)\nv = ReduceMean(q, last)\ne = Add(v, eps)\nr "
				       "= Sqrt(e)\nn = Div(d, r)\ng = Mul(n, gain)\ny = Add(g, bias)\n"},
		{"LayerNormalization", "m = ReduceMean(x, last)\nd = Sub(x, m)\nd2 = Sub(x, m)\nq = Pow(d2, two)\nv = ReduceMean(q, "
				       "last)\ne = Add(eps, v)\nr = Sqrt(e)\nn = Div(d, r)\ng = Mul(gain, n)\ny = Add(bias, g)\n"},
		{"LayerNormalization", "m = ReduceMean(x, last)\nd = Sub(x, m)\nq = Pow(d, two)\nv = ReduceMean(q, last)\ne = Add(v, "
				       "eps)\nr = Sqrt(e)\ni = Reciprocal(r)\ny = Mul(d, i)\n"},
		{"RMSNormalization", "q = Pow(x, two)\nv = ReduceMean(q, last)\ne = Add(v, eps)\nr = Sqrt(e)\ni = Div(one, r)\nn = Mul(x, "
				     "i)\ny = Mul(gain, n)\n"},
		{"RMSNormalization",
			"q = Mul(x, x)\nv = ReduceMean(q, last)\ne = Add(v, eps)\ni = Pow(e, root)\nn = Mul(i, x)\ny = Mul(n, gain)\n"},
		{"RMSNormalization", "q = Mul(x, x)\nv = ReduceMean(q, last)\ne = Add(v, eps)\nr = Sqrt(e)\ny = Div(x, r)\n"},
	};
	for (size_t i = 0; i < QN_LEN(forms); i++) {
		afresh();
		assert_kept(qn_arena_printf(&arena,
				    "%sconst last i64[1] = -1\nconst eps f32[] = 0.00001\nconst two f32[] = 2\nconst one f32[] = 1\nconst "
				    "root f32[] = -0.5\nconst gain f32[16]\nconst bias f32[1,1,16]\n%soutput y\n",
				    X, forms[i].text),
			"canonicalize", 1e-5);
		assert_left(forms[i].op, 1, 0);
	}
}

/* A mean along another axis is no norm; two factors that differ are no square. */
static void test_what_is_no_form(void **state)
{
	(void)state;
	assert_kept(X "const first i64[1] = 1\nconst eps f32[] = 0.00001\nq = Mul(x, x)\nv = ReduceMean(q, first)\ne = Add(v, eps)\nr = "
		      "Sqrt(e)\ny = Div(x, r)\n"
		      "const k f32[] = 0.5\nconst one f32[] = 1\nd = Mul(y, k)\nf = Erf(d)\na = Add(f, one)\nm = Mul(y, a)\nz = Mul(m, "
		      "k)\noutput z\n",
		"canonicalize", 1e-5);
	assert_int_equal(text_count("RMSNormalization") + text_count("Gelu"), 0);
}

static void test_merge(void **state)
{
	(void)state;
	assert_kept(X "const g f32[16]\nconst h f32[16]\nconst a i64[1] = 1\nconst b i64[1] = 1\nn1 = LayerNormalization(x, g)\nn2 = "
		      "LayerNormalization(x, g)\nn3 = LayerNormalization(x, h)\n"
		      "s = ReduceSum(n1, a)\nt = ReduceSum(n2, b)\nu = Add(s, t)\ny = Add(u, n3)\noutput y\n",
		"merge", 0);
	assert_int_equal(text_count("LayerNormalization"), 3); /* the pass came before: nothing changes twice */
	passes_up_to("merge", "merge");
	assert_int_equal(text_count("LayerNormalization"), 2);
	assert_int_equal(text_count("ReduceSum"), 1);
}

static void test_halves(void **state)
{
	(void)state;
	assert_kept("input x f16[B,16]\ninput ids i64[B]\nconst w f16[16,8]\nconst t f16[4,8]\ny = MatMul(x, w)\ne = Gather(t, ids)\nz = "
		    "Add(y, e)\nf = Cast(z) to=1\nh = Cast(f) to=10\noutput h\noutput f\n",
		"linear", 2e-3);
	assert_int_equal(graph->outputs[0]->fact.type, QN_F16);
	assert_int_equal(graph->inputs[0]->fact.type, QN_F16);
	for (const qn_node *n = graph->first; n; n = n->next)
		if (strcmp(n->op->name, "Cast"))
			assert_int_not_equal(n->out[0]->fact.type, QN_F16);
	assert_int_equal(text_count("Linear"), 1);
}

static void test_linear_forms(void **state)
{
	(void)state;
	assert_kept(X "const a f32[1,1,16,8]\nconst b f32[8]\nconst c f32[12,8]\nconst cb f32[12]\nconst rows i64[2] = -1 12\np = "
		      "MatMul(x, a)\nq = Add(b, p)\nconst flat i64[2] = -1 8\nr = Reshape(q, flat)\n"
		      "s = Gemm(r, c, cb) transB=1 alpha=0.5 beta=2.0\noutput s\n",
		"linear", 1e-5);
	assert_left("Linear", 2, 3); /* besides: two reshapes and the scaled activation */
}

static void test_matrix_from_left(void **state)
{
	(void)state;
	assert_kept("input x f32[B,16,S]\nconst w f32[8,16]\ny = MatMul(w, x)\noutput y\n", "linear", 1e-5);
	assert_left("Linear", 1, 2);
}

static void test_einsum(void **state)
{
	(void)state;
	static const char *const equations[] = {"bsi,ihd->bshd", "bsi,hdi->hbsd", "ihd,bsi->bdsh", "bsi,ijk->jbks"};
	for (size_t i = 0; i < QN_LEN(equations); i++) {
		afresh();
		const char *w = i == 1 ? "2,4,16" : "16,2,4";
		bool first = equations[i][0] == 'i';
		assert_kept(qn_arena_printf(&arena, "%sconst w f32[%s]\ny = Einsum(%s) equation=%s\noutput y\n", X, w,
				    first ? "w, x" : "x, w", equations[i]),
			"linear", 1e-5);
		assert_int_equal(text_count("Linear"), 1);
		assert_int_equal(text_count("Einsum"), 0);
	}
	afresh(); /* heads apart: no plain matrix */
	assert_kept("input x f32[B,S,2,8]\nconst w f32[2,8,4]\ny = Einsum(x, w) equation=bshd,hde->bshe\noutput y\n", "linear", 1e-5);
	assert_int_equal(text_count("Linear"), 0);
}

static void test_convolution_of_one_position(void **state)
{
	(void)state;
	assert_kept("input x f32[B,16,S]\nconst w f32[8,16,1]\nconst b f32[8]\nconst v f32[8,8,1,1]\nconst to i64[4] = 0 8 1 -1\ny = "
		    "Conv(x, w, b)\nz = Reshape(y, to)\nu = Conv(z, v)\n"
		    "const deep f32[8,1,1,1]\nt = Conv(u, deep) group=8\noutput t\n",
		"linear", 1e-5);
	assert_int_equal(text_count("Linear"), 2);
	assert_int_equal(text_count("Conv"), 1); /* each channel alone: no matrix */
}

static void test_stack_of_matrices(void **state)
{
	(void)state;
	assert_kept("input x f32[3,S,16]\nconst w f32[3,16,8]\nconst v f32[3,8,4]\ny = MatMul(x, w)\nz = MatMul(y, v)\noutput z\n",
		"linear", 1e-5);
	assert_int_equal(text_count("Linear"), 6);
	assert_int_equal(text_count("MatMul"), 0);
}

/* rows chosen by a mask, worked on, and added back: the list's length is gone, the numbers are the same */
static void test_dense_expert(void **state)
{
	(void)state;
	assert_kept("input x f32[T,16]\ninput m i64[2,T]\ninput g f32[T,2]\nconst up f32[16,8]\nconst down f32[8,16]\nconst zero i64[1] = "
		    "0\nconst parts i64[2] = 1 1\nconst one i64[1] = 1\n"
		    "nz = NonZero(m)\ni = Transpose(nz) perm=1,0\nk, t = Split(i, parts) axis=1\nts = Squeeze(t, one)\nrows = Gather(x, "
		    "ts) axis=0\nh = MatMul(rows, up)\nr = Relu(h)\nd = MatMul(r, down)\n"
		    "both = Concat(t, k) axis=1\nw = GatherND(g, both)\nwu = Unsqueeze(w, one)\nu = Mul(d, wu)\nsum = ScatterND(x, t, u) "
		    "reduction=add\noutput sum\n",
		"linear", 1e-5);
	assert_int_equal(text_count("NonZero"), 0);
	assert_int_equal(text_count("GatherND") + text_count("ScatterND"), 0);
	for (const qn_node *n = graph->first; n; n = n->next)
		if (!strcmp(n->op->name, "Linear")) /* each row once, whatever the mask has besides */
			assert_string_equal(qn_dim_text(&arena, n->out[0]->fact.shape.dim[0], NULL, NULL), "T");
}

/* a row of the mask may choose nothing, and what is put rather than added leaves the rest as it is */
static void test_dense_assignment(void **state)
{
	(void)state;
	assert_kept("input x f32[B,S,16]\ninput m i64[B,S]\nconst w f32[16,16]\nnz = NonZero(m)\ni = Transpose(nz) perm=1,0\nrows = "
		    "GatherND(x, i)\nd = MatMul(rows, w)\n"
		    "y = ScatterND(x, i, d)\noutput y\n",
		"linear", 1e-5);
	assert_int_equal(text_count("NonZero") + text_count("ScatterND"), 0);
}

/* a list that is returned, or worked on as such, stays */
static void test_list_that_stays(void **state)
{
	(void)state;
	text_graph("input x f32[T,4]\ninput m i64[T]\nconst zero i64[1] = 0\nnz = NonZero(m)\ni = Transpose(nz) perm=1,0\nrows = "
		   "GatherND(x, i)\ns = ReduceSum(rows, zero) keepdims=0\noutput s\n");
	passes_up_to(NULL, "dense");
	assert_int_equal(text_count("NonZero"), 1);
}

static void test_sequences(void **state)
{
	(void)state;
	assert_kept("input x f32[B,10]\nconst size i64[] = 4\nconst i0 i64[] = 0\nconst i1 i64[] = -1\ns = SplitToSequence(x, size) "
		    "axis=-1\na = SequenceAt(s, i0)\nb = SequenceAt(s, i1)\n"
		    "c = ConcatFromSequence(s) axis=1\ny = Concat(a, b, c) axis=1\noutput y\n",
		"canonicalize", 0);
	assert_int_equal(text_count("Split"), 1);
	assert_int_equal(text_count("SequenceConstruct"), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, op_setup, op_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {CASE(test_gelu), CASE(test_gelu_by_tanh), CASE(test_swish), CASE(test_norms),
		CASE(test_what_is_no_form), CASE(test_merge), CASE(test_halves), CASE(test_linear_forms), CASE(test_matrix_from_left),
		CASE(test_einsum), CASE(test_convolution_of_one_position), CASE(test_stack_of_matrices), CASE(test_dense_expert),
		CASE(test_dense_assignment), CASE(test_list_that_stays), CASE(test_sequences)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
