/* test_ops_scatter.c - operators that write to chosen places or choose by value, against naive references. */
#include "op_fixture.h"

enum { ROUNDS = 60 };

static double combine(int how, double old, double new)
{
	switch (how) {
	case 1:
		return old + new;
	case 2:
		return old * new;
	case 3:
		return old < new ? old : new;
	case 4:
		return old > new ? old : new;
	default:
		return new;
	}
}

static const char *const reductions[] = {"none", "add", "mul", "min", "max"};

static void check_equal(const char *what, const qn_tensor *y, const double *want)
{
	int64_t n = qn_tensor_count(y);
	for (int64_t i = 0; i < n; i++)
		if (qn_tensor_get(y, i) != want[i])
			fail_msg("%s: element %lld is %g, expected %g", what, (long long)i, qn_tensor_get(y, i), want[i]);
}

static double *values_of(const qn_tensor *t)
{
	int64_t n = qn_tensor_count(t);
	double *v = QN_NEW(&arena, double, n + 1);
	for (int64_t i = 0; i < n; i++)
		v[i] = qn_tensor_get(t, i);
	return v;
}

static void test_scatter_elements(void **state)
{
	(void)state;
	static const qn_dtype types[] = {QN_F32, QN_F64, QN_I64, QN_I32};
	for (int i = 0; i < 2 * ROUNDS; i++) {
		int64_t dim[QN_MAX_RANK], idim[QN_MAX_RANK], at[QN_MAX_RANK] = {0};
		int rank = op_any_shape(1, 3, 1, 5, dim), axis = (int)draw(0, rank - 1), how = i % 5;
		for (int k = 0; k < rank; k++)
			idim[k] = draw(i % 8 ? 1 : 0, dim[k]);
		qn_dtype type = types[draw(0, 3)];
		qn_tensor *x = op_random(type, rank, dim), *u = op_random(type, rank, idim),
			  *index = qn_tensor_new(&arena, QN_I64, rank, idim);
		double *want = values_of(x);
		int64_t n = 0;
		if (qn_tensor_count(u)) {
			do {
				int64_t v = how ? draw(-dim[axis], dim[axis] - 1)
						: at[axis] - draw(0, 1) * dim[axis]; /* without a reduction: no place twice */
				int64_t to[QN_MAX_RANK];
				memcpy(to, at, sizeof to);
				to[axis] = v < 0 ? v + dim[axis] : v;
				((int64_t *)op_data(index))[n] = v;
				qn_tensor_set(op_data(u), type, n, (double)draw(0, 2));
				want[op_offset(x, to)] = combine(how, want[op_offset(x, to)], qn_tensor_get(u, n));
				n++;
			} while (op_next(rank, idim, at));
		}
		qn_node *node = op_node("ScatterElements", 3, 1);
		qn_node_set_int(graph, node, "axis", axis);
		qn_node_set_string(graph, node, "reduction", reductions[how]);
		check_equal(reductions[how], op_run(node, x, index, u), want);
	}
}

static void test_scatter_nd(void **state)
{
	(void)state;
	for (int i = 0; i < 2 * ROUNDS; i++) {
		int64_t dim[QN_MAX_RANK], run = 1, n = draw(i % 8 ? 1 : 0, 3), places = 1;
		int rank = op_any_shape(1, 3, 1, 4, dim), depth = (int)draw(1, rank), how = i % 5;
		int64_t udim[QN_MAX_RANK] = {n}, idim[2] = {n, depth};
		for (int k = 0; k < depth; k++)
			places *= dim[k];
		if (!how && n > places)
			idim[0] = udim[0] = n = places;
		for (int k = depth; k < rank; k++)
			run *= udim[1 + k - depth] = dim[k];
		qn_tensor *x = op_random(QN_F32, rank, dim), *u = op_random(QN_F32, 1 + rank - depth, udim),
			  *index = qn_tensor_new(&arena, QN_I64, 2, idim);
		double *want = values_of(x);
		for (int64_t t = 0; t < n; t++) {
			int64_t place = how ? draw(0, places - 1) : t, rest = place;
			for (int k = depth - 1; k >= 0; k--) {
				((int64_t *)op_data(index))[t * depth + k] = rest % dim[k] - draw(0, 1) * dim[k];
				rest /= dim[k];
			}
			for (int64_t k = 0; k < run; k++) {
				double *w = &want[place * run + k];
				*w = combine(how, *w, qn_tensor_get(u, t * run + k));
				*w = (double)(float)*w;
			}
		}
		qn_node *node = op_node("ScatterND", 3, 1);
		qn_node_set_string(graph, node, "reduction", reductions[how]);
		check_equal(reductions[how], op_run(node, x, index, u), want);
	}
}

