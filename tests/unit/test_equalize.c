/* test_equalize.c - factors between channels and weights: where they are found, where they are refused, and that results stay what they
 * were. */
#include "tests/unit/pass_fixture.h"

#include "passes/allocation.h"

#include <math.h>

static void load(const char *text, const char *bits)
{
	pass_graph(text);
	quern_config_equalize(config, true);
	assert_int_equal(quern_config_layer(config, bits), QUERN_OK);
	passes(NULL, "widths");
	for (size_t i = 0; i < plan.n; i++) /* what a small graph ends with counts as its head */
		plan.layers[i].role = plan.layers[i].role == QN_ROLE_HEAD ? QN_ROLE_FFN : plan.layers[i].role;
}

static const qn_tensor *drawn(int64_t rows, int64_t width) { return drawn_rows(rows, width, 5.0f); }

static void assert_near(const qn_tensor *a, const qn_tensor *b) { assert_true(distance(a, b) < 1e-6); }

/* A constant whose rows differ in size, so that factors are worth it. */
static void spread_rows(const char *name)
{
	qn_value *v = qn_graph_find_value(graph, name);
	qn_tensor *t = (qn_tensor *)(uintptr_t)v->fact.value;
	int64_t width = t->dim[t->rank - 1];
	for (int64_t i = 0; i < qn_tensor_count(t); i++)
		((float *)op_data(t))[i] *= (i / width) % 5 == 2 ? 8.0f : 1.0f;
}

static size_t folded(void)
{
	size_t n = 0;
	for (size_t i = 0; i < plan.n_equalizations; i++)
		n += !plan.equalizations[i].why;
	return n;
}

static const char *why(const char *tensor)
{
	for (size_t i = 0; i < plan.n_equalizations; i++)
		if (!strcmp(plan.equalizations[i].tensor, tensor))
			return plan.equalizations[i].why ? plan.equalizations[i].why : "folded";
	return "not looked at";
}

static int activation_nodes(void)
{
	int n = 0;
	for (const qn_node *node = graph->first; node; node = node->next)
		n += !node->out[0]->is_const;
	return n;
}

/* Runs the pass with and without samples: nothing is added to the graph, and it computes the same. */
static void equalize(const char *text, const char *spread, size_t expected)
{
	for (int with_samples = 0; with_samples < 2; with_samples++) {
		pass_teardown(NULL);
		pass_setup(NULL);
		load(text, "*=4");
		if (spread)
			spread_rows(spread);
		const qn_tensor *x = drawn(9, 64), *before = run_on(x);
		if (with_samples) {
			const qn_tensor *in[] = {drawn(12, 64)};
			assert_int_equal(qn_samples_add(env.samples, in), QUERN_OK);
		}
		int nodes = activation_nodes();
		passes("equalize", "equalize");
		assert_int_equal(folded(), expected);
		assert_int_equal(activation_nodes(), nodes);
		const qn_tensor *after = run_on(x);
		for (int i = 0; i < graph->n_outputs; i++)
			assert_near(&before[i], &after[i]);
	}
}

/* --- what takes factors -------------------------------------------------------------------------------------------------- */
static const char NORM[] = "input x f32[B,S,64]\n const g f32[64]\n const b f32[64]\n const q f32[64,32]\n const k f32[64,48]\n"
			   "n = LayerNormalization(x, g, b) axis=-1\n y = MatMul(n, q)\n z = MatMul(n, k)\n output y\n output z\n";
/* The layer reads the rows of all sequences as one matrix. */
static const char FLAT[] = "input x f32[B,S,64]\n const g f32[64]\n const b f32[64]\n const q f32[64,32]\n const rows i64[2] = -1 64\n"
			   "n = LayerNormalization(x, g, b) axis=-1\n m = Reshape(n, rows)\n y = MatMul(m, q)\n output y\n";
