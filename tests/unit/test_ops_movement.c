/* test_ops_movement.c - operators that move elements, against naive references on random shapes, empty ones and large ones included. */
#include "op_fixture.h"

enum { ROUNDS = 60 };

/* --- transpose, expand, tile ---------------------------------------------------------------------------------------- */
typedef struct permuted {
	int rank;
	int64_t perm[QN_MAX_RANK];
} permuted;

static bool from_permuted(const void *user, const int64_t *out, int64_t *in)
{
	const permuted *p = user;
	for (int i = 0; i < p->rank; i++)
		in[p->perm[i]] = out[i];
	return true;
}

static void transpose_once(int rank, const int64_t *dim, qn_dtype type)
{
	permuted p = {.rank = rank};
	int64_t want[QN_MAX_RANK];
	for (int i = 0; i < rank; i++)
		p.perm[i] = i;
	for (int i = rank - 1; i > 0; i--) {
		int64_t j = draw(0, i), t = p.perm[i];
		p.perm[i] = p.perm[j];
		p.perm[j] = t;
	}
	for (int i = 0; i < rank; i++)
		want[i] = dim[p.perm[i]];
	qn_node *n = op_node("Transpose", 1, 1);
	qn_node_set_ints(graph, n, "perm", p.perm, (size_t)rank);
	qn_tensor *x = op_random(type, rank, dim), *y = op_run(n, x, NULL, NULL);
	op_check_dims(y, rank, want);
	op_check_moved("Transpose", x, y, from_permuted, &p);
}

static void test_transpose(void **state)
{
	(void)state;
	int64_t dim[QN_MAX_RANK];
	for (int i = 0; i < ROUNDS; i++) {
		int rank = op_any_shape(0, 6, i % 8 ? 1 : 0, 5, dim);
		transpose_once(rank, dim, op_any_type());
	}
	for (int i = 0; i < 4; i++) { /* tiles and threads */
		transpose_once(2, (const int64_t[]){draw(200, 400), draw(300, 500)}, QN_F32);
		transpose_once(4, (const int64_t[]){2, draw(40, 90), 12, draw(30, 70)}, op_any_type());
	}
}

static bool from_expanded(const void *user, const int64_t *out, int64_t *in)
{
	const qn_tensor *const *xy = user;
	int lead = xy[1]->rank - xy[0]->rank;
	for (int i = 0; i < xy[0]->rank; i++)
		in[i] = xy[0]->dim[i] == 1 ? 0 : out[lead + i];
	return true;
}

static void test_expand(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		int64_t dim[QN_MAX_RANK], target[QN_MAX_RANK], want[QN_MAX_RANK];
		int rank = op_any_shape(0, 4, 1, 4, dim), lead = (int)draw(0, 2), n = rank + lead;
		for (int k = 0; k < n; k++) {
			want[k] = draw(0, 4);
			if (k >= lead && draw(0, 1))
				dim[k - lead] = 1;
			else if (k >= lead)
				want[k] = dim[k - lead];
			target[k] = k >= lead && want[k] == dim[k - lead] && draw(0, 1) ? 1 : want[k];
		}
		qn_tensor *x = op_random(op_any_type(), rank, dim), *y = op_run(op_node("Expand", 2, 1), x, op_ints(n, target), NULL);
		op_check_dims(y, n, want);
		op_check_moved("Expand", x, y, from_expanded, (const qn_tensor *const[]){x, y});
	}
}

static bool from_tiled(const void *user, const int64_t *out, int64_t *in)
{
	const qn_tensor *x = user;
	for (int i = 0; i < x->rank; i++)
		in[i] = out[i] % x->dim[i];
	return true;
}

static void test_tile(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		int64_t dim[QN_MAX_RANK], repeats[QN_MAX_RANK], want[QN_MAX_RANK];
		int rank = op_any_shape(1, 5, i % 8 ? 1 : 0, 4, dim);
		for (int k = 0; k < rank; k++) {
			repeats[k] = draw(0, 3);
			want[k] = dim[k] * repeats[k];
		}
		qn_tensor *x = op_random(op_any_type(), rank, dim), *y = op_run(op_node("Tile", 2, 1), x, op_ints(rank, repeats), NULL);
		op_check_dims(y, rank, want);
		op_check_moved("Tile", x, y, from_tiled, x);
	}
}

