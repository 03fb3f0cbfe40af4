/* test_ops_reduction.c - reductions, softmax and normalizations against plain double arithmetic, on random shapes and axes. */
#include "op_fixture.h"

#include <math.h>

static qn_tensor *reals(qn_dtype type, int rank, const int64_t *dim, double low, double high)
{
	qn_tensor *t = qn_tensor_new(&arena, type, rank, dim);
	int64_t n = qn_tensor_count(t);
	for (int64_t i = 0; i < n; i++)
		qn_tensor_set(op_data(t), type, i, low + (high - low) * (double)draw(0, 1 << 20) / (1 << 20));
	return t;
}

static qn_node *node_of(const char *op, int n_in, int n_out)
{
	qn_node *n = op_node(op, n_in, n_out);
	n->opset = 23;
	return n;
}

static void check_real(const char *what, double got, double want, double tolerance, int64_t at)
{
	if (isnan(want) ? isnan(got) : got == want || fabs(got - want) <= tolerance * fmax(0.1, fabs(want)))
		return;
	fail_msg("%s: element %lld is %.9g, expected %.9g (random state %llu)", what, (long long)at, got, want, (unsigned long long)seed);
}

/* The elements that differ from position i along the masked axes only, in order, as doubles. */
static int64_t gather(const qn_tensor *x, const bool *along, int64_t i, double *out, int64_t *self)
{
	int64_t n = 0, count = qn_tensor_count(x);
	for (int64_t j = 0; j < count; j++) {
		bool same = true;
		int64_t a = i, b = j;
		for (int k = x->rank - 1; k >= 0; k--) {
			same &= along[k] || a % x->dim[k] == b % x->dim[k];
			a /= x->dim[k];
			b /= x->dim[k];
		}
		if (!same)
			continue;
		if (j == i)
			*self = n;
		out[n++] = qn_tensor_get(x, j);
	}
	return n;
}

/* --- Reduce ---------------------------------------------------------------------------------------------------------- */
static double r_sum(const double *v, int64_t n)
{
	double s = 0;
	for (int64_t i = 0; i < n; i++)
		s += v[i];
	return s;
}
static double r_mean(const double *v, int64_t n) { return r_sum(v, n) / (double)n; }
static double r_prod(const double *v, int64_t n)
{
	double s = 1;
	for (int64_t i = 0; i < n; i++)
		s *= v[i];
	return s;
}
static double r_max(const double *v, int64_t n)
{
	double s = -INFINITY;
	for (int64_t i = 0; i < n; i++)
		s = fmax(s, v[i]);
	return s;
}
static double r_min(const double *v, int64_t n)
{
	double s = INFINITY;
	for (int64_t i = 0; i < n; i++)
		s = fmin(s, v[i]);
	return s;
}
static double r_squares(const double *v, int64_t n)
{
	double s = 0;
	for (int64_t i = 0; i < n; i++)
		s += v[i] * v[i];
	return s;
}
static double r_l1(const double *v, int64_t n)
{
	double s = 0;
	for (int64_t i = 0; i < n; i++)
		s += fabs(v[i]);
	return s;
}
static double r_l2(const double *v, int64_t n) { return sqrt(r_squares(v, n)); }
static double r_log_sum(const double *v, int64_t n) { return log(r_sum(v, n)); }
static double r_log_sum_exp(const double *v, int64_t n)
{
	double s = 0;
	for (int64_t i = 0; i < n; i++)
		s += exp(v[i]);
	return log(s);
}

static const struct {
	const char *op;
	double (*f)(const double *v, int64_t n);
	bool ints;
} reducers[] = {
	{"ReduceSum", r_sum, true}, {"ReduceMean", r_mean, false}, {"ReduceProd", r_prod, true}, {"ReduceMax", r_max, true},
	{"ReduceMin", r_min, true}, {"ReduceL1", r_l1, true}, {"ReduceL2", r_l2, false}, {"ReduceSumSquare", r_squares, true},
	{"ReduceLogSum", r_log_sum, false}, {"ReduceLogSumExp", r_log_sum_exp, false},
};

