/* test_tag.c - roles on small graphs: names play no part, storage and fusion do not matter, what is no layer of a transformer says why. */
#include "tests/unit/graph_text.h"

#include "passes/pipeline.h"
#include "passes/plan.h"

static qn_plan plan;

/* "w:query wk:key ..." in graph order; 'x' behind the role marks cross attention, {..} the parts of a fused weight. */
static const char *roles_of(const char *text)
{
	text_graph(text);
	plan = (qn_plan){.arena = &arena};
	qn_pass_env env = {.ctx = &ctx, .plan = &plan};
	if (qn_pipeline_run(graph, &env, NULL, "tag") != QUERN_OK)
		fail_msg("%s", ctx.message);
	qn_text out = {.arena = &arena};
	for (size_t i = 0; i < plan.n; i++) {
		const qn_layer *l = &plan.layers[i];
		qn_text_add(&out, "%s%s:%s%s", i ? " " : "", l->weight, l->role == QN_ROLE_NONE ? "none" : qn_role_name(l->role),
			l->cross ? "x" : "");
		assert_true((l->role == QN_ROLE_NONE) == (l->why != NULL));
		for (int k = 0; k < l->n_parts; k++) {
			const qn_part *p = &l->parts[k];
			qn_text_add(&out, "%s%s", k ? ";" : "{", qn_role_name(p->role));
			for (int64_t r = 0; r < p->n; r++)
				if (!r || p->rows[r] != p->rows[r - 1] + 1 || r + 1 == p->n || p->rows[r + 1] != p->rows[r] + 1)
					qn_text_add(&out, ",%lld", (long long)p->rows[r]);
		}
		qn_text_add(&out, "%s", l->n_parts ? "}" : "");
	}
	return out.s;
}

#define ROLES(text, expected) assert_string_equal(roles_of(text), expected)

/* 4 heads of 8; q, k, v are [B, S, 32] */
#define SIZES "const heads i64[4] = 0 0 4 8\nconst flat i64[3] = 0 0 32\n"
#define HEADS(x) x "r = Reshape(" x ", heads)\n"
#define CORE                                                                                                                               \
	"qt = Transpose(qr) perm=0,2,1,3\nkt = Transpose(kr) perm=0,2,3,1\nvt = Transpose(vr) perm=0,2,1,3\ns = MatMul(qt, kt)\n"          \
	"p = Softmax(s) axis=-1\nc = MatMul(p, vt)\nct = Transpose(c) perm=0,2,1,3\ncm = Reshape(ct, flat)\n"
#define W(name) "const " name " f32[32,32]\n"
#define OUT W("wo") "o = MatMul(cm, wo)\ny = Add(o, x)\n"
#define X "input x f32[B,S,32]\n"
#define GAIN "const gain f32[32]\n"

static void test_block(void **state)
{
	(void)state;
	ROLES("input ids i64[B,S]\nconst table f32[50,32]\nconst wh f32[32,50]\nx = Gather(table, ids)\n" SIZES GAIN W("wq") W("wk")
			W("wv") "n = LayerNormalization(x, gain)\nq = MatMul(n, wq)\nk = MatMul(n, wk)\nv = MatMul(n, wv)\n" HEADS("q")
				HEADS("k") HEADS("v") CORE OUT "const up f32[32,64]\nconst down f32[64,32]\nm = LayerNormalization(y, "
							       "gain)\nh = MatMul(m, up)\nr = Relu(h)\nd = MatMul(r, down)\nz = Add(y, d)\n"
							       "logits = MatMul(z, wh)\noutput logits\n",
		"table:embedding wq:query wk:key wv:value wo:output up:ffn down:ffn wh:head");
	assert_int_equal(plan.layers[0].block, -1);
	assert_int_equal(plan.layers[5].block, 0);
	assert_int_equal(plan.n_attentions, 1);
	assert_int_equal(plan.attentions[0].heads, 4);
}

static void test_transposed_storage(void **state)
{
	(void)state;
	ROLES(X SIZES W("wq") W("wk") W("wv") "wqt = Transpose(wq) perm=1,0\nwkt = Transpose(wk) perm=1,0\nwki = Identity(wkt)\n"
					      "q = MatMul(x, wqt)\nk = MatMul(x, wki)\nv = MatMul(x, wv)\n" HEADS("q") HEADS("k") HEADS("v")
						      CORE OUT "output y\n",
		"wq:query wk:key wv:value wo:output");
}

