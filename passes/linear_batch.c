/* linear_batch.c - a product with a constant [E, K, N] is E Linears: the experts of a mixture, kept in one initializer. */
#include "passes/linear.h"

enum { MOST_EXPERTS = 256 };

static qn_value *part_of(qn_graph *g, qn_node *before, qn_value *v, int64_t i, const char *name)
{
	int64_t range[] = {i, i + 1}, axis = 0;
	qn_value *in[] = {v, qn_graph_const(g, NULL, qn_tensor_i64s(g->arena, &range[0], 1)),
		qn_graph_const(g, NULL, qn_tensor_i64s(g->arena, &range[1], 1)),
		qn_graph_const(g, NULL, qn_tensor_i64s(g->arena, &axis, 1))};
	qn_shape s = v->fact.shape;
	s.dim[0] = qn_dim_const(1);
	return qn_linear_apply(g, before, "Slice", name, in, 4, s);
}

/* Rank 3, more than one matrix, and an activation [1 or E, rows, K]. */
static bool is_batch(const qn_value *x, const qn_value *w)
{
	if (x->is_const || !w->is_const || x->fact.type != QN_F32 || w->fact.type != QN_F32 || w->fact.shape.rank != 3 ||
		x->fact.shape.rank != 3 || !qn_shape_is_const(&w->fact.shape))
		return false;
	qn_dim experts = w->fact.shape.dim[0];
	return experts.k > 1 && experts.k <= MOST_EXPERTS &&
	       (qn_dim_is(x->fact.shape.dim[0], 1) || qn_dim_equal(x->fact.shape.dim[0], experts));
}

void qn_linear_from_batch(qn_graph *g, qn_node *n)
{
	static const int64_t swap[] = {0, 2, 1};
	qn_value *x = n->in[0], *w = n->in[1];
	if (!is_batch(x, w))
		return;
	int64_t experts = w->fact.shape.dim[0].k;
	bool shared = qn_dim_is(x->fact.shape.dim[0], 1);
	qn_value **parts = QN_NEW(g->arena, qn_value *, experts);
	qn_value *rows = qn_linear_transpose(g, n, qn_arena_printf(g->arena, "%s.T", w->name), w, swap);
	qn_shape two = {2, {w->fact.shape.dim[2], w->fact.shape.dim[1]}}, y = n->out[0]->fact.shape;
	y.dim[0] = qn_dim_const(1);
	for (int64_t i = 0; i < experts; i++) {
		qn_value *m = part_of(g, n, rows, i, qn_arena_printf(g->arena, "%s.%lld", w->name, (long long)i));
		const char *name = qn_arena_printf(g->arena, "%s/%lld", n->name, (long long)i);
		qn_value *in[] = {shared ? x : part_of(g, n, x, i, qn_arena_printf(g->arena, "%s.in", name)),
			qn_linear_reshape(g, n, qn_arena_printf(g->arena, "%s.2d", m->name), m, &two)};
		parts[i] = qn_linear_apply(g, n, "Linear", name, in, 2, y);
	}
	qn_node_become(g, n, qn_op_find("", "Concat"), parts, (int)experts);
	qn_node_set_int(g, n, "axis", 0);
}