static void reduce_once(size_t k, qn_dtype type, bool by_attribute)
{
	int64_t dim[QN_MAX_RANK], axes[QN_MAX_RANK], n_axes = 0;
	bool along[QN_MAX_RANK] = {false}, keep = draw(0, 1);
	int rank = op_any_shape(0, 4, 1, 7, dim);
	for (int a = 0; a < rank; a++)
		if ((along[a] = draw(0, 1)))
			axes[n_axes++] = draw(0, 1) ? a : a - rank;
	for (int a = 0; !n_axes && a < rank; a++)
		along[a] = true; /* no axes: all */
	const qn_tensor *x = reals(type, rank, dim, 0.5, 2.6);
	qn_node *n = node_of(reducers[k].op, by_attribute ? 1 : 2, 1);
	qn_node_set_int(graph, n, "keepdims", keep);
	if (by_attribute && n_axes)
		qn_node_set_ints(graph, n, "axes", axes, (size_t)n_axes);
	const qn_tensor *y = op_run(n, x, by_attribute ? NULL : op_ints((int)n_axes, axes), NULL);
	int64_t count = qn_tensor_count(x), o = 0;
	assert_int_equal(y->rank, keep ? rank : rank - (n_axes ? n_axes : rank));
	double line[1 << 12];
	for (int64_t i = 0; i < count; i++) { /* the first element of each set, in order, is the output's order */
		int64_t self = -1, m = gather(x, along, i, line, &self);
		if (self == 0)
			check_real(reducers[k].op, qn_tensor_get(y, o++), reducers[k].f(line, m), type == QN_F16 ? 2e-3 : 2e-6, i);
	}
	assert_int_equal(o, qn_tensor_count(y));
}

static void test_reduce(void **state)
{
	(void)state;
	static const qn_dtype types[] = {QN_F32, QN_F64, QN_F16, QN_I32, QN_I64, QN_U32};
	for (size_t k = 0; k < QN_LEN(reducers); k++)
		for (int round = 0; round < 24; round++) {
			qn_dtype type = types[round % 6];
			if ((qn_dtype_is_int(type) && !reducers[k].ints) || (type == QN_F16 && reducers[k].f == r_prod))
				type = QN_F32;
			if (reducers[k].f == r_prod)
				type = type == QN_F32 ? QN_F64 : type;
			if (type != QN_I32 || reducers[k].f != r_prod)
				reduce_once(k, type, round % 2);
		}
}

static void test_reduce_special(void **state)
{
	(void)state;
	static const int64_t none[] = {2, 0, 3}, axis[] = {1};
	const qn_tensor *x = reals(QN_F32, 3, none, 0, 1), *a = op_ints(1, axis);
	static const struct {
		const char *op;
		double want;
	} empty[] = {{"ReduceSum", 0}, {"ReduceProd", 1}, {"ReduceMax", -INFINITY}, {"ReduceMin", INFINITY}, {"ReduceL2", 0},
		{"ReduceLogSum", -INFINITY}, {"ReduceLogSumExp", -INFINITY}, {"ReduceMean", NAN}};
	for (size_t k = 0; k < QN_LEN(empty); k++) {
		const qn_tensor *y = op_run(node_of(empty[k].op, 2, 1), x, a, NULL);
		op_check_dims(y, 3, (const int64_t[]){2, 1, 3});
		for (int64_t i = 0; i < 6; i++)
			check_real(empty[k].op, qn_tensor_get(y, i), empty[k].want, 0, i);
	}
	qn_node *n = node_of("ReduceSumSquare", 1, 1); /* no axes and a no-op: still squared */
	qn_node_set_int(graph, n, "noop_with_empty_axes", 1);
	static const int32_t v[] = {-3, 2};
	const qn_tensor two = {.type = QN_I32, .rank = 1, .dim = {2}, .data = v};
	const qn_tensor *y = op_run(n, &two, NULL, NULL);
	assert_int_equal(qn_tensor_get_i64(y, 0), 9);
	assert_int_equal(qn_tensor_get_i64(y, 1), 4);
	static const uint64_t big[] = {1, UINT64_MAX};
	const qn_tensor u = {.type = QN_U64, .rank = 1, .dim = {2}, .data = big};
	assert_true(*(const uint64_t *)op_run(node_of("ReduceMax", 1, 1), &u, NULL, NULL)->data == UINT64_MAX);
	assert_true(*(const uint64_t *)op_run(node_of("ReduceMin", 1, 1), &u, NULL, NULL)->data == 1);
	static const float nan[] = {1, NAN, 2};
	const qn_tensor f = {.type = QN_F32, .rank = 1, .dim = {3}, .data = nan};
	assert_true(isnan(*(const float *)op_run(node_of("ReduceMax", 1, 1), &f, NULL, NULL)->data));
}