static void test_topk(void **state)
{
	(void)state;
	for (int i = 0; i < 2 * ROUNDS; i++) {
		int64_t dim[QN_MAX_RANK], at[QN_MAX_RANK] = {0};
		int rank = op_any_shape(1, 3, 1, i % 10 ? 6 : 30, dim), axis = (int)draw(0, rank - 1), largest = i % 2;
		int64_t k = draw(0, dim[axis]);
		qn_node *node = op_node("TopK", 2, 2);
		qn_node_set_int(graph, node, "axis", axis - rank);
		qn_node_set_int(graph, node, "largest", largest);
		qn_tensor *x = op_random(op_any_type(), rank, dim), *y = op_run(node, x, op_ints(1, &k), NULL);
		assert_int_equal(y[0].dim[axis], k);
		if (!k)
			continue;
		int64_t n = 0;
		do { /* the place of an element among its row is the number of better ones */
			int64_t other[QN_MAX_RANK];
			memcpy(other, at, sizeof other);
			int64_t from = other[axis] = ((const int64_t *)y[1].data)[n], better = 0;
			double v = qn_tensor_get(x, op_offset(x, other));
			for (other[axis] = 0; other[axis] < dim[axis]; other[axis]++) {
				double w = qn_tensor_get(x, op_offset(x, other));
				better += (largest ? w > v : w < v) || (w == v && other[axis] < from);
			}
			assert_int_equal(better, at[axis]);
			assert_true(qn_tensor_get(&y[0], n++) == v);
		} while (op_next(rank, y[0].dim, at));
	}
}

static void test_non_zero_compress(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		int64_t dim[QN_MAX_RANK], at[QN_MAX_RANK] = {0}, n = 0, found = 0;
		int rank = op_any_shape(1, 3, i % 8 ? 1 : 0, 5, dim);
		qn_tensor *x = op_random(QN_F32, rank, dim), *keep;
		int64_t count = qn_tensor_count(x);
		keep = qn_tensor_new(&arena, QN_BOOL, 1, &count);
		for (int64_t k = 0; k < count; k++) {
			((uint8_t *)op_data(keep))[k] = draw(0, 1) != 0;
			if (!((uint8_t *)op_data(keep))[k])
				((float *)op_data(x))[k] = 0;
			else
				((float *)op_data(x))[k] += 1;
		}
		qn_tensor *y = op_run(op_node("NonZero", 1, 1), x, NULL, NULL), *z = op_run(op_node("Compress", 2, 1), x, keep, NULL);
		assert_int_equal(y->dim[0], rank);
		assert_int_equal(y->dim[1], z->dim[0]);
		do {
			if (count == 0 || ((const float *)x->data)[n++] == 0)
				continue;
			for (int k = 0; k < rank; k++)
				assert_int_equal(((const int64_t *)y->data)[k * y->dim[1] + found], at[k]);
			assert_true(((const float *)z->data)[found++] == ((const float *)x->data)[n - 1]);
		} while (op_next(rank, dim, at));
		assert_int_equal(found, y->dim[1]);
	}
}

static void test_unique(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		int64_t n = draw(i % 8 ? 1 : 0, 20);
		qn_node *node = op_node("Unique", 1, 4);
		qn_node_set_int(graph, node, "sorted", i % 2);
		qn_tensor *x = op_random(QN_I64, 1, &n), *y;
		int64_t *v = op_data(x);
		for (int64_t k = 0; k < n; k++)
			v[k] %= 7;
		y = op_run(node, x, NULL, NULL);
		const int64_t *u = y[0].data, *first = y[1].data, *of = y[2].data, *count = y[3].data, groups = y[0].dim[0];
		int64_t sum = 0;
		assert_int_equal(y[2].dim[0], n);
		for (int64_t k = 0; k < n; k++) {
			assert_int_equal(u[of[k]], v[k]);
			assert_true(first[of[k]] <= k);
		}
		for (int64_t k = 0; k < groups; k++) {
			assert_int_equal(v[first[k]], u[k]);
			assert_true(k == 0 || (i % 2 ? u[k] > u[k - 1] : first[k] > first[k - 1]));
			sum += count[k];
		}
		assert_int_equal(sum, n);
	}
}

