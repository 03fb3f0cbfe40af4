/* test_ops_movement_rules.c - shapes of movers over symbols, symbolic contents that flow through them, and what they refuse. */
#include "op_fixture.h"

typedef struct ints_attr {
	const char *name;
	int n; /* 0: a single integer */
	int64_t v[4];
} ints_attr;

typedef struct rule {
	const char *op;
	const char *in[5]; /* as op_fact reads them */
	const char *want;  /* shape of output 0; "=..." also its content */
	ints_attr attr;
} rule;

#define END "=9223372036854775807"

static const rule rules[] = {
	{"Shape", {"B,S,8"}, "=B,S,8", {0}},
	{"Shape", {"B,S,8"}, "=S", {"end", 0, {-1}}}, /* with start 1, below */
	{"Size", {"B,S,8"}, "", {0}},
	{"Reshape", {"B,S,64", "=B,S,4,16"}, "B,S,4,16", {0}},
	{"Reshape", {"B,S,64", "=B,S,-1,16"}, "B,S,4,16", {0}},
	{"Reshape", {"B,S,64", "=0,0,4,-1"}, "B,S,4,16", {0}},
	{"Reshape", {"B,4,S,16", "=0,-1,64"}, "B,S,64", {0}},
	{"Reshape", {"B,S,64", "=-1,64"}, "B*S,64", {0}},
	{"Reshape", {"B*S,64", "=B,-1,64"}, "B,S,64", {0}},
	{"Reshape", {"B,H,P+S,16", "=B,H,-1,16"}, "B,H,P+S,16", {0}},
	{"Reshape", {"0,S,64", "=0,-1"}, "0,S*64", {0}},
	{"Reshape", {"2,S", "=-1"}, "2*S", {0}},
	{"Reshape", {"S,6", "=-1,4"}, "6*S/4,4", {0}},
	{"Reshape", {"M,T", "=B,-1"}, "B,T", {0}}, /* M is another name of B */
	{"Flatten", {"B,S,8"}, "B,S*8", {0}},
	{"Flatten", {"B,S,8"}, "B*S,8", {"axis", 0, {-1}}},
	{"Squeeze", {"B,1,S,1"}, "B,S", {0}},
	{"Squeeze", {"B,1,S,1", "=-1"}, "B,1,S", {0}},
	{"Unsqueeze", {"B,S", "=0,3"}, "1,B,S,1", {0}},
	{"Transpose", {"B,S,8"}, "8,S,B", {0}},
	{"Transpose", {"B,S,8"}, "B,8,S", {"perm", 3, {0, 2, 1}}},
	{"Concat", {"B,H,P,16", "B,H,S,16"}, "B,H,P+S,16", {"axis", 0, {2}}},
	{"Split", {"B,S,12", "=4,8"}, "B,S,4", {"axis", 0, {2}}},
	{"Split", {"B,2*S"}, "B,S", {"axis", 0, {1}}},
	{"Slice", {"1,512", "=0", "=S", "=1"}, "1,S", {0}},
	{"Slice", {"1,512", "=P", "=P+S", "=1"}, "1,S", {0}},
	{"Slice", {"B,S,8", "=0", END, "=1"}, "B,S,8", {0}},
	{"Slice", {"B,S,8", "=0", "=2147483647", "=1"}, "B,S,8", {0}},
	{"Slice", {"B,S,8", "=-1", END, "=1"}, "B,1,8", {0}},
	{"Slice", {"B,S,8", "=0", "=-1", "=1"}, "B,S-1,8", {0}},
	{"Slice", {"B,S,8", "=1", END, "=1"}, "B,S-1,8", {0}},
	{"Slice", {"B,S,8", "=0", "=1", "=1"}, "B,1,8", {0}},
	{"Slice", {"B,S,8", "=S-1", "=S", "=1"}, "B,1,8", {0}},
	{"Slice", {"B,P+S", "=0-S", END, "=1"}, "B,S", {0}},
	{"Slice", {"B,S", "=-1", "=-9223372036854775807", "=1", "=-1"}, "B,S", {0}},
	{"Slice", {"B,2*S", "=0", END, "=1", "=2"}, "B,S", {0}},
	{"Slice", {"B,S", "=2", "=2", "=1"}, "B,0", {0}},
	{"Gather", {"V,64", "B,S"}, "B,S,64", {0}},
	{"Gather", {"B,S,8", ""}, "B,8", {"axis", 0, {1}}},
	{"GatherElements", {"B,S,8", "B,2,8"}, "B,2,8", {"axis", 0, {1}}},
	{"GatherND", {"B,S,8", "B,Q,2"}, "B,Q,8", {0}},
	{"GatherND", {"B,S,8", "B,Q,1"}, "B,Q,8", {"batch_dims", 0, {1}}},
	{"ScatterND", {"B,S,8", "Q,2", "Q,8"}, "B,S,8", {0}},
	{"Expand", {"1,S", "=B,1,S"}, "B,1,S", {0}},
	{"Expand", {"B,S", "=1,1"}, "B,S", {0}},
	{"Tile", {"1,S", "=B,2"}, "B,2*S", {0}},
	{"Pad", {"B,S", "=0,1,0,2"}, "B,S+3", {0}},
	{"Pad", {"B,S", "=0,P,0,0-1"}, "B,P+S-1", {0}},
	{"ConstantOfShape", {"=B,1,S,P+S"}, "B,1,S,P+S", {0}},
	{"Range", {"=0", "=S", "=1"}, "S", {0}},
	{"Range", {"=P", "=P+S", "=1"}, "S", {0}},
	{"Range", {"=S-1", "=-1", "=-1"}, "S", {0}},
	{"Range", {"=0", "=4*S", "=2"}, "2*S", {0}},
	{"Trilu", {"S,S"}, "S,S", {0}},
	{"OneHot", {"B,S", "=10", "2"}, "B,S,10", {0}},
	{"TopK", {"B,S", "=5"}, "B,5", {0}},
	{"DepthToSpace", {"B,8,H,W"}, "B,2,2*H,2*W", {"blocksize", 0, {2}}},
	{"SpaceToDepth", {"B,2,2*H,6"}, "B,8,H,3", {"blocksize", 0, {2}}},
	{"CenterCropPad", {"B,S,8", "=S,4"}, "B,S,4", {"axes", 2, {1, 2}}},
};