/* --- lines: softmax, running sums, extremes ------------------------------------------------------------------------------ */
static double l_softmax(const double *v, int64_t n, int64_t i) { return exp(v[i] - r_log_sum_exp(v, n)); }
static double l_log_softmax(const double *v, int64_t n, int64_t i) { return v[i] - r_log_sum_exp(v, n); }
static int64_t first_of(const double *v, int64_t n)
{
	int64_t best = 0;
	for (int64_t i = 1; i < n; i++)
		best = v[i] > v[best] ? i : best;
	return best;
}
static double l_hardmax(const double *v, int64_t n, int64_t i) { return first_of(v, n) == i; }
static double l_cumsum(const double *v, int64_t n, int64_t i)
{
	(void)n;
	return r_sum(v, i + 1);
}
static double l_cumprod(const double *v, int64_t n, int64_t i)
{
	(void)n;
	return r_prod(v, i + 1);
}
static double l_lp(const double *v, int64_t n, int64_t i) { return v[i] / r_l2(v, n); }

static void test_lines(void **state)
{
	(void)state;
	static const struct {
		const char *op;
		double (*f)(const double *v, int64_t n, int64_t i);
		bool axis_input, flattens;
	} cases[] = {{"Softmax", l_softmax, false, true}, {"LogSoftmax", l_log_softmax, false, true}, {"Hardmax", l_hardmax, false, true},
		{"CumSum", l_cumsum, true, false}, {"CumProd", l_cumprod, true, false}, {"LpNormalization", l_lp, false, false}};
	static const qn_dtype types[] = {QN_F32, QN_F64, QN_F16};
	for (size_t k = 0; k < QN_LEN(cases); k++)
		for (int round = 0; round < 30; round++) {
			int64_t dim[QN_MAX_RANK], axis;
			int rank = op_any_shape(1, 4, 1, 9, dim);
			bool along[QN_MAX_RANK] = {false}, old = cases[k].flattens && round % 3 == 0;
			qn_dtype type = types[draw(0, 2)];
			const qn_tensor *x = reals(type, rank, dim, cases[k].axis_input ? 0.5 : -3, cases[k].axis_input ? 1.5 : 3);
			axis = draw(0, rank - 1);
			for (int a = (int)axis; a < (old ? rank : (int)axis + 1); a++)
				along[a] = true;
			qn_node *n = node_of(cases[k].op, cases[k].axis_input ? 2 : 1, 1);
			n->opset = old ? 11 : 23;
			if (!cases[k].axis_input)
				qn_node_set_int(graph, n, "axis", round % 2 ? axis : axis - rank);
			const qn_tensor *y = op_run(n, x, cases[k].axis_input ? qn_tensor_scalar_i64(&arena, axis) : NULL, NULL);
			double line[1 << 13];
			for (int64_t i = 0; i < qn_tensor_count(x); i++) {
				int64_t self = 0, m = gather(x, along, i, line, &self);
				check_real(cases[k].op, qn_tensor_get(y, i), cases[k].f(line, m, self), type == QN_F16 ? 4e-3 : 3e-6, i);
			}
		}
}