/* 4 query heads, 1 key and value head: 32 + 8 + 8 channels by Split */
static void test_fused_uneven(void **state)
{
	(void)state;
	ROLES(X SIZES "const w f32[32,48]\nconst parts i64[3] = 32 8 8\nconst one i64[4] = 0 0 1 8\nf = MatMul(x, w)\nq, k, v = Split(f, "
		      "parts) axis=-1\n" HEADS("q") "kr = Reshape(k, one)\nvr = Reshape(v, one)\n" CORE OUT "output y\n",
		"w:qkv{query,0,31;key,32,39;value,40,47} wo:output");
}

/* [heads, 3, 8]: each head's query, key and value side by side, taken by index */
static void test_fused_interleaved(void **state)
{
	(void)state;
	ROLES(X SIZES "const w f32[32,96]\nconst apart i64[5] = 0 0 4 3 8\nconst i0 i64[] = 0\nconst i1 i64[] = 1\nconst i2 i64[] = "
		      "2\nconst b f32[1,1,4,8]\n"
		      "f = MatMul(x, w)\na = Reshape(f, apart)\nq0 = Gather(a, i0) axis=3\nqr = Add(q0, b)\nkr = Gather(a, i1) axis=3\nvr "
		      "= Gather(a, i2) axis=3\n" CORE OUT "output y\n",
		"w:qkv{query,0,7,24,31,48,55,72,79;key,8,15,32,39,56,63,80,87;value,16,23,40,47,64,71,88,95} b:none wo:output");
}

/* one initializer for three layers, cut by the graph */
static void test_sliced_initializer(void **state)
{
	(void)state;
	ROLES(X SIZES "const w f32[32,96]\nconst parts i64[3] = 32 32 32\nwq, wk, wv = Split(w, parts) axis=1\n"
		      "q = MatMul(x, wq)\nk = MatMul(x, wk)\nv = MatMul(x, wv)\n" HEADS("q") HEADS("k") HEADS("v") CORE OUT "output y\n",
		"w:query w:key w:value wo:output");
}

static void test_cross_attention(void **state)
{
	(void)state;
	ROLES(X "input memory f32[B,T,32]\n" SIZES W("wq") W("wk")
			W("wv") "q = MatMul(x, wq)\nk = MatMul(memory, wk)\nv = MatMul(memory, wv)\n" HEADS("q") HEADS("k") HEADS("v")
				CORE OUT "output y\n",
		"wq:queryx wk:keyx wv:valuex wo:outputx");
}

/* two norms of one stream that an exporter wrote twice are one source */
static void test_repeated_norm_is_no_cross(void **state)
{
	(void)state;
	ROLES(X SIZES GAIN W("wq") W("wk") W("wv") "n1 = LayerNormalization(x, gain)\nn2 = LayerNormalization(x, gain)\n"
						   "q = MatMul(n1, wq)\nk = MatMul(n2, wk)\nv = MatMul(n2, wv)\n" HEADS("q") HEADS("k")
							   HEADS("v") CORE OUT "output y\n",
		"wq:query wk:key wv:value wo:output");
}

static void test_scores_transposed(void **state)
{
	(void)state;
	ROLES(X SIZES W("wq") W("wk") W("wv") "q = MatMul(x, wq)\nk = MatMul(x, wk)\nv = MatMul(x, wv)\n" HEADS("q") HEADS("k")
			HEADS("v") "qt = Transpose(qr) perm=0,2,3,1\nkt = Transpose(kr) perm=0,2,1,3\nvt = Transpose(vr) perm=0,2,1,3\nst "
				   "= MatMul(kt, qt)\n"
				   "s = Transpose(st) perm=0,1,3,2\np = Softmax(s) axis=-1\nc = MatMul(p, vt)\nct = Transpose(c) "
				   "perm=0,2,1,3\ncm = Reshape(ct, flat)\n" OUT "output y\n",
		"wq:query wk:key wv:value wo:output");
}

static void test_learned_query(void **state)
{
	(void)state;
	ROLES(X SIZES W("wk") W("wv") "const qt f32[1,4,3,8]\nconst merged i64[3] = 0 3 32\nk = MatMul(x, wk)\nv = MatMul(x, wv)\n" HEADS(
		      "k") HEADS("v") "kt = Transpose(kr) perm=0,2,3,1\nvt = Transpose(vr) perm=0,2,1,3\ns = MatMul(qt, kt)\np = "
				      "Softmax(s) axis=-1\nc = MatMul(p, vt)\n"
				      "ct = Transpose(c) perm=0,2,1,3\ncm = Reshape(ct, merged)\n" W("wo") "o = MatMul(cm, wo)\noutput o\n",
		"wk:key wv:value qt:none wo:output");
}

