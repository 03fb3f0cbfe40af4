/* test_ops_padding.c - operators that pad, cut triangles, rearrange blocks or reverse runs, against naive references on random shapes. */
#include "op_fixture.h"

enum { ROUNDS = 60 };

typedef struct padded {
	const qn_tensor *x;
	int mode;
	int64_t low[QN_MAX_RANK];
} padded;

static bool from_padded(const void *user, const int64_t *out, int64_t *in)
{
	const padded *p = user;
	for (int k = 0; k < p->x->rank; k++) {
		int64_t i = out[k] - p->low[k], n = p->x->dim[k];
		if (p->mode == 0 && (i < 0 || i >= n))
			return false;
		while (p->mode == 1 && n > 1 && (i < 0 || i >= n)) /* reflect at both ends in turn */
			i = i < 0 ? -i : 2 * (n - 1) - i;
		while (p->mode == 3 && (i < 0 || i >= n))
			i += i < 0 ? n : -n;
		in[k] = i < 0 || (p->mode == 1 && n == 1) ? 0 : i >= n ? n - 1 : i;
	}
	return true;
}

static void test_pad(void **state)
{
	(void)state;
	static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
	for (int i = 0; i < 3 * ROUNDS; i++) {
		int64_t dim[QN_MAX_RANK], pads[2 * QN_MAX_RANK];
		int rank = op_any_shape(1, 4, 1, 5, dim);
		padded p = {.x = op_random(op_any_type(), rank, dim), .mode = i % 4};
		for (int k = 0; k < rank; k++) {
			pads[k] = p.low[k] = draw(-dim[k] / 2, 4);
			pads[rank + k] = draw(-dim[k] / 2, 4);
		}
		qn_node *n = op_node("Pad", 2, 1);
		qn_node_set_string(graph, n, "mode", modes[p.mode]);
		op_check_moved(modes[p.mode], p.x, op_run(n, p.x, op_ints(2 * rank, pads), NULL), from_padded, &p);
	}
}

typedef struct triangle {
	int rank;
	bool upper;
	int64_t k;
} triangle;

static bool from_triangle(const void *user, const int64_t *out, int64_t *in)
{
	const triangle *t = user;
	memcpy(in, out, sizeof *in * (size_t)t->rank);
	int64_t d = out[t->rank - 1] - out[t->rank - 2];
	return t->upper ? d >= t->k : d <= t->k;
}

static void test_trilu(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		int64_t dim[QN_MAX_RANK];
		triangle t = {op_any_shape(2, 4, i % 8 ? 1 : 0, 6, dim), draw(0, 1) != 0,
			i % 10   ? draw(-7, 7)
			: i % 20 ? INT64_MAX
				 : INT64_MIN};
		qn_node *n = op_node("Trilu", 2, 1);
		qn_node_set_int(graph, n, "upper", t.upper);
		qn_tensor *x = op_random(op_any_type(), t.rank, dim);
		op_check_moved("Trilu", x, op_run(n, x, qn_tensor_scalar_i64(&arena, t.k), NULL), from_triangle, &t);
	}
}

static void test_blocks(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		int64_t b = draw(1, 3), dim[4] = {draw(0, 2), draw(1, 3) * b * b, draw(1, 4), draw(1, 4)};
		qn_node *deep = op_node("DepthToSpace", 1, 1), *flat = op_node("SpaceToDepth", 1, 1);
		qn_node_set_int(graph, deep, "blocksize", b);
		qn_node_set_int(graph, flat, "blocksize", b);
		if (i % 2) {
			qn_node_set_string(graph, deep, "mode", "CRD");
			qn_node_set_string(graph, flat, "mode", "CRD");
		}
		qn_tensor *x = op_random(QN_F32, 4, dim), *y = op_run(deep, x, NULL, NULL), *back = op_run(flat, y, NULL, NULL);
		op_check_dims(y, 4, (const int64_t[]){dim[0], dim[1] / (b * b), dim[2] * b, dim[3] * b});
		op_check_dims(back, 4, dim);
		assert_memory_equal(back->data, x->data, qn_tensor_bytes(x));
	}
	/* one known arrangement: channels 0..3 of a single pixel become a 2 x 2 square */
	const float square[] = {1, 2, 3, 4};
	qn_tensor x = {QN_F32, 4, {1, 4, 1, 1}, square};
	qn_node *n = op_node("DepthToSpace", 1, 1);
	qn_node_set_int(graph, n, "blocksize", 2);
	assert_memory_equal(op_run(n, &x, NULL, NULL)->data, square, sizeof square);
}

typedef struct reversed {
	const qn_tensor *x, *length;
	int time, batch;
} reversed;

static bool from_reversed(const void *user, const int64_t *out, int64_t *in)
{
	const reversed *r = user;
	memcpy(in, out, sizeof *in * (size_t)r->x->rank);
	int64_t n = ((const int64_t *)r->length->data)[out[r->batch]];
	if (out[r->time] < n)
		in[r->time] = n - 1 - out[r->time];
	return true;
}

static void test_reverse_sequence(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		int64_t dim[QN_MAX_RANK];
		int rank = op_any_shape(2, 4, 1, 5, dim), time = i % 2;
		reversed r = {op_random(op_any_type(), rank, dim), NULL, time, 1 - time};
		qn_tensor *length = qn_tensor_new(&arena, QN_I64, 1, &dim[1 - time]);
		for (int64_t k = 0; k < dim[1 - time]; k++)
			((int64_t *)op_data(length))[k] = draw(0, dim[time]);
		r.length = length;
		qn_node *n = op_node("ReverseSequence", 2, 1);
		qn_node_set_int(graph, n, "time_axis", time);
		qn_node_set_int(graph, n, "batch_axis", 1 - time);
		op_check_moved("ReverseSequence", r.x, op_run(n, r.x, length, NULL), from_reversed, &r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_pad, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_trilu, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_blocks, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_reverse_sequence, op_setup, op_teardown),
	};
	return cmocka_run_group_tests_name("ops_padding", tests, NULL, NULL);
}
