/* test_ops_contract.c - matrix products of every kind against naive references on random shapes, and what their rules refuse. */
#include "op_fixture.h"

#include "graph/ops/_gemm.h"

#include <math.h>

enum { ROUNDS = 60 };

static qn_node *quern_node(const char *op, int n_in)
{
	qn_value *in[8];
	for (int i = 0; i < n_in; i++)
		in[i] = qn_graph_value(graph, NULL);
	const qn_op *row = qn_op_find("quern", op);
	assert_non_null(row);
	return qn_graph_node(graph, NULL, row, "the_node", in, n_in, 1);
}

/* Values in [-2, 2] with few bits, whole numbers for integers: sums of any order are exact in f32. */
static qn_tensor *small(qn_dtype type, int rank, const int64_t *dim)
{
	qn_tensor *t = qn_tensor_new(&arena, type, rank, dim);
	for (int64_t i = 0; i < qn_tensor_count(t); i++)
		qn_tensor_set(op_data(t), type, i, qn_dtype_is_float(type) ? (double)draw(-8, 8) / 4 : (double)draw(0, 9));
	return t;
}

static void expect(const char *what, const qn_tensor *y, int64_t i, double want, double tolerance)
{
	double got = qn_tensor_get(y, i);
	if (!(fabs(got - want) <= tolerance))
		fail_msg("%s: element %lld is %g, expected %g (random state %llu)", what, (long long)i, got, want, (unsigned long long)seed);
}

static void expect_failure(const qn_node *n, const qn_fact *in, const char *text)
{
	qn_fact out[3] = {{QN_NONE, {0, {{0}}}, NULL}};
	assert_int_not_equal(op_infer(n, in, out), QUERN_OK);
	if (!strstr(ctx.message, text) || !strstr(ctx.message, "the_node"))
		fail_msg("'%s' does not name the node and '%s'", ctx.message, text);
}

/* --- MatMul --------------------------------------------------------------------------------------------------------- */
/* Element [batch.., row, column] of an operand, its leading axes broadcast. */
static double matrix_at(const qn_tensor *t, const int64_t *batch, int lead, int64_t row, int64_t column, bool left)
{
	int64_t index[QN_MAX_RANK] = {0};
	int own = t->rank > 2 ? t->rank - 2 : 0;
	for (int i = 0; i < own; i++)
		index[i] = t->dim[i] == 1 ? 0 : batch[lead - own + i];
	if (t->rank == 1)
		index[0] = left ? column : row;
	else
		index[t->rank - 2] = row, index[t->rank - 1] = column;
	return qn_tensor_get(t, op_offset(t, index));
}

static void matmul_once(qn_dtype type, int rank_a, int rank_b, int64_t most)
{
	int64_t da[QN_MAX_RANK], db[QN_MAX_RANK], k = draw(0, most), m = draw(1, most), n = draw(1, most), batch[QN_MAX_RANK] = {0};
	int lead_a = rank_a > 2 ? rank_a - 2 : 0, lead_b = rank_b > 2 ? rank_b - 2 : 0, lead = lead_a > lead_b ? lead_a : lead_b;
	for (int i = 0; i < lead; i++) {
		int64_t d = draw(1, 3);
		if (i >= lead - lead_a)
			da[i - lead + lead_a] = draw(0, 2) ? d : 1;
		if (i >= lead - lead_b)
			db[i - lead + lead_b] = draw(0, 2) ? d : 1;
	}
	if (rank_a > 1)
		da[rank_a - 2] = m;
	da[rank_a - 1] = k;
	db[rank_b > 1 ? rank_b - 2 : 0] = k;
	if (rank_b > 1)
		db[rank_b - 1] = n;
	qn_tensor *a = small(type, rank_a, da), *b = small(type, rank_b, db), *y = op_run(op_node("MatMul", 2, 1), a, b, NULL);
	assert_int_equal(y->type, type);
	assert_int_equal(y->rank, lead + (rank_a > 1) + (rank_b > 1));
	m = rank_a > 1 ? m : 1, n = rank_b > 1 ? n : 1;
	for (int64_t i = 0; i < qn_tensor_count(y); i++) {
		double sum = 0;
		int64_t rest = i / n / m;
		for (int d = lead - 1; d >= 0; d--) {
			batch[d] = rest % y->dim[d];
			rest /= y->dim[d];
		}
		for (int64_t q = 0; q < k; q++)
			sum += matrix_at(a, batch, lead, i / n % m, q, true) * matrix_at(b, batch, lead, q, i % n, false);
		expect("MatMul", y, i, sum, type == QN_F16 || type == QN_BF16 ? 0.01 * fabs(sum) : 0);
	}
}

