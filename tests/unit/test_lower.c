/* test_lower.c - fused operators become primitive ones: what is left of a graph after the shapes walk, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "passes/passes.h"

static qn_ctx ctx;
static qn_arena arena;
static qn_graph *g;

static void *heap(void *user, void *ptr, size_t old_size, size_t new_size)
{
	(void)user;
	(void)old_size;
	if (new_size)
		return realloc(ptr, new_size);
	free(ptr);
	return NULL;
}

static int setup(void **state)
{
	(void)state;
	ctx = (qn_ctx){.alloc = heap};
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

/* An input whose dims are given as texts: numbers or symbols. */
static qn_value *input(const char *name, qn_dtype type, int rank, const char *const *dims)
{
	qn_value *v = qn_graph_value(g, name);
	v->is_input = true;
	v->fact = (qn_fact){.type = type, .shape = {.rank = rank}};
	for (int i = 0; i < rank; i++) {
		char *end;
		long k = strtol(dims[i], &end, 10);
		v->fact.shape.dim[i] = *end ? qn_dim_symbol(g->dims, dims[i]) : qn_dim_const(k);
	}
	qn_value **inputs = QN_NEW(&arena, qn_value *, g->n_inputs + 1);
	if (g->n_inputs)
		memcpy(inputs, g->inputs, (size_t)g->n_inputs * sizeof(*inputs));
	inputs[g->n_inputs++] = v;
	g->inputs = inputs;
	return v;
}

#define INPUT(name, type, ...) input(name, type, (int)QN_LEN(((const char *const[]){__VA_ARGS__})), (const char *const[]){__VA_ARGS__})

static qn_value *zeros(const char *name, qn_dtype type, int rank, int64_t d0, int64_t d1, int64_t d2)
{
	const int64_t dim[] = {d0, d1, d2};
	return qn_graph_const(g, name, qn_tensor_new(&arena, type, rank, dim));
}

/* The node under test with its first `n_out` outputs as graph outputs. */
static qn_node *node(const char *domain, const char *op, qn_value *const *in, int n_in, int n_out)
{
	qn_node *n = qn_graph_node(g, NULL, qn_op_find(domain, op), "fused", in, n_in, n_out);
	g->outputs = QN_NEW(&arena, qn_value *, n_out);
	g->output_names = QN_NEW(&arena, const char *, n_out);
	g->n_outputs = n_out;
	for (int i = 0; i < n_out; i++) {
		g->outputs[i] = n->out[i];
		g->output_names[i] = n->out[i]->name;
		n->out[i]->is_output = true;
	}
	return n;
}

static int count(const char *op)
{
	int k = 0;
	for (const qn_node *n = g->first; n; n = n->next)
		k += strcmp(n->op->name, op) == 0;
	return k;
}

static qn_status walk(void)
{
	qn_pass_env env = {.ctx = &ctx, .scratch = &arena};
	QN_TRY(qn_pass_shapes(g, &env));
	return qn_graph_check(g);
}

static void assert_lowered(void)
{
	if (walk() != QUERN_OK)
		fail_msg("%s", ctx.message);
	for (const qn_node *n = g->first; n; n = n->next)
		if (n->op->lower)
			fail_msg("'%s' (%s) is left", n->name, n->op->name);
}

static void assert_refused(qn_status status, const char *const *words, size_t n)
{
	assert_int_equal(walk(), status);
	for (size_t i = 0; i < n; i++)
		if (!strstr(ctx.message, words[i]))
			fail_msg("no '%s' in: %s", words[i], ctx.message);
}
#define ASSERT_REFUSED(status, ...) assert_refused(status, (const char *const[]){__VA_ARGS__}, QN_LEN(((const char *const[]){__VA_ARGS__})))

static void assert_shape(int output, const char *text)
{
	assert_string_equal(qn_shape_text(&arena, &g->outputs[output]->fact.shape), text);
}

static void test_attention(void **state)
{
	(void)state;
	qn_value *in[] = {INPUT("q", QN_F32, "B", "S", "72"), INPUT("k", QN_F32, "B", "T", "24"), INPUT("v", QN_F32, "B", "T", "30"), NULL,
		INPUT("pk", QN_F32, "B", "3", "P", "8"), INPUT("pv", QN_F32, "B", "3", "P", "10")};
	qn_node *n = node("", "Attention", in, 6, 3);
	qn_node_set_int(g, n, "q_num_heads", 9);
	qn_node_set_int(g, n, "kv_num_heads", 3);
	qn_node_set_int(g, n, "is_causal", 1);
	assert_lowered();
	assert_int_equal(count("MatMul"), 2);
	assert_int_equal(count("Softmax"), 1);
	assert_int_equal(count("Trilu"), 1);
	assert_shape(0, "[B, S, 90]");
	assert_shape(1, "[B, 3, T + P, 8]");
	assert_shape(2, "[B, 3, T + P, 10]");
}

