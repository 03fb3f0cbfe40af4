/* op_fixture.h - for tests of single operators: nodes made by hand, random tensors, symbolic facts written as text. */
#ifndef QN_TEST_OP_FIXTURE_H
#define QN_TEST_OP_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/exec.h"

#include <stdio.h>
#include <stdlib.h>

static qn_ctx ctx;
static qn_arena arena;
static qn_graph *graph;
static uint64_t seed;

static inline int op_setup(void **state)
{
	(void)state;
	qn_arena_init(&arena, &ctx);
	graph = qn_graph_new(&arena, &ctx, qn_dims_new(&arena));
	seed = 88172645463325252u;
	return 0;
}

static inline int op_teardown(void **state)
{
	(void)state;
	qn_arena_release(&arena);
	return 0;
}

/* In [low, high]. */
static inline int64_t draw(int64_t low, int64_t high)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return low + (int64_t)(seed >> 11) % (high - low + 1);
}

static inline qn_node *op_node(const char *op, int n_in, int n_out)
{
	qn_value *in[8];
	for (int i = 0; i < n_in; i++)
		in[i] = qn_graph_value(graph, NULL);
	const qn_op *row = qn_op_find("", op);
	assert_non_null(row);
	return qn_graph_node(graph, NULL, row, "the_node", in, n_in, n_out);
}

static inline void *op_data(const qn_tensor *t)
{
	return (void *)(uintptr_t)t->data;
}

static inline qn_tensor *op_ints(int n, const int64_t *v)
{
	return qn_tensor_i64s(&arena, v, n);
}

static inline qn_tensor *op_random(qn_dtype type, int rank, const int64_t *dim)
{
	qn_tensor *t = qn_tensor_new(&arena, type, rank, dim);
	int64_t n = qn_tensor_count(t);
	for (int64_t i = 0; i < n; i++)
		qn_tensor_set(op_data(t), type, i, (double)draw(0, 120));
	return t;
}

static inline qn_dtype op_any_type(void)
{
	static const qn_dtype types[] = {QN_U8, QN_F16, QN_F32, QN_I64, QN_I32};
	return types[draw(0, 4)];
}

static inline int op_any_shape(int low_rank, int high_rank, int64_t low, int64_t high, int64_t *dim)
{
	int rank = (int)draw(low_rank, high_rank);
	for (int i = 0; i < rank; i++)
		dim[i] = draw(low, high);
	return rank;
}

/* Runs the node on up to three inputs; a failure of the row fails the test. */
static inline qn_tensor *op_run(const qn_node *n, const qn_tensor *a, const qn_tensor *b, const qn_tensor *c)
{
	const qn_tensor *x[8] = {a, b, c};
	qn_tensor *y = QN_NEW(&arena, qn_tensor, 8);
	bool undecided;
	qn_status status = qn_exec_node(&ctx, graph->dims, n, x, &arena, y, &undecided);
	if (status != QUERN_OK)
		fail_msg("%s: %s", n->op->name, ctx.message);
	assert_false(undecided);
	return y;
}

/* Where element `out` of the result comes from: fills `in` (an index of x), or returns false for a zero. */
typedef bool (*op_source_fn)(const void *user, const int64_t *out, int64_t *in);

static inline bool op_next(int rank, const int64_t *dim, int64_t *index)
{
	for (int k = rank - 1; k >= 0; k--) {
		if (++index[k] < dim[k])
			return true;
		index[k] = 0;
	}
	return false;
}

static inline int64_t op_offset(const qn_tensor *t, const int64_t *index)
{
	int64_t at = 0;
	for (int k = 0; k < t->rank; k++) {
		assert_in_range(index[k], 0, t->dim[k] - 1);
		at = at * t->dim[k] + index[k];
	}
	return at;
}

/* y is x moved around, element by element. */
static inline void op_check_moved(const char *what, const qn_tensor *x, const qn_tensor *y, op_source_fn source, const void *user)
{
	int64_t out[QN_MAX_RANK] = {0}, in[QN_MAX_RANK], n = 0;
	assert_int_equal(x->type, y->type);
	if (qn_tensor_count(y) == 0)
		return;
	do {
		double want = source(user, out, in) ? qn_tensor_get(x, op_offset(x, in)) : 0;
		double got = qn_tensor_get(y, n++);
		if (got != want)
			fail_msg("%s: element %lld is %g, expected %g (rank %d, random state %llu)", what, (long long)n - 1, got, want,
				x->rank, (unsigned long long)seed);
	} while (op_next(y->rank, y->dim, out));
	assert_int_equal(n, qn_tensor_count(y));
}

static inline void op_check_dims(const qn_tensor *y, int rank, const int64_t *dim)
{
	assert_int_equal(y->rank, rank);
	for (int i = 0; i < rank; i++)
		assert_int_equal(y->dim[i], dim[i]);
}

/* --- symbolic ------------------------------------------------------------------------------------------------------ */
static inline qn_dim op_atom(const char *s, size_t n)
{
	char *text = qn_arena_strndup(&arena, s, n), *end;
	long long k = strtoll(text, &end, 10);
	return *end ? qn_dim_symbol(graph->dims, text) : qn_dim_const(k);
}

/* "8", "S", "S-1", "2*S", "P+S", "min(S,8)" is not needed: one binary operator at most, left to right. */
static inline qn_dim op_dim(const char *s, size_t n)
{
	size_t k = 1;
	while (k < n && !strchr("+-*/", s[k]))
		k++;
	qn_dim d = op_atom(s, k);
	while (k < n) {
		size_t from = k + 1, to = from;
		while (to < n && !strchr("+-*/", s[to]))
			to++;
		qn_dim b = op_atom(s + from, to - from);
		d = s[k] == '+'   ? qn_dim_add(graph->dims, d, b)
		    : s[k] == '-' ? qn_dim_sub(graph->dims, d, b)
		    : s[k] == '*' ? qn_dim_mul(graph->dims, d, b)
				  : qn_dim_floordiv(graph->dims, d, b);
		k = to;
	}
	return d;
}

/* "B,S,8" */
static inline qn_shape op_shape(const char *s)
{
	qn_shape shape = {.rank = 0};
	while (*s) {
		size_t n = strcspn(s, ",");
		shape.dim[shape.rank++] = op_dim(s, n);
		s += n + (s[n] == ',');
	}
	return shape;
}

/* A list of integers, symbolic or not, as a value known at compile time. */
static inline const qn_tensor *op_known(const char *s)
{
	qn_shape d = op_shape(s);
	int64_t n = d.rank;
	qn_tensor *t = qn_tensor_new(&arena, QN_DIM, 1, &n);
	if (n)
		memcpy(op_data(t), d.dim, sizeof *d.dim * (size_t)n);
	return t;
}

/* A fact from text: "B,S,8" is a shape; "=B,S" a rank 1 value of that content. */
static inline qn_fact op_fact(qn_dtype type, const char *s)
{
	if (*s != '=')
		return (qn_fact){type, op_shape(s), NULL};
	const qn_tensor *t = op_known(s + 1);
	return (qn_fact){QN_I64, qn_shape_of(t), t};
}

static inline qn_status op_infer(const qn_node *n, const qn_fact *in, qn_fact *out)
{
	qn_call c = {.ctx = &ctx, .node = n, .dims = graph->dims, .scratch = &arena, .threads = 1, .in = in, .out = out};
	return qn_call_infer(&c);
}

#endif