static void set_attr(qn_node *n, const ints_attr *a)
{
	if (a->name && a->n)
		qn_node_set_ints(graph, n, a->name, a->v, (size_t)a->n);
	else if (a->name)
		qn_node_set_int(graph, n, a->name, a->v[0]);
}

static void test_rules(void **state)
{
	for (size_t i = 0; i < QN_LEN(rules); i++) {
		op_teardown(state);
		op_setup(state);
		const rule *r = &rules[i];
		qn_fact in[5], out[8] = {{0}};
		int n_in = 0;
		for (; n_in < 5 && r->in[n_in]; n_in++)
			in[n_in] = op_fact(n_in == 1 && strncmp(r->op, "Gather", 6) == 0 ? QN_I64 : QN_F32, r->in[n_in]);
		qn_node *n = op_node(r->op, n_in, !strcmp(r->op, "Split") ? 2 : 1);
		set_attr(n, &r->attr);
		if (!strcmp(r->op, "Shape") && r->attr.name)
			qn_node_set_int(graph, n, "start", 1);
		if (op_infer(n, in, out) != QUERN_OK)
			fail_msg("rule %zu: %s", i, ctx.message);
		qn_fact want = op_fact(QN_F32, r->want);
		for (int k = 0; k < out[0].shape.rank; k++)
			out[0].shape.dim[k] = qn_dim_resolve(graph->dims, out[0].shape.dim[k]);
		for (int k = 0; k < want.shape.rank; k++)
			want.shape.dim[k] = qn_dim_resolve(graph->dims, want.shape.dim[k]);
		if (!qn_shape_equal(&out[0].shape, &want.shape))
			fail_msg("rule %zu (%s): shape %s, expected %s", i, r->op, qn_shape_text(&arena, &out[0].shape), r->want);
		for (int64_t k = 0; want.value && k < want.value->dim[0]; k++)
			assert_true(qn_dim_equal(((const qn_dim *)out[0].value->data)[k], ((const qn_dim *)want.value->data)[k]));
	}
}

/* Contents made of symbols move like any others. */
static void check_content(const qn_tensor *y, const char *want)
{
	qn_shape s = op_shape(want);
	assert_int_equal(y->type, QN_DIM);
	assert_int_equal(qn_tensor_count(y), s.rank);
	for (int i = 0; i < s.rank; i++)
		if (!qn_dim_equal(((const qn_dim *)y->data)[i], s.dim[i]))
			fail_msg("item %d is %s, expected item %d of %s", i, qn_dim_text(&arena, ((const qn_dim *)y->data)[i], NULL, NULL),
				i, want);
}