static void test_plain_attention_is_the_usual_form(void **state)
{
	(void)state;
	qn_value *in[] = {
		INPUT("q", QN_F32, "B", "4", "S", "8"), INPUT("k", QN_F32, "B", "4", "S", "8"), INPUT("v", QN_F32, "B", "4", "S", "8")};
	node("", "Attention", in, 3, 1);
	assert_lowered();
	static const char *const order[] = {"Transpose", "MatMul", "Mul", "Softmax", "MatMul"};
	const qn_node *n = g->first;
	for (size_t i = 0; i < QN_LEN(order); i++, n = n->next)
		assert_string_equal(n->op->name, order[i]);
	assert_null(n);
}

static void test_attention_misfits(void **state)
{
	(void)state;
	qn_value *in[] = {INPUT("q", QN_F32, "B", "S", "70"), INPUT("k", QN_F32, "B", "T", "24"), INPUT("v", QN_F32, "B", "T", "24")};
	qn_node *n = node("", "Attention", in, 3, 1);
	qn_node_set_int(g, n, "q_num_heads", 9);
	qn_node_set_int(g, n, "kv_num_heads", 3);
	ASSERT_REFUSED(QUERN_ERR_SHAPE, "'fused' (Attention)", "q_num_heads = 9", "70");
}

static void test_packed_weight(void **state)
{
	(void)state;
	qn_value *in[] = {INPUT("x", QN_F32, "B", "S", "32"), zeros("w", QN_F32, 2, 32, 96, 0), zeros("b", QN_F32, 1, 96, 0, 0),
		INPUT("mask", QN_I32, "B", "S")};
	qn_node_set_int(g, node("com.microsoft", "Attention", in, 4, 1), "num_heads", 4);
	assert_lowered();
	assert_int_equal(count("MatMul"), 3);
	assert_int_equal(count("Split"), 1);
	assert_string_equal(g->first->op->name, "MatMul");
	assert_string_equal(g->first->in[1]->name, "w");
	assert_shape(0, "[B, S, 32]");
}

static void test_every_crossed_limit_is_listed(void **state)
{
	(void)state;
	qn_value *scale = zeros("scale", QN_F32, 1, 1, 0, 0);
	qn_value *in[14] = {INPUT("q", QN_F32, "B", "S", "64"), INPUT("k", QN_F32, "B", "S", "16"), INPUT("v", QN_F32, "B", "S", "16"),
		INPUT("pk", QN_F32, "B", "1", "P", "16"), INPUT("pv", QN_F32, "B", "1", "P", "16"), INPUT("lengths", QN_I32, "B"),
		INPUT("total", QN_I32, "1")};
	in[12] = in[13] = scale;
	qn_node *n = node("com.microsoft", "GroupQueryAttention", in, 14, 4);
	qn_node_set_int(g, n, "num_heads", 4);
	qn_node_set_int(g, n, "kv_num_heads", 1);
	qn_node_set_int(g, n, "sliding_window_cache", 1);
	qn_node_set_int(g, n, "kv_cache_bit_width", 8);
	qn_node_set_string(g, n, "k_quant_type", "PER_TENSOR");
	ASSERT_REFUSED(QUERN_ERR_UNSUPPORTED, "'sliding_window_cache' = 1", "'kv_cache_bit_width' = 8", "'k_quant_type' = 'PER_TENSOR'",
		"input 'k_scale'", "input 'v_scale'", "output 'output_qk'");
}

static void test_grouped_heads(void **state)
{
	(void)state;
	qn_value *in[9] = {INPUT("q", QN_F32, "B", "S", "64"), INPUT("k", QN_F32, "B", "S", "16"), INPUT("v", QN_F32, "B", "S", "16"),
		INPUT("pk", QN_F32, "B", "1", "P", "16"), INPUT("pv", QN_F32, "B", "1", "P", "16"), INPUT("lengths", QN_I32, "B"),
		INPUT("total", QN_I32, "1"), zeros("cos", QN_F32, 2, 32, 8, 0), zeros("sin", QN_F32, 2, 32, 8, 0)};
	qn_node *n = node("com.microsoft", "GroupQueryAttention", in, 9, 3);
	qn_node_set_int(g, n, "num_heads", 4);
	qn_node_set_int(g, n, "kv_num_heads", 1);
	qn_node_set_int(g, n, "do_rotary", 1);
	qn_node_set_int(g, n, "local_window_size", 5);
	assert_lowered();
	assert_int_equal(count("Trilu"), 2);
	assert_shape(0, "[B, S, 64]");
	assert_shape(1, "[B, 1, S + P, 16]");
}