static void test_matmul(void **state)
{
	(void)state;
	static const qn_dtype types[] = {QN_F32, QN_F64, QN_I32, QN_I64, QN_U32, QN_U64, QN_F16, QN_BF16};
	for (int i = 0; i < ROUNDS; i++)
		for (int a = 1; a <= 4; a++)
			matmul_once(types[i % 8], a, (int)draw(1, 4), 7);
	for (int i = 0; i < 4; i++)
		matmul_once(QN_F32, 2, 2, 500);
}

static void test_matmul_rules(void **state)
{
	(void)state;
	qn_node *n = op_node("MatMul", 2, 1);
	qn_fact out, in[2] = {op_fact(QN_F32, "B,1,S,8"), op_fact(QN_F32, "4,8,T")};
	assert_int_equal(op_infer(n, in, &out), QUERN_OK);
	qn_shape want = op_shape("B,4,S,T");
	assert_true(qn_shape_equal(&out.shape, &want));
	in[0] = op_fact(QN_F32, "");
	expect_failure(n, in, "rank 0");
	in[0] = op_fact(QN_F32, "2,3");
	expect_failure(n, in, "contraction");
	in[0] = op_fact(QN_F64, "2,8");
	expect_failure(n, in, "type");
	in[0] = op_fact(QN_F32, "K"); /* a symbol is bound by the other operand */
	assert_int_equal(op_infer(n, in, &out), QUERN_OK);
	assert_true(qn_dim_is(qn_dim_resolve(graph->dims, in[0].shape.dim[0]), 8));
}

/* The same bits at any number of threads, and wherever a tile ends. */
static void test_threads(void **state)
{
	(void)state;
	int64_t m = 300, n = 500, k = 129;
	float *a = QN_NEW(&arena, float, m * k), *b = QN_NEW(&arena, float, k * n), *y[3];
	for (int64_t i = 0; i < m * k; i++)
		a[i] = (float)draw(-1000, 1000) / 999;
	for (int64_t i = 0; i < n * k; i++)
		b[i] = (float)draw(-1000, 1000) / 777;
	qn_gemm g = {.type = QN_F32, .m = m, .n = n, .k = k, .lda = k, .ldb = n, .ldc = n, .batch = 1};
	for (int t = 0; t < 3; t++) {
		y[t] = QN_NEW(&arena, float, m * n);
		qn_gemm_run(&g, t + 1, a, b, y[t]);
		assert_memory_equal(y[t], y[0], (size_t)(m * n) * sizeof(float));
	}
}

/* --- Gemm ----------------------------------------------------------------------------------------------------------- */
static void test_gemm(void **state)
{
	(void)state;
	static const qn_dtype types[] = {QN_F32, QN_F64, QN_I32, QN_I64, QN_F32};
	for (int i = 0; i < ROUNDS; i++) {
		qn_dtype type = types[i % 5];
		int64_t m = draw(1, 6), n = draw(1, 6), k = draw(0, 6), shape_c[2] = {draw(0, 1) ? m : 1, draw(0, 1) ? n : 1};
		bool ta = draw(0, 1), tb = draw(0, 1), whole = !qn_dtype_is_float(type);
		int rank_c = (int)draw(0, 2);
		float alpha = whole ? 2 : 0.5f, beta = (float)draw(0, 2);
		qn_node *node = op_node("Gemm", 3, 1);
		qn_node_set_int(graph, node, "transA", ta);
		qn_node_set_int(graph, node, "transB", tb);
		qn_node_set_float(graph, node, "alpha", alpha);
		qn_node_set_float(graph, node, "beta", beta);
		qn_tensor *a = small(type, 2, (const int64_t[]){ta ? k : m, ta ? m : k}), *b = small(type, 2, (const int64_t[]){tb ? n : k, tb ? k : n});
		qn_tensor *c = draw(0, 3) ? small(type, rank_c, shape_c + 2 - rank_c) : NULL, *y = op_run(node, a, b, c);
		op_check_dims(y, 2, (const int64_t[]){m, n});
		for (int64_t e = 0; e < m * n; e++) {
			double sum = 0;
			for (int64_t q = 0; q < k; q++)
				sum += qn_tensor_get(a, ta ? q * m + e / n : e / n * k + q) * qn_tensor_get(b, tb ? e % n * k + q : q * n + e % n);
			int64_t row = rank_c == 2 && shape_c[0] > 1 ? e / n : 0, column = rank_c > 0 && shape_c[1] > 1 ? e % n : 0;
			double extra = c ? (double)beta * qn_tensor_get(c, row * (rank_c > 0 ? shape_c[1] : 1) + column) : 0;
			expect("Gemm", y, e, (double)alpha * sum + extra, 1e-6);
		}
	}
}