static const char SECOND_READER[] = "input x f32[B,S,64]\n const g f32[64]\n const q f32[64,64]\n n = RMSNormalization(x, g) axis=-1\n"
				    "y = MatMul(n, q)\n z = Add(y, n)\n output z\n";
static const char GATED[] =
	"input x f32[B,S,64]\n const a f32[64,96]\n const b f32[64,96]\n const c f32[96,64]\n"
	"g = MatMul(x, a)\n u = MatMul(x, b)\n s = Sigmoid(g)\n t = Mul(g, s)\n h = Mul(t, u)\n y = MatMul(h, c)\n output y\n";
static const char RELU[] =
	"input x f32[B,S,64]\n const a f32[64,96]\n const e f32[96]\n const c f32[96,64]\n h = MatMul(x, a)\n i = Add(h, e)\n"
	"j = Relu(i)\n y = MatMul(j, c)\n output y\n";
/* The layers a and b read a tensor with factors, b makes another one. */
static const char CHAIN[] = "input x f32[B,S,64]\n const w f32[64]\n const a f32[64,96]\n const b f32[64,96]\n const c f32[96,64]\n"
			    "n = RMSNormalization(x, w) axis=-1\n g = MatMul(n, a)\n u = MatMul(n, b)\n s = Sigmoid(g)\n h = Mul(s, u)\n y "
			    "= MatMul(h, c)\n output y\n";
static const char GELU[] =
	"input x f32[B,S,64]\n const a f32[64,96]\n const c f32[96,64]\n h = MatMul(x, a)\n j = Gelu(h)\n y = MatMul(j, c)\n output y\n";

static void into_norms(void **state)
{
	(void)state;
	equalize(NORM, "q", 1);
	assert_non_null(layer("q")->equalized);
	assert_ptr_equal(layer("q")->equalized, layer("k")->equalized);
}

static void norms_behind_a_view(void **state)
{
	(void)state;
	equalize(FLAT, "q", 1);
	assert_non_null(layer("q")->equalized);
}

static void a_second_reader_of_the_norm(void **state)
{
	(void)state;
	equalize(SECOND_READER, "q", 0);
	assert_non_null(strstr(why("n"), "(Add) reads it too"));
	assert_null(layer("q")->equalized);
}

static void hidden_channels(void **state)
{
	(void)state;
	equalize(GATED, "c", 1);
	assert_non_null(layer("b")->divided);
	assert_null(layer("a")->divided);
	equalize(RELU, "c", 1);
	assert_non_null(layer("a")->divided);
	equalize(GELU, "c", 0);
	assert_non_null(strstr(why("h"), "(Gelu) is not linear in it"));
}

static void layers_between_two(void **state)
{
	(void)state;
	load(CHAIN, "*=4");
	spread_rows("a");
	spread_rows("c");
	const qn_tensor *x = drawn(9, 64), *before = run_on(x);
	passes("equalize", "equalize");
	assert_int_equal(folded(), 2);
	assert_non_null(layer("b")->equalized);
	assert_non_null(layer("b")->divided);
	const qn_tensor *after = run_on(x);
	assert_near(&before[0], &after[0]);
}