/* --- slice, split, concat -------------------------------------------------------------------------------------------- */
typedef struct sliced {
	int rank;
	int64_t first[QN_MAX_RANK], step[QN_MAX_RANK];
} sliced;

static bool from_sliced(const void *user, const int64_t *out, int64_t *in)
{
	const sliced *s = user;
	for (int i = 0; i < s->rank; i++)
		in[i] = s->first[i] + out[i] * s->step[i];
	return true;
}

/* Walks as Python does. */
static int64_t python_range(int64_t size, int64_t start, int64_t end, int64_t step, int64_t *first)
{
	int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1, n = 0;
	start = start < 0 ? (start < -size ? low : start + size) : start;
	end = end < 0 ? (end < -size ? low : end + size) : end;
	start = start < low ? low : start > high ? high : start;
	end = end < low ? low : end > high ? high : end;
	*first = start;
	for (int64_t i = start; step > 0 ? i < end : i > end; i += step)
		n++;
	return n;
}

static int64_t any_bound(int64_t size)
{
	static const int64_t far[] = {INT64_MAX, INT64_MIN, INT32_MAX, INT32_MIN, INT64_MAX - 1, -INT64_MAX};
	return draw(0, 3) ? draw(-size - 2, size + 2) : far[draw(0, 5)];
}

static void test_slice(void **state)
{
	(void)state;
	for (int i = 0; i < 4 * ROUNDS; i++) {
		int64_t dim[QN_MAX_RANK], want[QN_MAX_RANK], start[QN_MAX_RANK], end[QN_MAX_RANK], axes[QN_MAX_RANK], steps[QN_MAX_RANK];
		int rank = op_any_shape(1, 4, i % 8 ? 1 : 0, 6, dim), n = (int)draw(1, rank);
		sliced s = {.rank = rank};
		for (int k = 0; k < rank; k++) {
			s.step[k] = 1;
			want[k] = dim[k];
		}
		for (int k = 0; k < n; k++) { /* the last n axes, in reverse order, some negative */
			int a = rank - 1 - k;
			axes[k] = draw(0, 1) ? a : a - rank;
			start[k] = any_bound(dim[a]);
			end[k] = any_bound(dim[a]);
			steps[k] = s.step[a] = (int[]){1, 1, 2, 3, -1, -2, 7}[draw(0, 6)];
			want[a] = python_range(dim[a], start[k], end[k], steps[k], &s.first[a]);
		}
		qn_tensor *x = op_random(op_any_type(), rank, dim);
		qn_tensor y[1];
		const qn_tensor *in[] = {x, op_ints(n, start), op_ints(n, end), op_ints(n, axes), op_ints(n, steps)};
		if (qn_exec_node(&ctx, graph->dims, op_node("Slice", 5, 1), in, &arena, y, NULL) != QUERN_OK)
			fail_msg("%s", ctx.message);
		op_check_dims(y, rank, want);
		op_check_moved("Slice", x, y, from_sliced, &s);
	}
}

static void test_split_concat(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		int64_t dim[QN_MAX_RANK], sizes[3];
		int rank = op_any_shape(1, 4, i % 8 ? 1 : 0, 4, dim), axis = (int)draw(0, rank - 1);
		sizes[0] = draw(0, 3), sizes[1] = draw(0, 3), sizes[2] = draw(1, 3);
		dim[axis] = sizes[0] + sizes[1] + sizes[2];
		qn_tensor *x = op_random(op_any_type(), rank, dim);
		qn_node *split = op_node("Split", 2, 3), *concat = op_node("Concat", 3, 1);
		qn_node_set_int(graph, split, "axis", axis - rank);
		qn_node_set_int(graph, concat, "axis", axis);
		qn_tensor *y = op_run(split, x, op_ints(3, sizes), NULL);
		sliced s = {.rank = rank};
		for (int k = 0; k < rank; k++)
			s.step[k] = 1;
		for (int k = 0; k < 3; k++) {
			assert_int_equal(y[k].dim[axis], sizes[k]);
			op_check_moved("Split", x, &y[k], from_sliced, &s);
			s.first[axis] += sizes[k];
		}
		qn_tensor *back = op_run(concat, &y[0], &y[1], &y[2]);
		op_check_dims(back, rank, dim);
		assert_memory_equal(back->data, x->data, qn_tensor_bytes(x));
	}
}

