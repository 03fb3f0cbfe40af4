/* test_ops_elementwise.c - element-wise operators against plain double and integer arithmetic, on random broadcast shapes. */
#include "op_fixture.h"

#include <math.h>

static const qn_dtype float_types[] = {QN_F32, QN_F64, QN_F16, QN_BF16};
static const double float_tolerance[] = {2e-6, 1e-14, 1e-3, 8e-3};

static qn_tensor *reals(qn_dtype type, int rank, const int64_t *dim, double low, double high)
{
	qn_tensor *t = qn_tensor_new(&arena, type, rank, dim);
	int64_t n = qn_tensor_count(t);
	for (int64_t i = 0; i < n; i++)
		qn_tensor_set(op_data(t), type, i, low + (high - low) * (double)draw(0, 1 << 20) / (1 << 20));
	return t;
}

static qn_node *node_of(const char *domain, const char *op, int n_in)
{
	qn_value *in[8];
	for (int i = 0; i < n_in; i++)
		in[i] = qn_graph_value(graph, NULL);
	const qn_op *row = qn_op_find(domain, op);
	if (!row)
		fail_msg("no row for %s", op);
	qn_node *n = qn_graph_node(graph, NULL, row, op, in, n_in, 1);
	n->opset = 17;
	return n;
}

static void check_real(const char *what, double got, double want, double tolerance, int64_t at)
{
	if (isnan(want) ? isnan(got) : got == want || fabs(got - want) <= tolerance * fmax(1e-3, fabs(want)))
		return;
	fail_msg("%s: element %lld is %.9g, expected %.9g (random state %llu)", what, (long long)at, got, want, (unsigned long long)seed);
}

/* The element of t that meets output position `index` after broadcasting to `rank`. */
static int64_t met(const qn_tensor *t, int rank, const int64_t *index)
{
	int64_t at = 0;
	for (int k = 0; k < t->rank; k++)
		at = at * t->dim[k] + (t->dim[k] == 1 ? 0 : index[k + rank - t->rank]);
	return at;
}

/* --- one input ------------------------------------------------------------------------------------------------------ */
static double f_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
static double f_softplus(double x) { return log1p(exp(x)); }
static double f_softsign(double x) { return x / (1.0 + fabs(x)); }
static double f_relu(double x) { return x > 0 ? x : 0; }
static double f_reciprocal(double x) { return 1.0 / x; }
static double f_sign(double x) { return (x > 0) - (x < 0); }
static double f_neg(double x) { return -x; }
static double f_elu(double x) { return x < 0 ? expm1(x) : x; }
static double f_selu(double x) { return (double)1.05070102f * (x > 0 ? x : (double)1.67326319f * expm1(x)); }
static double f_hard_sigmoid(double x) { return fmin(1, fmax(0, (double)0.2f * x + 0.5)); } /* kept from 0, where f32 cancels */
static double f_hard_swish(double x) { return x * fmin(1, fmax(0, x / 6 + 0.5)); }
static double f_leaky(double x) { return x < 0 ? (double)0.01f * x : x; }
static double f_mish(double x) { return x * tanh(log1p(exp(x))); }
static double f_shrink(double x) { return fabs(x) <= 0.5 ? 0 : x; }
static double f_thresholded(double x) { return x > 1 ? x : 0; }
static double f_gelu(double x) { return 0.5 * x * erfc(-x / sqrt(2)); }
static double f_gelu_tanh(double x) { return x / (1 + exp(-2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))); }
static double f_silu(double x) { return x / (1 + exp(-x)); }
static double f_quick(double x) { return x / (1 + exp(-(double)1.702f * x)); }
static double f_identity(double x) { return x; }