/* --- attention ------------------------------------------------------------------------------------------------------------ */
/* 4 heads of 32; `groups` heads of keys and values, repeated; `more` lines at the end. */
static const char *attention(const char *kv, const char *heads, const char *repeat, const char *more)
{
	static char text[2048]; /* outlives the graphs made of it */
	snprintf(text, sizeof text,
		"input x f32[1,S,64]\n const q f32[64,128]\n const k f32[64,%s]\n const v f32[64,%s]\n const o f32[128,64]\n"
		"const hq i64[4] = 0 0 4 32\n const hv i64[4] = 0 0 %s 32\n const flat i64[3] = 0 0 128\n const at i64[1] = 2\n const more "
		"i64[5] = 1 1 1 %s 1\n"
		"qx = MatMul(x, q)\n kx = MatMul(x, k)\n vx = MatMul(x, v)\n"
		"q4 = Reshape(qx, hq)\n k4 = Reshape(kx, hv)\n v4 = Reshape(vx, hv)\n"
		"qh = Transpose(q4) perm=0,2,1,3\n kh = Transpose(k4) perm=0,2,3,1\n vh = Transpose(v4) perm=0,2,1,3\n"
		"k5 = Unsqueeze(kh, at)\n v5 = Unsqueeze(vh, at)\n const kall i64[4] = 1 4 32 -1\n const vall i64[4] = 1 4 -1 32\n"
		"k6 = Tile(k5, more)\n v6 = Tile(v5, more)\n kr = Reshape(k6, kall)\n vr = Reshape(v6, vall)\n"
		"s = MatMul(qh, kr)\n p = Softmax(s) axis=-1\n c = MatMul(p, vr)\n ct = Transpose(c) perm=0,2,1,3\n m = Reshape(ct, flat)\n"
		"y = MatMul(m, o)\n output y\n%s",
		kv, kv, heads, repeat, more);
	return text;
}

static void values_into_outputs(void **state)
{
	(void)state;
	equalize(attention("128", "4", "1", ""), "o", 1);
	assert_int_equal(layer("v")->role, QN_ROLE_VALUE);
	assert_non_null(layer("v")->divided);
	assert_null(layer("k")->divided);
	assert_non_null(layer("o")->equalized);
}

static void heads_of_a_group_share_factors(void **state)
{
	(void)state;
	equalize(attention("64", "2", "2", ""), "o", 1);
	const float *s = layer("o")->equalized, *t = layer("v")->divided;
	bool differ = false;
	for (int i = 0; i < 128; i++) {
		assert_true(s[i] == t[i / 64 * 32 + i % 32]);
		differ |= s[i] < 0.99f;
	}
	assert_true(differ);
}

static void values_that_are_outputs(void **state)
{
	(void)state;
	equalize(attention("64", "2", "2", "output vh\n"), "o", 0);
	assert_non_null(strstr(why("vx"), "'vh' is an output of the graph"));
}

static void values_beside_others(void **state)
{
	(void)state;
	/* what is joined with the values is not divided with them */
	load("input x f32[1,S,64]\n const v f32[64,64]\n const w f32[64,64]\n const o f32[128,64]\n a = MatMul(x, v)\n b = Sigmoid(x)\n"
	     "c = Concat(a, b) axis=-1\n y = MatMul(c, o)\n output y\n",
		"*=4");
	passes("equalize", "equalize");
	assert_int_equal(folded(), 0);
	assert_non_null(strstr(why("a"), "'c' holds other values beside it"));
}

static const char *stopped_by(const char *lines)
{
	load(qn_arena_printf(&arena,
		     "input x f32[1,S,64]\n const v f32[64,64]\n const o f32[64,64]\n input j i64[2]\n a = MatMul(x, v)\n%sy = MatMul(b, "
		     "o)\n output y\n",
		     lines),
		"*=4");
	passes("equalize", "equalize");
	assert_int_equal(folded(), 0);
	return why("a");
}

/* What is not seen whole is not followed: rows beyond the sizes that stand for symbols, channels that data choose, zeros put in. */
static void moves_that_are_not_known(void **state)
{
	assert_non_null(
		strstr(stopped_by("const from i64[1] = 4\n const to i64[1] = 9999\n const axis i64[1] = 1\n c = Slice(a, from, to, axis)\n"
				  "const all i64[3] = 1 -1 64\n b = Reshape(c, all)\n"),
			"(Slice)"));
	pass_teardown(state);
	pass_setup(state);
	assert_non_null(strstr(stopped_by("c = Gather(a, j) axis=2\n d = Gather(a, j) axis=2\n e = Concat(c, d) axis=2\n const o2 "
					  "f32[4,64]\n z = MatMul(e, o2)\n output z\n b = Relu(a)\n"),
		"(Gather)"));
}