static void test_contents(void **state)
{
	(void)state;
	const qn_tensor *bs8 = op_known("B,S,8"), *one = op_ints(1, (const int64_t[]){1}), *two = op_ints(1, (const int64_t[]){2});
	const qn_tensor *zero = op_ints(1, (const int64_t[]){0});
	check_content(op_run(op_node("Gather", 2, 1), bs8, qn_tensor_scalar_i64(&arena, -2), NULL), "S");
	check_content(op_run(op_node("Gather", 2, 1), bs8, op_ints(2, (const int64_t[]){2, 0}), NULL), "8,B");
	check_content(op_run(op_node("Slice", 3, 1), bs8, one, op_ints(1, (const int64_t[]){INT64_MAX})), "S,8");
	qn_node *concat = op_node("Concat", 3, 1);
	qn_node_set_int(graph, concat, "axis", 0);
	check_content(op_run(concat, op_known("B"), op_ints(2, (const int64_t[]){4, -1}), op_known("P+S")), "B,4,-1,P+S");
	qn_tensor *wide = op_run(op_node("Unsqueeze", 2, 1), bs8, zero, NULL);
	op_check_dims(wide, 2, (const int64_t[]){1, 3});
	check_content(op_run(op_node("Transpose", 1, 1), wide, NULL, NULL), "B,S,8");
	check_content(op_run(op_node("Squeeze", 2, 1), wide, zero, NULL), "B,S,8");
	check_content(op_run(op_node("Reshape", 2, 1), wide, op_ints(1, (const int64_t[]){-1}), NULL), "B,S,8");
	check_content(op_run(op_node("Tile", 2, 1), op_known("S"), two, NULL), "S,S");
	check_content(op_run(op_node("Expand", 2, 1), op_known("S"), two, NULL), "S,S");
	check_content(op_run(op_node("Pad", 2, 1), op_known("S"), op_ints(2, (const int64_t[]){1, 0}), NULL), "0,S");
	check_content(op_run(op_node("GatherND", 2, 1), bs8, qn_tensor_aligned(&arena, one), NULL), "S");
	check_content(op_run(op_node("ScatterElements", 3, 1), bs8, one, op_known("P")), "B,P,8");
	check_content(op_run(op_node("Range", 3, 1), op_known("P"), op_known("P+3"), one), "P,P+1,P+2");
	qn_tensor *parts = op_run(op_node("Split", 2, 2), bs8, op_ints(2, (const int64_t[]){1, 2}), NULL);
	check_content(&parts[0], "B");
	check_content(&parts[1], "S,8");
}

typedef struct refusal {
	const char *op;
	const char *in[5];
	const char *message; /* part of it */
	ints_attr attr;
} refusal;