static const struct {
	const char *domain, *op;
	double (*f)(double);
	double low, high;
} unaries[] = {
	{"", "Abs", fabs, -9, 9}, {"", "Acos", acos, -1, 1}, {"", "Acosh", acosh, 1.5, 9}, {"", "Asin", asin, -1, 1},
	{"", "Asinh", asinh, -9, 9}, {"", "Atan", atan, -9, 9}, {"", "Atanh", atanh, -0.9, 0.9}, {"", "Ceil", ceil, -9, 9},
	{"", "Cos", cos, -9, 9}, {"", "Cosh", cosh, -5, 5}, {"", "Erf", erf, -5, 5}, {"", "Exp", exp, -8, 8}, {"", "Floor", floor, -9, 9},
	{"", "Log", log, 1.5, 90}, {"", "Sin", sin, -9, 9}, {"", "Sinh", sinh, -5, 5}, {"", "Sqrt", sqrt, 0, 90}, {"", "Tan", tan, -1, 1},
	{"", "Tanh", tanh, -12, 12}, {"", "Round", rint, -9, 9}, {"", "Sigmoid", f_sigmoid, -20, 20}, {"", "Softplus", f_softplus, -20, 20},
	{"", "Softsign", f_softsign, -9, 9}, {"", "Relu", f_relu, -9, 9}, {"", "Reciprocal", f_reciprocal, 1, 9}, {"", "Sign", f_sign, -9, 9},
	{"", "Neg", f_neg, -9, 9}, {"", "Elu", f_elu, -9, 9}, {"", "Celu", f_elu, -9, 9}, {"", "Selu", f_selu, -9, 9},
	{"", "HardSigmoid", f_hard_sigmoid, -2, 9}, {"", "HardSwish", f_hard_swish, -9, 9}, {"", "LeakyRelu", f_leaky, -9, 9},
	{"", "Mish", f_mish, -9, 9}, {"", "Shrink", f_shrink, -2, 2}, {"", "ThresholdedRelu", f_thresholded, -3, 3}, {"", "Gelu", f_gelu, -6, 6},
	{"", "Swish", f_silu, -9, 9}, {"", "Identity", f_identity, -9, 9}, {"com.microsoft", "Gelu", f_gelu, -6, 6},
	{"com.microsoft", "QuickGelu", f_quick, -9, 9}, {"com.microsoft", "FastGelu", f_gelu_tanh, -6, 6},
};

static void test_unary(void **state)
{
	(void)state;
	for (size_t k = 0; k < QN_LEN(unaries); k++)
		for (int round = 0; round < 8; round++) {
			int64_t dim[QN_MAX_RANK];
			int rank = op_any_shape(0, 4, 0, 9, dim);
			qn_dtype type = float_types[round % 4];
			const qn_tensor *x = reals(type, rank, dim, unaries[k].low, unaries[k].high);
			const qn_tensor *y = op_run(node_of(unaries[k].domain, unaries[k].op, 1), x, NULL, NULL);
			assert_int_equal(y->type, type);
			op_check_dims(y, rank, dim);
			for (int64_t i = 0; i < qn_tensor_count(x); i++)
				check_real(unaries[k].op, qn_tensor_get(y, i), unaries[k].f(qn_tensor_get(x, i)), float_tolerance[round % 4], i);
		}
}

static void test_limits(void **state)
{
	(void)state;
	static const struct {
		const char *op;
		float low, zero, high; /* results for -inf, 0, inf */
	} cases[] = {{"Exp", 0, 1, INFINITY}, {"Tanh", -1, 0, 1}, {"Erf", -1, 0, 1}, {"Sigmoid", 0, 0.5f, 1}, {"Relu", 0, 0, INFINITY},
		{"HardSigmoid", 0, 0.5f, 1}, {"Softplus", 0, 0.69314718f, INFINITY}};
	for (size_t k = 0; k < QN_LEN(cases); k++) {
		float v[4] = {-INFINITY, 0, INFINITY, NAN};
		const qn_tensor x = {.type = QN_F32, .rank = 1, .dim = {4}, .data = v};
		const float *y = op_run(node_of("", cases[k].op, 1), &x, NULL, NULL)->data;
		check_real(cases[k].op, (double)y[0], (double)cases[k].low, 1e-6, 0);
		check_real(cases[k].op, (double)y[1], (double)cases[k].zero, 1e-6, 1);
		check_real(cases[k].op, (double)y[2], (double)cases[k].high, 1e-6, 2);
		assert_true(isnan(y[3]));
	}
}