/* --- when it is worth it, when not ------------------------------------------------------------------------------------------- */
static void wide_weights(void **state)
{
	(void)state;
	load(NORM, "*=32");
	passes("equalize", "equalize");
	assert_int_equal(folded(), 0);
	assert_non_null(strstr(why("n"), "weights of up to 8 bits"));
}

static void heads_are_left_alone(void **state)
{
	(void)state;
	load(NORM, "*=4");
	spread_rows("q");
	layer("q")->role = QN_ROLE_HEAD;
	passes("equalize", "equalize");
	assert_int_equal(folded(), 0);
	assert_non_null(strstr(why("n"), "a head's rows"));
}

static void nothing_unless_asked(void **state)
{
	(void)state;
	load(NORM, "*=4");
	quern_config_equalize(config, false);
	passes("equalize", "equalize");
	assert_int_equal(plan.n_equalizations, 0);
}

static void loaded_factors(void **state)
{
	(void)state;
	load(NORM, "*=32");
	quern_config_equalize(config, false);
	float s[64];
	for (int i = 0; i < 64; i++)
		s[i] = i % 3 == 0 ? 3.0f : 0.7f;
	layer("q")->equalized = layer("k")->equalized = s;
	const qn_tensor *x = drawn(9, 64), *before = run_on(x);
	passes("equalize", "equalize");
	assert_int_equal(folded(), 1);
	const qn_tensor *after = run_on(x), *w;
	for (int i = 0; i < graph->n_outputs; i++)
		assert_near(&before[i], &after[i]);
	assert_int_equal(qn_graph_load(graph, layer("q")->node->in[1], &arena, &w), QUERN_OK);
	assert_true(fabs(qn_tensor_get(w, 0) - 3 * qn_tensor_get(qn_graph_find_value(graph, "q")->fact.value, 0)) < 1e-6);
}

static void loaded_factors_of_one_reader_only(void **state)
{
	(void)state;
	load(NORM, "*=4");
	float s[64];
	for (int i = 0; i < 64; i++)
		s[i] = 2;
	layer("q")->equalized = s;
	assert_int_equal(qn_pipeline_run(graph, &env, "equalize", "equalize"), QUERN_ERR_CONFIG);
	assert_non_null(strstr(ctx.message, "'equalized' cannot be folded"));
}

/* Balancing after it divides the same layer's result once more. */
static void balance_comes_on_top(void **state)
{
	(void)state;
	load("input x f32[B,S,64]\n const a f32[64,96]\n const c f32[96,64]\n h = MatMul(x, a)\n y = MatMul(h, c)\n output y\n", "*=8/8");
	spread_rows("c");
	const qn_tensor *in[] = {drawn(40, 64)}, *x = drawn(9, 64), *before = run_on(x);
	assert_int_equal(qn_samples_add(env.samples, in), QUERN_OK);
	passes("equalize", "fold_balance");
	const qn_tensor *after = run_on(x);
	assert_near(&before[0], &after[0]);
	const float *divided = layer("a")->divided;
	assert_non_null(layer("c")->balance);
	assert_non_null(layer("c")->equalized);
	for (int i = 0; i < 96; i++)
		assert_true(fabsf(divided[i] - layer("c")->balance[i] * layer("c")->equalized[i]) < 1e-5f * divided[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(into_norms, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(norms_behind_a_view, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(a_second_reader_of_the_norm, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(hidden_channels, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(layers_between_two, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(values_into_outputs, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(heads_of_a_group_share_factors, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(values_that_are_outputs, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(values_beside_others, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(moves_that_are_not_known, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(wide_weights, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(heads_are_left_alone, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(nothing_unless_asked, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(loaded_factors, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(loaded_factors_of_one_reader_only, pass_setup, pass_teardown),
		cmocka_unit_test_setup_teardown(balance_comes_on_top, pass_setup, pass_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