static void test_extremes(void **state)
{
	(void)state;
	static const int32_t v[] = {3, 9, 9, -1, 4, -1};
	const qn_tensor x = {.type = QN_I32, .rank = 2, .dim = {2, 3}, .data = v};
	qn_node *n = node_of("ArgMax", 1, 1);
	qn_node_set_int(graph, n, "axis", -1);
	const qn_tensor *y = op_run(n, &x, NULL, NULL);
	op_check_dims(y, 2, (const int64_t[]){2, 1});
	assert_memory_equal(y->data, ((const int64_t[]){1, 1}), 16);
	qn_node_set_int(graph, n, "select_last_index", 1);
	qn_node_set_int(graph, n, "keepdims", 0);
	y = op_run(n, &x, NULL, NULL);
	op_check_dims(y, 1, (const int64_t[]){2});
	assert_memory_equal(y->data, ((const int64_t[]){2, 1}), 16);
	n = node_of("ArgMin", 1, 1);
	qn_node_set_int(graph, n, "axis", 0);
	assert_memory_equal(op_run(n, &x, NULL, NULL)->data, ((const int64_t[]){1, 1, 1}), 24);
	n = node_of("CumSum", 2, 1);
	qn_node_set_int(graph, n, "exclusive", 1);
	qn_node_set_int(graph, n, "reverse", 1);
	assert_memory_equal(op_run(n, &x, qn_tensor_scalar_i64(&arena, 1), NULL)->data, ((const int32_t[]){18, 9, 0, 3, -1, 0}), 24);
}

/* --- normalizations --------------------------------------------------------------------------------------------------------- */
static double normalized(const double *v, int64_t n, int64_t i, bool rms, double *inverse)
{
	double mean = rms ? 0 : r_mean(v, n), var = 0;
	for (int64_t k = 0; k < n; k++)
		var += (v[k] - mean) * (v[k] - mean);
	*inverse = 1 / sqrt(var / (double)n + (double)1e-5f);
	return (v[i] - mean) * *inverse;
}

static void test_layer_norm(void **state)
{
	(void)state;
	static const qn_dtype types[] = {QN_F32, QN_F64, QN_F16};
	for (int round = 0; round < 90; round++) {
		bool rms = round % 2, along[QN_MAX_RANK] = {false}, bias = !rms && draw(0, 1);
		int64_t dim[QN_MAX_RANK];
		int rank = op_any_shape(1, 4, 1, 8, dim), axis = (int)draw(0, rank - 1);
		qn_dtype type = types[draw(0, 2)];
		bool wide = draw(0, 3) == 0; /* a scale of one element, or of the row */
		int64_t one = 1;
		const qn_tensor *x = reals(type, rank, dim, -2, 3);
		const qn_tensor *s = wide ? reals(type, 1, &one, 0.5, 2) : reals(type, rank - axis, dim + axis, 0.5, 2);
		const qn_tensor *b = bias ? reals(type, rank - axis, dim + axis, -1, 1) : NULL;
		qn_node *n = node_of(rms ? "RMSNormalization" : "LayerNormalization", bias ? 3 : 2, rms ? 1 : 3);
		qn_node_set_int(graph, n, "axis", axis - rank);
		const qn_tensor *y = op_run(n, x, s, b);
		for (int a = axis; a < rank; a++)
			along[a] = true;
		double line[1 << 13], inverse;
		for (int64_t i = 0, row = -1; i < qn_tensor_count(x); i++) {
			int64_t self = 0, m = gather(x, along, i, line, &self);
			double want = normalized(line, m, self, rms, &inverse) * qn_tensor_get(s, wide ? 0 : self) + (b ? qn_tensor_get(b, self) : 0);
			check_real(n->op->name, qn_tensor_get(y, i), want, type == QN_F16 ? 1e-2 : 5e-6, i);
			row += self == 0;
			if (!rms && self == 0) {
				check_real("mean", qn_tensor_get(&y[1], row), r_mean(line, m), 2e-6, row);
				check_real("inverse", qn_tensor_get(&y[2], row), inverse, 2e-6, row);
			}
		}
	}
}