static void test_one_hot(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		int64_t dim[QN_MAX_RANK], depth = draw(0, 5), at[QN_MAX_RANK] = {0}, n = 0;
		int rank = op_any_shape(0, 2, 1, 4, dim), axis = (int)draw(0, rank);
		qn_node *node = op_node("OneHot", 3, 1);
		qn_node_set_int(graph, node, "axis", axis - rank - 1);
		qn_tensor *x = qn_tensor_new(&arena, QN_I64, rank, dim), *values = op_ints(2, (const int64_t[]){-3, 9});
		int64_t count = qn_tensor_count(x);
		for (int64_t k = 0; k < count; k++)
			((int64_t *)op_data(x))[k] = draw(-depth - 2, depth + 1);
		qn_tensor *y = op_run(node, x, qn_tensor_scalar_i64(&arena, depth), values);
		if (!depth)
			continue;
		do {
			int64_t from[QN_MAX_RANK] = {0}, k = 0;
			for (int d = 0; d <= rank; d++)
				if (d != axis)
					from[k++] = at[d];
			int64_t v = ((const int64_t *)x->data)[op_offset(x, from)];
			bool on = v >= -depth && v < depth && (v < 0 ? v + depth : v) == at[axis];
			assert_int_equal(((const int64_t *)y->data)[n++], on ? 9 : -3);
		} while (op_next(rank + 1, y->dim, at));
	}
}

static void test_range(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		int64_t start = draw(-9, 9), limit = draw(-9, 9), step = draw(1, 4) * (draw(0, 1) ? 1 : -1), n = 0;
		qn_tensor *y = op_run(op_node("Range", 3, 1), qn_tensor_scalar_i64(&arena, start), qn_tensor_scalar_i64(&arena, limit),
			qn_tensor_scalar_i64(&arena, step));
		for (int64_t v = start; step > 0 ? v < limit : v > limit; v += step)
			assert_int_equal(((const int64_t *)y->data)[n++], v);
		assert_int_equal(y->dim[0], n);
		qn_tensor *f = op_run(op_node("Range", 3, 1), qn_tensor_scalar_f32(&arena, (float)start / 2),
			qn_tensor_scalar_f32(&arena, (float)limit / 2), qn_tensor_scalar_f32(&arena, (float)step / 2));
		assert_int_equal(f->dim[0], n);
		for (int64_t k = 0; k < n; k++)
			assert_true(((const float *)f->data)[k] == (float)(start + k * step) / 2);
	}
}

static void test_tensor_scatter(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		int64_t size = draw(1, 6), steps = draw(0, size), dim[3] = {draw(1, 3), size, draw(1, 3)},
			udim[3] = {dim[0], steps, dim[2]};
		bool circular = i % 2;
		qn_node *node = op_node("TensorScatter", 3, 1);
		qn_node_set_string(graph, node, "mode", circular ? "circular" : "linear");
		qn_tensor *x = op_random(QN_F32, 3, dim), *u = op_random(QN_F32, 3, udim), *at = qn_tensor_new(&arena, QN_I64, 1, dim);
		double *want = values_of(x);
		for (int64_t b = 0; b < dim[0]; b++) {
			int64_t start = ((int64_t *)op_data(at))[b] = draw(0, circular ? 3 * size : size - steps);
			for (int64_t s = 0; s < steps; s++)
				for (int64_t k = 0; k < dim[2]; k++)
					want[(b * size + (start + s) % size) * dim[2] + k] = qn_tensor_get(u, (b * steps + s) * dim[2] + k);
		}
		check_equal("TensorScatter", op_run(node, x, u, at), want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_scatter_elements, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_scatter_nd, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_topk, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_non_zero_compress, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_unique, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_one_hot, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_range, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_tensor_scatter, op_setup, op_teardown),
	};
	return cmocka_run_group_tests_name("ops_scatter", tests, NULL, NULL);
}