static void test_domains_are_kept_apart(void **state)
{
	(void)state;
	assert_ptr_not_equal(qn_op_find("", "RotaryEmbedding"), qn_op_find("com.microsoft", "RotaryEmbedding"));
	assert_ptr_not_equal(qn_op_find("", "Attention"), qn_op_find("com.microsoft", "Attention"));
}

static void test_weight_of_few_bits(void **state)
{
	(void)state;
	/* N = 2, K = 40, blocks of 32: 2 blocks of 16 bytes a row, the last 24 numbers being padding */
	qn_value *w = zeros("w", QN_U8, 3, 2, 2, 16), *scales = zeros("scales", QN_F32, 2, 2, 2, 0);
	memset((void *)(uintptr_t)w->fact.value->data, 0xa9, 64);
	float *s = (float *)(uintptr_t)scales->fact.value->data;
	s[0] = 1, s[1] = 2, s[2] = 3, s[3] = 4;
	qn_value *in[] = {INPUT("x", QN_F32, "B", "40"), w, scales};
	qn_node *n = node("com.microsoft", "MatMulNBits", in, 3, 1);
	qn_node_set_int(g, n, "N", 2);
	qn_node_set_int(g, n, "K", 40);
	qn_node_set_int(g, n, "block_size", 32);
	assert_lowered();
	assert_shape(0, "[B, 2]");
	const qn_tensor *t;
	assert_string_equal(g->last->op->name, "MatMul");
	assert_int_equal(qn_graph_load(g, g->last->in[1], &arena, &t), QUERN_OK);
	assert_int_equal(t->dim[0], 40);
	assert_int_equal(t->dim[1], 2);
	const float *f = t->data;
	assert_true(f[0] == 1 && f[2] == 2 && f[1] == 3); /* nibbles 9 and 10 around the zero point 8 */
	assert_true(f[39 * 2] == 4 && f[39 * 2 + 1] == 8);
}

static void test_absurd_attributes(void **state)
{
	(void)state;
	qn_value *in[] = {INPUT("q", QN_F32, "B", "S", "64"), INPUT("k", QN_F32, "B", "S", "16"), INPUT("v", QN_F32, "B", "S", "16")};
	qn_node *n = node("com.microsoft", "GroupQueryAttention", in, 3, 1);
	qn_node_set_int(g, n, "num_heads", INT64_MAX);
	qn_node_set_int(g, n, "kv_num_heads", INT64_MAX);
	ASSERT_REFUSED(QUERN_ERR_FORMAT, "'fused' (GroupQueryAttention)", "'num_heads' is 9223372036854775807");
	qn_node_set_int(g, n, "num_heads", 4);
	qn_node_set_int(g, n, "kv_num_heads", 1);
	qn_node_set_int(g, n, "local_window_size", INT64_MAX);
	ASSERT_REFUSED(QUERN_ERR_FORMAT, "'local_window_size' is 9223372036854775807");
}

static void test_missing_operand(void **state)
{
	(void)state;
	qn_value *in[] = {INPUT("x", QN_F32, "B", "S", "8"), NULL, NULL};
	node("com.microsoft", "BiasAdd", in, 3, 1);
	ASSERT_REFUSED(QUERN_ERR_FORMAT, "'fused' (BiasAdd)", "input 1 is missing");
}

static void test_already_quantized(void **state)
{
	(void)state;
	qn_value *in[] = {INPUT("a", QN_U8, "2", "4")};
	node("com.microsoft", "QLinearSigmoid", in, 1, 1)->op_type = "QLinearSigmoid";
	ASSERT_REFUSED(QUERN_ERR_UNSUPPORTED, "'fused' (QLinearSigmoid)", "already quantized", "export the float model");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {CASE(test_attention), CASE(test_plain_attention_is_the_usual_form), CASE(test_attention_misfits),
		CASE(test_packed_weight), CASE(test_every_crossed_limit_is_listed), CASE(test_grouped_heads),
		CASE(test_domains_are_kept_apart), CASE(test_weight_of_few_bits), CASE(test_absurd_attributes), CASE(test_missing_operand),
		CASE(test_already_quantized)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
