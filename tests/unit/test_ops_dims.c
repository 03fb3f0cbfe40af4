/* test_ops_dims.c - operators on sizes that are known as expressions of symbols only. */
#include "op_fixture.h"

static void check_dims(const char *op, const char *a, const char *b, const char *want, const char *attr, int64_t value)
{
	const qn_tensor *x[2] = {op_known(a), b ? op_known(b) : NULL};
	qn_node *n = op_node(op, b ? 2 : 1, 1);
	if (attr)
		qn_node_set_int(graph, n, attr, value);
	qn_tensor y;
	bool undecided;
	if (qn_exec_node(&ctx, graph->dims, n, x, &arena, &y, &undecided) != QUERN_OK)
		fail_msg("%s(%s, %s): %s", op, a, b ? b : "", ctx.message);
	assert_int_equal(undecided, want == NULL);
	if (!want)
		return;
	const qn_tensor *w = op_known(want);
	int64_t count = qn_tensor_count(&y);
	assert_int_equal(count, qn_tensor_count(w));
	for (int64_t i = 0; i < count; i++) {
		qn_dim d = ((const qn_dim *)w->data)[i];
		if (y.type == QN_BOOL ? d.k == ((const uint8_t *)y.data)[i] : qn_dim_equal(d, ((const qn_dim *)y.data)[i]))
			continue;
		fail_msg("%s(%s, %s): item %lld is %s, expected %s", op, a, b ? b : "", (long long)i,
			y.type == QN_BOOL ? "the other" : qn_dim_text(&arena, ((const qn_dim *)y.data)[i], NULL, NULL), want);
	}
}

static void test_dims(void **state)
{
	(void)state;
	check_dims("Add", "B,S", "1,S", "B+1,2*S", NULL, 0);
	check_dims("Sub", "S", "1", "S-1", NULL, 0);
	check_dims("Mul", "S,4", "2", "2*S,8", NULL, 0);
	check_dims("Div", "S", "2", "S/2", NULL, 0);
	check_dims("Div", "-7,7", "2,-2", "-3,-3", NULL, 0);
	check_dims("Max", "S", "0", "S", NULL, 0);
	check_dims("Neg", "S", NULL, "0-S", NULL, 0);
	check_dims("Abs", "S", NULL, "S", NULL, 0);
	check_dims("Floor", "S", NULL, "S", NULL, 0);
	check_dims("Sqrt", "64", NULL, "8", NULL, 0);
	check_dims("Sqrt", "S", NULL, NULL, NULL, 0);
	check_dims("Relu", "S", NULL, "S", NULL, 0);
	check_dims("Identity", "B,S", NULL, "B,S", NULL, 0);
	check_dims("Cast", "B,S", NULL, "B,S", "to", 1);
	check_dims("Equal", "S,S,2", "S,0-1,3", "1,0,0", NULL, 0);
	check_dims("Equal", "S", "4", NULL, NULL, 0);
	check_dims("Less", "S", "S+1", "1", NULL, 0);
	check_dims("GreaterOrEqual", "S", "0", "1", NULL, 0);
	check_dims("ReduceProd", "B,S,4", NULL, "4*B*S", "keepdims", 1);
	check_dims("ReduceSum", "B,S,4", NULL, "B+S+4", "keepdims", 1);
	check_dims("Sin", "S", NULL, NULL, NULL, 0);
}

/* A quotient of floats stands for its floor or ceiling only where every consumer takes just that. */
static void test_dim_quotients(void **state)
{
	(void)state;
	static const char *const consumers[] = {"Ceil", "Floor", NULL};
	for (int k = 0; k < 3; k++) {
		qn_node *div = op_node("Div", 2, 1);
		div->in[0]->fact.type = div->in[1]->fact.type = QN_F32;
		if (consumers[k])
			qn_graph_node(graph, NULL, qn_op_find("", consumers[k]), "round", &div->out[0], 1, 1);
		const float eight = 8;
		const qn_tensor divisor = {.type = QN_F32, .rank = 0, .data = &eight}, *x[] = {op_known("S"), &divisor};
		qn_tensor y;
		bool undecided;
		assert_int_equal(qn_exec_node(&ctx, graph->dims, div, x, &arena, &y, &undecided), QUERN_OK);
		assert_int_equal(undecided, consumers[k] == NULL);
		if (undecided)
			continue;
		qn_dim s = qn_dim_symbol(graph->dims, "S"), by = qn_dim_const(8);
		assert_true(qn_dim_equal(*(const qn_dim *)y.data, k ? qn_dim_floordiv(graph->dims, s, by) : qn_dim_ceildiv(graph->dims, s, by)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_dims, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_dim_quotients, op_setup, op_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