/* --- gathers ------------------------------------------------------------------------------------------------------------- */
typedef struct gathered {
	const qn_tensor *x, *index;
	int axis, batch;
} gathered;

static int64_t index_at(const qn_tensor *t, const int64_t *at, int64_t size)
{
	int64_t v = ((const int64_t *)t->data)[op_offset(t, at)];
	return v < 0 ? v + size : v;
}

static qn_tensor *any_indices(int rank, const int64_t *dim, int64_t size)
{
	qn_tensor *t = qn_tensor_new(&arena, QN_I64, rank, dim);
	int64_t n = qn_tensor_count(t);
	for (int64_t i = 0; i < n; i++)
		((int64_t *)op_data(t))[i] = draw(-size, size - 1);
	return t;
}

static bool from_gathered(const void *user, const int64_t *out, int64_t *in)
{
	const gathered *g = user;
	for (int k = 0, to = 0; k < g->x->rank; k++) {
		in[k] = k == g->axis ? index_at(g->index, out + to, g->x->dim[k]) : out[to];
		to += k == g->axis ? g->index->rank : 1;
	}
	return true;
}

static bool from_elements(const void *user, const int64_t *out, int64_t *in)
{
	const gathered *g = user;
	for (int k = 0; k < g->x->rank; k++)
		in[k] = k == g->axis ? index_at(g->index, out, g->x->dim[k]) : out[k];
	return true;
}

static bool from_tuples(const void *user, const int64_t *out, int64_t *in)
{
	const gathered *g = user;
	int lead = g->index->rank - 1, depth = (int)g->index->dim[lead];
	int64_t at[QN_MAX_RANK];
	memcpy(at, out, sizeof *at * (size_t)lead);
	for (int k = 0; k < g->x->rank; k++) {
		at[lead] = k - g->batch;
		if (k < g->batch)
			in[k] = out[k];
		else
			in[k] = k < g->batch + depth ? index_at(g->index, at, g->x->dim[k]) : out[lead + k - g->batch - depth];
	}
	return true;
}

static void test_gather(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		int64_t dim[QN_MAX_RANK], idim[QN_MAX_RANK];
		int rank = op_any_shape(1, 4, 1, 5, dim), irank = op_any_shape(0, 3, i % 8 ? 1 : 0, 4, idim);
		gathered g = {op_random(op_any_type(), rank, dim), NULL, (int)draw(0, rank - 1), 0};
		g.index = any_indices(irank, idim, dim[g.axis]);
		qn_node *n = op_node("Gather", 2, 1);
		qn_node_set_int(graph, n, "axis", draw(0, 1) ? g.axis : g.axis - rank);
		op_check_moved("Gather", g.x, op_run(n, g.x, g.index, NULL), from_gathered, &g);

		for (int k = 0; k < rank; k++)
			idim[k] = k == g.axis ? draw(0, 6) : draw(0, dim[k]);
		g.index = any_indices(rank, idim, dim[g.axis]);
		n = op_node("GatherElements", 2, 1);
		qn_node_set_int(graph, n, "axis", g.axis);
		op_check_moved("GatherElements", g.x, op_run(n, g.x, g.index, NULL), from_elements, &g);
	}
}

static void test_gather_nd(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		int64_t dim[QN_MAX_RANK], idim[QN_MAX_RANK];
		int rank = op_any_shape(1, 4, 1, 4, dim), batch = (int)draw(0, rank - 1), depth = (int)draw(1, rank - batch);
		int irank = batch + (int)draw(0, 2) + 1;
		for (int k = 0; k < irank; k++)
			idim[k] = k < batch ? dim[k] : draw(i % 8 ? 1 : 0, 3);
		idim[irank - 1] = depth;
		int64_t least = 4;
		for (int k = batch; k < batch + depth; k++)
			least = dim[k] < least ? dim[k] : least;
		gathered g = {op_random(op_any_type(), rank, dim), any_indices(irank, idim, least), 0, batch};
		qn_node *n = op_node("GatherND", 2, 1);
		qn_node_set_int(graph, n, "batch_dims", batch);
		op_check_moved("GatherND", g.x, op_run(n, g.x, g.index, NULL), from_tuples, &g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_transpose, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_expand, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_tile, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_slice, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_split_concat, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_gather, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_gather_nd, op_setup, op_teardown),
	};
	return cmocka_run_group_tests_name("ops_movement", tests, NULL, NULL);
}