static const refusal refusals[] = {
	{"Reshape", {"2,3", "=4,-1"}, "cannot be split", {0}},
	{"Reshape", {"2,3", "=7"}, "element counts differ", {0}},
	{"Reshape", {"2,3", "=-1,-1"}, "more than one -1", {0}},
	{"Reshape", {"2,3", "=2,3,0"}, "does not have", {0}},
	{"Reshape", {"2,3", "=-2,3"}, "a size of -2", {0}},
	{"Reshape", {"B,S", "4"}, "depends on the data", {0}},
	{"Squeeze", {"2,3", "=0"}, "must have size 1", {0}},
	{"Squeeze", {"1,3", "=2"}, "axis 2 is out of range", {0}},
	{"Unsqueeze", {"2", "=0,0"}, "given twice", {0}},
	{"Transpose", {"2,3"}, "twice", {"perm", 2, {0, 0}}},
	{"Transpose", {"2,3"}, "perm has 3 items", {"perm", 3, {0, 1, 2}}},
	{"Concat", {"2,3", "3,3"}, "must agree", {"axis", 0, {1}}},
	{"Concat", {"2,3", "2"}, "rank", {"axis", 0, {0}}},
	{"Split", {"2,7"}, "equal parts", {"axis", 0, {1}}},
	{"Split", {"2,7", "=3,3"}, "must add up", {"axis", 0, {1}}},
	{"Slice", {"5", "=0", "=1", "=1"}, "axis 1 is out of range", {0}},
	{"Slice", {"5", "=0", "=1", "=0", "=0"}, "is 0", {0}},
	{"Slice", {"5", "=0,1", "=1", "=0"}, "different lengths", {0}},
	{"Gather", {"5", "2"}, "out of range", {"axis", 0, {1}}},
	{"GatherElements", {"5,2", "2"}, "rank", {0}},
	{"GatherND", {"5,2", "2,3"}, "do not fit", {0}},
	{"ScatterND", {"5,2", "4,1", "3,2"}, "must fit", {0}},
	{"Expand", {"2,3", "=2,4"}, "do not broadcast", {0}},
	{"Expand", {"2,3", "2"}, "depends on the data", {0}},
	{"Tile", {"2,3", "=2"}, "1 repeats for rank 2", {0}},
	{"Pad", {"2,3", "=1,1"}, "2 pads for 2 axes", {0}},
	{"Pad", {"2,3", "=-3,0,0,0"}, "more than the whole", {0}},
	{"Range", {"=0", "=5", "=0"}, "step is 0", {0}},
	{"Range", {"=0", "=5", "=S"}, "step is 'S'", {0}},
	{"ConstantOfShape", {"=2,-3"}, "a size of -3", {0}},
	{"Trilu", {"4"}, "less than 2", {0}},
	{"TopK", {"2,3", "=4"}, "k is 4", {0}},
	{"OneHot", {"2,3", "=-1", "2"}, "the depth is -1", {0}},
	{"DepthToSpace", {"1,6,2,2"}, "not a multiple", {"blocksize", 0, {2}}},
	{"SpaceToDepth", {"1,6,3,2"}, "not a multiple", {"blocksize", 0, {2}}},
	{"EyeLike", {"2"}, "not 2", {0}},
};

static void test_refusals(void **state)
{
	(void)state;
	for (size_t i = 0; i < QN_LEN(refusals); i++) {
		const refusal *r = &refusals[i];
		qn_fact in[5], out[8] = {{0}};
		int n_in = 0;
		for (; n_in < 5 && r->in[n_in]; n_in++)
			in[n_in] = op_fact(n_in == 1 && strncmp(r->op, "Gather", 6) == 0 ? QN_I64 : QN_F32, r->in[n_in]);
		qn_node *n = op_node(r->op, n_in, !strcmp(r->op, "Split") ? 2 : 1);
		set_attr(n, &r->attr);
		if (op_infer(n, in, out) == QUERN_OK)
			fail_msg("refusal %zu (%s) was accepted", i, r->op);
		if (!strstr(ctx.message, r->message) || !strstr(ctx.message, n->name))
			fail_msg("refusal %zu (%s): message '%s' lacks '%s' or '%s'", i, r->op, ctx.message, r->message, n->name);
	}
}

/* Indices that the data alone can tell to be wrong. */
static void test_bad_indices(void **state)
{
	(void)state;
	static const char *const ops[] = {"Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "ReverseSequence"};
	const float data[] = {1, 2, 3};
	const qn_tensor x = {QN_F32, 1, {3}, data}, matrix = {QN_F32, 2, {3, 1}, data}, one = {QN_F32, 1, {1}, data},
			scalar = {QN_F32, 0, {0}, data};
	for (size_t i = 0; i < QN_LEN(ops); i++)
		for (int64_t bad = -4; bad <= 4; bad += bad == -4 ? 7 : 1) { /* -4, 3, 4 */
			bool lengths = !strcmp(ops[i], "ReverseSequence");
			if (lengths && bad == 3)
				continue;
			int n_in = strncmp(ops[i], "Scatter", 7) ? 2 : 3;
			const qn_tensor *in[] = {lengths ? &matrix : &x, op_ints(1, &bad), strcmp(ops[i], "ScatterND") ? &one : &scalar};
			qn_tensor y[1];
			assert_int_equal(qn_exec_node(&ctx, graph->dims, op_node(ops[i], n_in, 1), in, &arena, y, NULL), QUERN_ERR_SHAPE);
			assert_non_null(strstr(ctx.message, "out of range"));
			assert_non_null(strstr(ctx.message, "the_node"));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_rules, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_contents, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_refusals, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_bad_indices, op_setup, op_teardown),
	};
	return cmocka_run_group_tests_name("ops_movement_rules", tests, NULL, NULL);
}