static void test_gemm_rules(void **state)
{
	(void)state;
	qn_node *n = op_node("Gemm", 2, 1);
	qn_fact in[2] = {op_fact(QN_F32, "2,3"), op_fact(QN_F32, "")};
	expect_failure(n, in, "rank 0");
	in[1] = op_fact(QN_F32, "3,4");
	qn_node_set_int(graph, n, "transB", 823);
	expect_failure(n, in, "823");
	qn_node_set_int(graph, n, "transB", 1);
	expect_failure(n, in, "contraction");
}

/* --- Einsum --------------------------------------------------------------------------------------------------------- */
/* The sum over all labels, one letter an axis. */
static void einsum_once(const char *equation, const char *left, const char *right, const char *out)
{
	int64_t size[128], dl[QN_MAX_RANK], dr[QN_MAX_RANK], dy[QN_MAX_RANK], at[128] = {0};
	char letters[64] = "";
	for (const char *s = left; *s; s++)
		if (!strchr(letters, *s))
			strncat(letters, s, 1);
	for (const char *s = right; *s; s++)
		if (!strchr(letters, *s))
			strncat(letters, s, 1);
	for (const char *s = letters; *s; s++)
		size[(int)*s] = draw(1, 4);
	int nl = (int)strlen(left), nr = (int)strlen(right), ny = (int)strlen(out), nletters = (int)strlen(letters);
	for (int i = 0; i < nl; i++)
		dl[i] = size[(int)left[i]];
	for (int i = 0; i < nr; i++)
		dr[i] = size[(int)right[i]];
	for (int i = 0; i < ny; i++)
		dy[i] = size[(int)out[i]];
	qn_node *n = op_node("Einsum", nr ? 2 : 1, 1);
	qn_node_set_string(graph, n, "equation", equation);
	qn_tensor *a = small(QN_F32, nl, dl), *b = nr ? small(QN_F32, nr, dr) : NULL, *y = op_run(n, a, b, NULL);
	qn_tensor *want = qn_tensor_new(&arena, QN_F64, ny, dy);
	op_check_dims(y, ny, dy);
	int64_t total = 1;
	for (int i = 0; i < nletters; i++)
		total *= size[(int)letters[i]];
	for (int64_t p = 0; p < total; p++) {
		int64_t rest = p, il[QN_MAX_RANK], ir[QN_MAX_RANK], iy[QN_MAX_RANK];
		for (int i = 0; i < nletters; i++) {
			at[(int)letters[i]] = rest % size[(int)letters[i]];
			rest /= size[(int)letters[i]];
		}
		for (int i = 0; i < nl; i++)
			il[i] = at[(int)left[i]];
		for (int i = 0; i < nr; i++)
			ir[i] = at[(int)right[i]];
		for (int i = 0; i < ny; i++)
			iy[i] = at[(int)out[i]];
		((double *)op_data(want))[op_offset(want, iy)] += qn_tensor_get(a, op_offset(a, il)) * (b ? qn_tensor_get(b, op_offset(b, ir)) : 1);
	}
	for (int64_t i = 0; i < qn_tensor_count(y); i++)
		expect(equation, y, i, qn_tensor_get(want, i), 0);
}

static void test_einsum(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		einsum_once("bhqd,bhkd->bhqk", "bhqd", "bhkd", "bhqk");
		einsum_once("...ij,...jk", "abij", "abjk", "abik");
		einsum_once("b...d,d->...b", "bxyd", "d", "xyb");
		einsum_once("ii->i", "ii", "", "i");
		einsum_once("bii", "bii", "", "b");
		einsum_once("ij->", "ij", "", "");
		einsum_once(" i j , k l -> l i ", "ij", "kl", "li");
		einsum_once("iij,jk->ki", "iij", "jk", "ki");
		einsum_once("i,i", "i", "i", "");
		einsum_once("Ba,aC", "Ba", "aC", "BC");
		einsum_once("ij,ij->ji", "ij", "ij", "ji");
	}
	qn_node *n = op_node("Einsum", 2, 1);
	qn_fact in[2] = {op_fact(QN_F32, "2,3"), op_fact(QN_F32, "4,5")};
	static const struct {
		const char *equation, *text;
	} wrong[] = {{"ij,jk->ik", "label"}, {"ijk,kl", "rank 2"}, {"ij", "2 operands"}, {"ij,kl,mn", "2 operands"}, {"ij,kl->iz", "no operand"},
		{"i.j,kl", "dots"}, {"ij,kl-ik", "'>'"}, {"ij1,kl", "'1'"}, {"ij,kl->ii", "repeats"}};
	for (size_t i = 0; i < QN_LEN(wrong); i++) {
		qn_node_set_string(graph, n, "equation", wrong[i].equation);
		expect_failure(n, in, wrong[i].text);
	}
}

/* --- target-level layers ----------------------------------------------------------------------------------------------- */
static qn_tensor *as_type(const qn_tensor *t, qn_dtype type)
{
	qn_tensor *u = qn_tensor_new(&arena, type, t->rank, t->dim);
	qn_convert(t->data, t->type, op_data(u), type, qn_tensor_count(t));
	return u;
}