/* queries through a bottleneck with a norm in it */
static void test_low_rank(void **state)
{
	(void)state;
	ROLES(X SIZES "const wa f32[32,16]\nconst wb f32[16,32]\nconst small f32[16]\n" W("wk")
			W("wv") "a = MatMul(x, wa)\nan = RMSNormalization(a, small)\nq = MatMul(an, wb)\nk = MatMul(x, wk)\nv = MatMul(x, "
				"wv)\n" HEADS("q") HEADS("k") HEADS("v") CORE OUT "output y\n",
		"wa:query wb:query wk:key wv:value wo:output");
}

static void test_attention_without_softmax(void **state)
{
	(void)state;
	ROLES(X SIZES W("wq") W("wk") W("wv") "q0 = MatMul(x, wq)\nk0 = MatMul(x, wk)\nv = MatMul(x, wv)\nq = Elu(q0)\nk = Elu(k0)\n" HEADS(
		      "q") HEADS("k") HEADS("v") "qt = Transpose(qr) perm=0,2,1,3\nkt = Transpose(kr) perm=0,2,3,1\nvt = Transpose(vr) "
						 "perm=0,2,1,3\nkv = MatMul(kt, vt)\nc = MatMul(qt, kv)\n"
						 "ct = Transpose(c) perm=0,2,1,3\ncm = Reshape(ct, flat)\n" OUT "output y\n",
		"wq:query wk:key wv:value wo:output");
}

static void test_rotary_and_masks(void **state)
{
	(void)state;
	roles_of(X "input mask f32[B,1,1,S]\n" SIZES W("wq") W("wk")
			W("wv") "const cos f32[4,8]\nconst sin f32[4,8]\nconst halves i64[2] = 4 4\n"
				"q = MatMul(x, wq)\nk = MatMul(x, wk)\nv = MatMul(x, wv)\n" HEADS("q") HEADS("k")
					HEADS("v") "q1, q2 = Split(qr, halves) axis=-1\nqn = Neg(q2)\nqh = Concat(qn, q1) axis=-1\nqc = "
						   "Mul(qr, cos)\nqs = Mul(qh, sin)\nqp = Add(qc, qs)\n"
						   "qt = Transpose(qp) perm=0,2,1,3\nkt = Transpose(kr) perm=0,2,3,1\nvt = Transpose(vr) "
						   "perm=0,2,1,3\ns = MatMul(qt, kt)\nsm = Add(s, mask)\n"
						   "p = Softmax(sm) axis=-1\nc = MatMul(p, vt)\nct = Transpose(c) perm=0,2,1,3\ncm = "
						   "Reshape(ct, flat)\n" OUT "output y\n");
	assert_int_equal(plan.n_attentions, 1);
	const qn_attention *a = &plan.attentions[0];
	assert_true(a->rotary && a->mask_added && !a->mask_where && !a->position_bias);
}

static void test_gated_ffn(void **state)
{
	(void)state;
	ROLES(X GAIN "const gate f32[32,64]\nconst up f32[32,64]\nconst down f32[64,32]\nn = RMSNormalization(x, gain)\ng = MatMul(n, "
		     "gate)\nsg = Sigmoid(g)\n"
		     "a = Mul(g, sg)\nu = MatMul(n, up)\nh = Mul(a, u)\nd = MatMul(h, down)\ny = Add(x, d)\noutput y\n",
		"gate:ffn up:ffn down:ffn");
}

/* a router chooses, so it is no ffn; a stack of expert matrices is a layer for each */
static void test_experts(void **state)
{
	(void)state;
	ROLES("input x f32[T,32]\n" GAIN
	      "const router f32[32,2]\nconst up f32[2,32,64]\nconst down f32[2,64,32]\nconst one i64[1] = 1\nconst first i64[1] = 0\n"
	      "n = RMSNormalization(x, gain)\nr = MatMul(n, router)\nvalue, index = TopK(r, one) axis=-1\nzero = Mul(r, r)\nchosen = "
	      "ScatterElements(zero, index, value) axis=1\n"
	      "rows = Unsqueeze(n, first)\nh = MatMul(rows, up)\na = Relu(h)\nd = MatMul(a, down)\nct = Transpose(chosen) perm=1,0\nconst "
	      "last i64[1] = 2\n"
	      "cu = Unsqueeze(ct, last)\nm = Mul(d, cu)\nsum = ReduceSum(m, first) keepdims=0\ny = Add(x, sum)\noutput y\n",
		"router:none up:ffn up:ffn down:ffn down:ffn");
}

/* x + attention + ffn in one sum, the ffn added last */
static void test_parallel_branches(void **state)
{
	(void)state;
	ROLES(X SIZES GAIN W("wq") W("wk")
			W("wv") "n = LayerNormalization(x, gain)\nq = MatMul(n, wq)\nk = MatMul(n, wk)\nv = MatMul(n, wv)\n" HEADS("q")
				HEADS("k") HEADS("v") CORE OUT "const up f32[32,64]\nconst down f32[64,32]\nh = MatMul(n, up)\nr = "
							       "Relu(h)\nd = MatMul(r, down)\nz = Add(y, d)\noutput z\n",
		"wq:query wk:key wv:value wo:output up:ffn down:ffn");
}