static void test_unary_ints(void **state)
{
	(void)state;
	static const int8_t v[] = {-128, -3, 0, 5, 127};
	const qn_tensor x = {.type = QN_I8, .rank = 1, .dim = {5}, .data = v};
	static const int8_t abs_want[] = {-128, 3, 0, 5, 127}, neg_want[] = {-128, 3, 0, -5, -127}, sign_want[] = {-1, -1, 0, 1, 1};
	assert_memory_equal(op_run(node_of("", "Abs", 1), &x, NULL, NULL)->data, abs_want, 5);
	assert_memory_equal(op_run(node_of("", "Neg", 1), &x, NULL, NULL)->data, neg_want, 5);
	assert_memory_equal(op_run(node_of("", "Sign", 1), &x, NULL, NULL)->data, sign_want, 5);
	static const uint8_t u[] = {0, 1, 200, 255}, not_want[] = {255, 254, 55, 0}, usign[] = {0, 1, 1, 1};
	const qn_tensor xu = {.type = QN_U8, .rank = 1, .dim = {4}, .data = u};
	assert_memory_equal(op_run(node_of("", "BitwiseNot", 1), &xu, NULL, NULL)->data, not_want, 4);
	assert_memory_equal(op_run(node_of("", "Sign", 1), &xu, NULL, NULL)->data, usign, 4);
	assert_memory_equal(op_run(node_of("", "Abs", 1), &xu, NULL, NULL)->data, u, 4);
}

/* --- two inputs ------------------------------------------------------------------------------------------------------ */
static double b_add(double a, double b) { return a + b; }
static double b_sub(double a, double b) { return a - b; }
static double b_mul(double a, double b) { return a * b; }
static double b_div(double a, double b) { return a / b; }
static double b_prelu(double a, double b) { return a < 0 ? a * b : a; }
static double b_equal(double a, double b) { return a == b; }
static double b_greater(double a, double b) { return a > b; }
static double b_greater_equal(double a, double b) { return a >= b; }
static double b_less(double a, double b) { return a < b; }
static double b_less_equal(double a, double b) { return a <= b; }
static double b_int_div(double a, double b) { return trunc(a / b); }
static double b_mod(double a, double b) { return a - b * floor(a / b); }

/* Two shapes that broadcast to a third, either operand being the smaller; sizes of 0 happen. */
static void broadcast_shapes(bool one_way, int *ra, int64_t *da, int *rb, int64_t *db, int *rank, int64_t *dim)
{
	*rank = (int)draw(0, 5);
	for (int k = 0; k < *rank; k++)
		dim[k] = draw(0, 20) ? draw(1, 6) : 0;
	*ra = one_way ? *rank : (int)draw(0, *rank);
	*rb = *ra == *rank ? (int)draw(0, *rank) : *rank;
	for (int k = 0; k < *ra; k++)
		da[k] = dim[k + *rank - *ra];
	for (int k = 0; k < *rb; k++)
		db[k] = dim[k + *rank - *rb];
	for (int k = 0; k < *rank; k++) { /* an axis may be 1 in one operand where the other has it */
		int ka = k - (*rank - *ra), kb = k - (*rank - *rb);
		int side = (int)draw(0, 5);
		if (ka >= 0 && kb >= 0 && side == 0 && !one_way)
			da[ka] = 1;
		else if (ka >= 0 && kb >= 0 && side == 1)
			db[kb] = 1;
	}
}

static const struct {
	const char *op;
	double (*f)(double, double);
	bool floats, ints, one_way;
} binaries[] = {
	{"Add", b_add, true, true, false}, {"Sub", b_sub, true, true, false}, {"Mul", b_mul, true, true, false}, {"Div", b_div, true, false, false},
	{"Div", b_int_div, false, true, false}, {"Mod", b_mod, false, true, false}, {"Max", fmax, true, true, false}, {"Min", fmin, true, true, false},
	{"Sum", b_add, true, false, false}, {"PRelu", b_prelu, true, true, true}, {"Equal", b_equal, true, true, false},
	{"Greater", b_greater, true, true, false}, {"GreaterOrEqual", b_greater_equal, true, true, false}, {"Less", b_less, true, true, false},
	{"LessOrEqual", b_less_equal, true, true, false}, {"Pow", pow, true, false, false},
};

static void check_binary(size_t k, qn_dtype type, double tolerance)
{
	int64_t da[QN_MAX_RANK], db[QN_MAX_RANK], dim[QN_MAX_RANK], index[QN_MAX_RANK] = {0}, at = 0;
	int ra, rb, rank;
	bool ints = qn_dtype_is_int(type), is_pow = strcmp(binaries[k].op, "Pow") == 0;
	broadcast_shapes(binaries[k].one_way, &ra, da, &rb, db, &rank, dim);
	double low = is_pow ? 0.5 : -5, high = is_pow ? 2 : 5, base = ints && type >= QN_U8 ? 5 : low; /* unsigned differences stay positive */
	const qn_tensor *a = reals(type, ra, da, base, base + high - low), *b = reals(type, rb, db, ints ? 1 : low, high);
	const qn_tensor *y = op_run(node_of("", binaries[k].op, 2), a, b, NULL);
	op_check_dims(y, rank, dim);
	if (qn_tensor_count(y) == 0)
		return;
	do {
		double want = binaries[k].f(qn_tensor_get(a, met(a, rank, index)), qn_tensor_get(b, met(b, rank, index)));
		check_real(binaries[k].op, qn_tensor_get(y, at), want, tolerance, at);
		at++;
	} while (op_next(rank, dim, index));
}