static void test_channel_norms(void **state)
{
	(void)state;
	for (int round = 0; round < 30; round++) {
		int64_t dim[QN_MAX_RANK], c, groups = draw(1, 3);
		int rank = op_any_shape(3, 4, 1, 5, dim);
		bool instance = round % 2, per_group = !instance && round % 4 == 0, along[QN_MAX_RANK] = {false, false, true, true};
		c = dim[1] *= groups;
		const qn_tensor *x = reals(QN_F32, rank, dim, -2, 3);
		const qn_tensor *s = reals(QN_F32, 1, per_group ? &groups : &c, 0.5, 2), *b = reals(QN_F32, 1, per_group ? &groups : &c, -1, 1);
		qn_node *n = node_of(instance ? "InstanceNormalization" : "GroupNormalization", 3, 1);
		n->opset = per_group ? 18 : 21;
		qn_node_set_int(graph, n, "num_groups", groups);
		const qn_tensor *y = op_run(n, x, s, b);
		int64_t space = 1;
		for (int a = 2; a < rank; a++)
			space *= dim[a];
		/* as [N, groups, rest], where a group is a line of its own */
		qn_tensor grouped = {.type = QN_F32, .rank = 3, .dim = {dim[0], instance ? c : groups, instance ? space : c / groups * space}, .data = x->data};
		double line[1 << 13], inverse;
		for (int64_t i = 0; i < qn_tensor_count(x); i++) {
			int64_t self = 0, m = gather(&grouped, along, i, line, &self), channel = i / space % c, k = per_group ? channel / (c / groups) : channel;
			double want = normalized(line, m, self, false, &inverse) * qn_tensor_get(s, k) + qn_tensor_get(b, k);
			check_real(n->op->name, qn_tensor_get(y, i), want, 5e-6, i);
		}
	}
}

/* --- rejections ------------------------------------------------------------------------------------------------------------- */
static void refuses(qn_node *n, const qn_tensor *a, const qn_tensor *b, const char *text)
{
	const qn_tensor *x[] = {a, b, b, b, b};
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
	static const int64_t dim[] = {2, 4, 3}, far[] = {3}, twice[] = {1, -2};
	const qn_tensor *x = reals(QN_F32, 3, dim, 0, 1), *i = op_random(QN_I32, 3, dim), *s = reals(QN_F32, 1, dim, 0, 1);
	refuses(node_of("ReduceSum", 2, 1), x, op_ints(1, far), "out of range for rank 3");
	refuses(node_of("ReduceSum", 2, 1), x, op_ints(2, twice), "axis 1 is reduced twice");
	qn_node *n = node_of("Softmax", 1, 1);
	refuses(n, i, NULL, "floats are needed");
	qn_node_set_int(graph, n, "axis", 3);
	refuses(n, x, NULL, "out of range for rank 3");
	refuses(node_of("CumSum", 2, 1), x, op_ints(2, twice), "one number");
	refuses(node_of("LayerNormalization", 2, 1), i, i, "floats are needed");
	refuses(node_of("InstanceNormalization", 3, 1), x, s, "cannot be equal");
	n = node_of("GroupNormalization", 3, 1);
	qn_node_set_int(graph, n, "num_groups", 3);
	refuses(n, x, s, "does not divide the channels");
	n = node_of("BatchNormalization", 5, 1);
	qn_node_set_int(graph, n, "training_mode", 1);
	refuses(n, x, s, "training_mode");
	n = node_of("LpNormalization", 1, 1);
	qn_node_set_int(graph, n, "p", 3);
	refuses(n, x, NULL, "attribute p is 3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_reduce, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_reduce_special, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_lines, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_extremes, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_layer_norm, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_channel_norms, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_rejections, op_setup, op_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