static void test_tied_head(void **state)
{
	(void)state;
	ROLES("input ids i64[B,S]\nconst table f32[50,32]\nx = Gather(table, ids)\ntt = Transpose(table) perm=1,0\nlogits = MatMul(x, "
	      "tt)\noutput logits\n",
		"table:embedding table:head");
}

static void test_convolutions(void **state)
{
	(void)state;
	ROLES("input pixels f32[B,3,8,8]\nconst stem f32[32,3,4,4]\nconst rows i64[3] = 0 32 -1\nconst pos f32[1,4,32]\nc = Conv(pixels, "
	      "stem) strides=4,4\n"
	      "f = Reshape(c, rows)\nconst up f32[64,32,1]\nconst down f32[32,64,1]\nh = Conv(f, up)\nr = Relu(h)\nd = Conv(r, down)\ny = "
	      "Add(f, d)\n"
	      "yt = Transpose(y) perm=0,2,1\nz = Add(yt, pos)\nconst wh f32[32,10]\nlogits = MatMul(z, wh)\noutput logits\n",
		"stem:none up:ffn down:ffn pos:none wh:head");
	assert_string_equal(plan.layers[1].node->op->name, "Linear");
	assert_int_equal(plan.layers[1].rank, 3); /* as in the file */
}

static void test_einsum_is_a_layer(void **state)
{
	(void)state;
	ROLES(X "const w f32[32,4,8]\nconst back f32[4,8,32]\nh = Einsum(x, w) equation=bsi,ihd->bshd\nr = Relu(h)\nd = Einsum(r, back) "
		"equation=bshd,hdo->bso\n"
		"y = Add(x, d)\noutput y\n",
		"w:ffn back:ffn");
	assert_string_equal(plan.layers[1].node->op->name, "Linear");
}

/* Rows of cosines multiply activations. */
static void test_table_of_factors(void **state)
{
	(void)state;
	ROLES("input ids i64[B,S]\ninput x f32[B,4,S,16]\nconst cos f32[50,16]\nconst one i64[1] = 1\nc = Gather(cos, ids)\nu = Unsqueeze(c, one)\n"
	      "y = Mul(x, u)\noutput y\n",
		"cos:none");
}

/* Rows of an embedding are masked, scaled or added. */
static void test_embeddings(void **state)
{
	(void)state;
	ROLES("input ids i64[B,S]\ninput mask f32[B,S,1]\nconst words f32[50,32]\nconst places f32[50,32]\nw = Gather(words, ids)\nm = Mul(w, mask)\n"
	      "p = Gather(places, ids)\ny = Add(m, p)\noutput y\n",
		"words:embedding places:embedding");
}

/* Errors of logits are those of every layer only where each leads to logits. */
static void test_logits_tell_all(void **state)
{
	(void)state;
	static const char ALONE[] = X W("a") W("h") "m = MatMul(x, a)\nr = Relu(m)\nlogits = MatMul(r, h)\nseen = Relu(r)\noutput logits\noutput seen\n";
	ROLES(ALONE, "a:head h:head");
	assert_true(qn_plan_logits_tell_all(&plan, graph));
	op_teardown(state), op_setup(state);
	ROLES(X W("a") W("h") W("p") "m = MatMul(x, a)\nr = Relu(m)\nlogits = MatMul(r, h)\nq = MatMul(r, p)\npooled = Tanh(q)\noutput logits\noutput pooled\n",
		"a:head h:head p:head");
	assert_false(qn_plan_logits_tell_all(&plan, graph));
	op_teardown(state), op_setup(state);
	ROLES(X W("a") "m = MatMul(x, a)\nr = Relu(m)\noutput r\n", "a:head");
	assert_false(qn_plan_logits_tell_all(&plan, graph));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, op_setup, op_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {CASE(test_block), CASE(test_transposed_storage), CASE(test_fused_uneven), CASE(test_table_of_factors), CASE(test_embeddings),
		CASE(test_fused_interleaved), CASE(test_sliced_initializer), CASE(test_cross_attention),
		CASE(test_repeated_norm_is_no_cross), CASE(test_scores_transposed), CASE(test_learned_query), CASE(test_low_rank),
		CASE(test_attention_without_softmax), CASE(test_rotary_and_masks), CASE(test_gated_ffn), CASE(test_experts),
		CASE(test_parallel_branches), CASE(test_tied_head), CASE(test_convolutions), CASE(test_einsum_is_a_layer),
		CASE(test_logits_tell_all)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