static void test_binary(void **state)
{
	(void)state;
	static const qn_dtype ints[] = {QN_I8, QN_I16, QN_I32, QN_I64, QN_U8, QN_U16, QN_U32, QN_U64};
	for (size_t k = 0; k < QN_LEN(binaries); k++) {
		for (int round = 0; round < 40 && binaries[k].floats; round++)
			check_binary(k, float_types[round % 4], 4 * float_tolerance[round % 4]);
		for (int round = 0; round < 40 && binaries[k].ints; round++)
			check_binary(k, ints[round % 8], 0);
	}
}

static void test_integer_edges(void **state)
{
	(void)state;
	static const int32_t a[] = {-7, 7, -7, 7, INT32_MIN, 5}, b[] = {2, -2, -2, 2, -1, 0};
	static const int32_t quotient[] = {-3, -3, 3, 3, INT32_MIN, 0}, floored[] = {1, -1, -1, 1, 0, 0}, rest[] = {-1, 1, -1, 1, 0, 0};
	const qn_tensor ta = {.type = QN_I32, .rank = 1, .dim = {6}, .data = a}, tb = {.type = QN_I32, .rank = 1, .dim = {6}, .data = b};
	assert_memory_equal(op_run(node_of("", "Div", 2), &ta, &tb, NULL)->data, quotient, sizeof quotient);
	assert_memory_equal(op_run(node_of("", "Mod", 2), &ta, &tb, NULL)->data, floored, sizeof floored);
	qn_node *n = node_of("", "Mod", 2);
	qn_node_set_int(graph, n, "fmod", 1);
	assert_memory_equal(op_run(n, &ta, &tb, NULL)->data, rest, sizeof rest);
	static const uint64_t u[] = {UINT64_MAX, 1}, v[] = {2, UINT64_MAX}, half[] = {UINT64_MAX / 2, 0}, top[] = {UINT64_MAX, UINT64_MAX};
	const qn_tensor tu = {.type = QN_U64, .rank = 1, .dim = {2}, .data = u}, tv = {.type = QN_U64, .rank = 1, .dim = {2}, .data = v};
	assert_memory_equal(op_run(node_of("", "Div", 2), &tu, &tv, NULL)->data, half, sizeof half);
	assert_memory_equal(op_run(node_of("", "Max", 2), &tu, &tv, NULL)->data, top, sizeof top);
	static const float f[] = {NAN, 1}, g[] = {1, NAN};
	const qn_tensor tf = {.type = QN_F32, .rank = 1, .dim = {2}, .data = f}, tg = {.type = QN_F32, .rank = 1, .dim = {2}, .data = g};
	const float *y = op_run(node_of("", "Max", 2), &tf, &tg, NULL)->data;
	assert_true(isnan(y[0]) && isnan(y[1]));
}