static void test_linear(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		int64_t dim[QN_MAX_RANK], n = draw(1, 9), k = draw(1, 40), rows = 1;
		int rank = op_any_shape(1, 5, 1, 3, dim);
		dim[rank - 1] = k;
		for (int d = 0; d + 1 < rank; d++)
			rows *= dim[d];
		qn_tensor *x = small(QN_F32, rank, dim), *w = small(QN_F32, 2, (const int64_t[]){n, k}), *bias = draw(0, 1) ? small(QN_F32, 1, &n) : NULL;
		qn_tensor *y = op_run(quern_node("Linear", 3), x, i % 2 ? as_type(w, QN_F16) : w, bias);
		for (int64_t e = 0; e < rows * n; e++) {
			double sum = bias ? qn_tensor_get(bias, e % n) : 0;
			for (int64_t q = 0; q < k; q++)
				sum += qn_tensor_get(x, e / n * k + q) * qn_tensor_get(w, e % n * k + q);
			expect("Linear", y, e, sum, 0);
		}
	}
}

/* Integer arithmetic on rows that are scaled at run time: within half a step of either operand, over several slices of exact sums. */
static void test_linear_i8_rows(void **state)
{
	(void)state;
	for (int i = 0; i < 24; i++) {
		int64_t rows = draw(1, 4), n = draw(1, 5), k = draw(1, 2500), limbs = 1 + i % 2;
		qn_tensor *x = qn_tensor_new(&arena, QN_F32, 2, (const int64_t[]){rows, k});
		qn_tensor *w = qn_tensor_new(&arena, QN_I8, 2, (const int64_t[]){n, k});
		qn_tensor *scale = qn_tensor_new(&arena, QN_F32, 1, &n);
		for (int64_t e = 0; e < rows * k; e++)
			((float *)op_data(x))[e] = e / k == 1 ? 0 : (float)draw(-100000, 100000) / 3.0f;
		for (int64_t e = 0; e < n * k; e++)
			((int8_t *)op_data(w))[e] = (int8_t)draw(-127, 127);
		for (int64_t e = 0; e < n; e++)
			((float *)op_data(scale))[e] = (float)draw(1, 100) / 1000;
		qn_node *node = quern_node("LinearI8Rows", 3);
		qn_node_set_int(graph, node, "limbs", limbs);
		qn_tensor *y = op_run(node, x, w, scale);
		for (int64_t e = 0; e < rows * n; e++) {
			double sum = 0, weights = 0, most = 0, unit;
			for (int64_t q = 0; q < k; q++) {
				double v = qn_tensor_get(x, e / n * k + q), c = qn_tensor_get(w, e % n * k + q);
				sum += v * c, weights += fabs(c), most = fabs(v) > most ? fabs(v) : most;
			}
			unit = most / (limbs == 2 ? 32639 : 127);
			double s = qn_tensor_get(scale, e % n);
			expect("LinearI8Rows", y, e, sum * s, (0.51 * unit * weights + 2e-6 * most * weights) * s);
		}
	}
}

static void test_embedding(void **state)
{
	(void)state;
	qn_tensor *table = small(QN_F32, 2, (const int64_t[]){11, 5});
	for (int i = 0; i < ROUNDS; i++) {
		int64_t dim[QN_MAX_RANK];
		int rank = op_any_shape(0, 3, 0, 4, dim);
		qn_tensor *ids = qn_tensor_new(&arena, i % 2 ? QN_I64 : QN_I32, rank, dim);
		for (int64_t e = 0; e < qn_tensor_count(ids); e++)
			qn_tensor_set(op_data(ids), ids->type, e, (double)draw(-11, 10));
		qn_tensor *y = op_run(quern_node("Embedding", 2), i % 3 ? table : as_type(table, QN_F16), ids, NULL);
		assert_int_equal(y->rank, rank + 1);
		for (int64_t e = 0; e < qn_tensor_count(y); e++) {
			int64_t id = qn_tensor_get_i64(ids, e / 5);
			expect("Embedding", y, e, qn_tensor_get(table, (id < 0 ? id + 11 : id) * 5 + e % 5), 0);
		}
	}
	const qn_tensor *x[2] = {table, op_ints(1, (const int64_t[]){11})};
	qn_tensor y[1];
	assert_int_equal(qn_exec_node(&ctx, graph->dims, quern_node("Embedding", 2), x, &arena, y, NULL), QUERN_ERR_SHAPE);
	assert_non_null(strstr(ctx.message, "id 11 is out of range"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_matmul, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_matmul_rules, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_threads, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_gemm, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_gemm_rules, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_einsum, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_linear, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_linear_i8_rows, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_embedding, op_setup, op_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