static void test_where_clip_cast(void **state)
{
	(void)state;
	for (int round = 0; round < 60; round++) {
		int64_t da[QN_MAX_RANK], db[QN_MAX_RANK], dim[QN_MAX_RANK], index[QN_MAX_RANK] = {0}, at = 0;
		int ra, rb, rank;
		qn_dtype type = op_any_type();
		broadcast_shapes(false, &ra, da, &rb, db, &rank, dim);
		const qn_tensor *a = op_random(type, ra, da), *b = op_random(type, rb, db);
		qn_tensor *c = qn_tensor_new(&arena, QN_BOOL, rank, dim);
		for (int64_t i = 0; i < qn_tensor_count(c); i++)
			((uint8_t *)op_data(c))[i] = (uint8_t)draw(0, 1);
		const qn_tensor *y = op_run(node_of("", "Where", 3), c, a, b);
		for (bool more = qn_tensor_count(y) > 0; more; more = op_next(rank, dim, index), at++) {
			const qn_tensor *from = ((const uint8_t *)c->data)[at] ? a : b;
			check_real("Where", qn_tensor_get(y, at), qn_tensor_get(from, met(from, rank, index)), 0, at);
		}
	}
	static const int16_t v[] = {-9, -1, 0, 1, 9}, want[] = {-2, -1, 0, 1, 3}, lo = -2, hi = 3;
	const qn_tensor x = {.type = QN_I16, .rank = 1, .dim = {5}, .data = v}, low = {.type = QN_I16, .data = &lo}, high = {.type = QN_I16, .data = &hi};
	assert_memory_equal(op_run(node_of("", "Clip", 3), &x, &low, &high)->data, want, sizeof want);
	qn_node *n = node_of("", "Clip", 1);
	qn_node_set_float(graph, n, "max", 0.5f);
	static const float r[] = {-1, 0.25f, 4}, clipped[] = {-1, 0.25f, 0.5f};
	const qn_tensor xr = {.type = QN_F32, .rank = 1, .dim = {3}, .data = r};
	assert_memory_equal(op_run(n, &xr, NULL, NULL)->data, clipped, sizeof clipped);
	n = node_of("", "Cast", 1);
	qn_node_set_int(graph, n, "to", 6);
	static const int32_t cut[] = {-1, 0, 4};
	assert_memory_equal(op_run(n, &xr, NULL, NULL)->data, cut, sizeof cut);
}

/* The same bits from one thread and from several, on tensors past the threshold of a parallel region. */
static void test_threads(void **state)
{
	(void)state;
	static const char *const ops[] = {"Gelu", "Tanh", "Softmax", "LogSoftmax", "ReduceSum", "ReduceL2", "ReduceMax", "CumSum"};
	static const int64_t dim[] = {7, 123, 131};
	const qn_tensor *x = reals(QN_F32, 3, dim, -4, 4), *axis = op_ints(1, (const int64_t[]){1});
	for (size_t k = 0; k < QN_LEN(ops); k++) {
		bool two = strcmp(ops[k], "CumSum") == 0 || strncmp(ops[k], "Reduce", 6) == 0;
		qn_node *n = node_of("", ops[k], two ? 2 : 1);
		ctx.threads = 1;
		const qn_tensor *one = op_run(n, x, two ? axis : NULL, NULL);
		ctx.threads = 3;
		const qn_tensor *three = op_run(n, x, two ? axis : NULL, NULL);
		assert_memory_equal(one->data, three->data, qn_tensor_bytes(one));
	}
	ctx.threads = 0;
}

/* --- rejections -------------------------------------------------------------------------------------------------------- */
static void refuses(qn_node *n, const qn_tensor *a, const qn_tensor *b, const char *text)
{
	const qn_tensor *x[] = {a, b};
	qn_tensor y[3];
	ctx.message[0] = '\0';
	qn_status status = qn_exec_node(&ctx, graph->dims, n, x, &arena, y, NULL);
	assert_true(status != QUERN_OK && status != QUERN_ERR_INTERNAL);
	if (!strstr(ctx.message, text) || !strstr(ctx.message, n->name))
		fail_msg("message '%s' lacks '%s' or the node's name", ctx.message, text);
}

static void test_rejections(void **state)
{
	(void)state;
	static const int64_t two[] = {2}, three[] = {3};
	const qn_tensor *f = reals(QN_F32, 1, two, 0, 1), *i = op_random(QN_I32, 1, two), *g = reals(QN_F32, 1, three, 0, 1);
	refuses(node_of("", "Add", 2), f, i, "they must be equal");
	refuses(node_of("", "Add", 2), f, g, "do not broadcast");
	refuses(node_of("", "Sin", 1), i, NULL, "type i32");
	refuses(node_of("", "IsNaN", 1), i, NULL, "type i32");
	refuses(node_of("", "And", 2), f, f, "type f32");
	qn_node *n = node_of("", "Cast", 1);
	qn_node_set_int(graph, n, "to", 8);
	refuses(n, f, NULL, "string");
	n = node_of("", "BitShift", 2);
	refuses(n, i, i, "direction");
	n = node_of("", "Gelu", 1);
	qn_node_set_string(graph, n, "approximate", "sigmoid");
	refuses(n, f, NULL, "approximate");
	refuses(node_of("com.microsoft", "BiasGelu", 2), f, g, "bias");
	refuses(node_of("", "Clip", 2), f, f, "must be one number");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_unary, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_limits, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_unary_ints, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_binary, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_integer_edges, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_where_clip_cast, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_threads, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_rejections, op_setup, op_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
