/* linear.c - products with a constant matrix become quern:Linear, gathers of float tables quern:Embedding.
 *
 * needs: shapes. gives: every layer with weights stored [N, K] in one operator, its bias inside; spoils nothing. Facts of new values are set here. */
#include "passes/linear.h"

#include "passes/passes.h"

qn_value *qn_linear_apply(qn_graph *g, qn_node *before, const char *op, const char *name, qn_value *const *in, int n_in, qn_shape shape)
{
	qn_value *v = qn_graph_apply(g, before, op, name, in, n_in);
	v->fact = (qn_fact){in[0]->fact.type, shape, NULL};
	v->is_const = in[0]->is_const;
	v->weight = v->is_const ? in[0]->weight : NULL;
	return v;
}

static bool is_identity(const int64_t *perm, int rank)
{
	for (int i = 0; i < rank; i++)
		if (perm[i] != i)
			return false;
	return true;
}

qn_value *qn_linear_transpose(qn_graph *g, qn_node *before, const char *name, qn_value *v, const int64_t *perm)
{
	int rank = v->fact.shape.rank;
	if (is_identity(perm, rank))
		return v;
	qn_shape s = {.rank = rank};
	for (int i = 0; i < rank; i++)
		s.dim[i] = v->fact.shape.dim[perm[i]];
	qn_value *t = qn_linear_apply(g, before, "Transpose", name, &v, 1, s);
	qn_node_set_ints(g, t->producer, "perm", perm, (size_t)rank);
	return t;
}

qn_value *qn_linear_reshape(qn_graph *g, qn_node *before, const char *name, qn_value *v, const qn_shape *to)
{
	if (qn_shape_equal(&v->fact.shape, to))
		return v;
	qn_tensor *t = QN_NEW(g->arena, qn_tensor, 1);
	if (qn_shape_is_const(to)) {
		int64_t dim[QN_MAX_RANK];
		for (int i = 0; i < to->rank; i++)
			dim[i] = to->dim[i].k;
		t = qn_tensor_i64s(g->arena, dim, to->rank);
	} else {
		qn_dim *dim = QN_NEW(g->arena, qn_dim, to->rank);
		memcpy(dim, to->dim, (size_t)to->rank * sizeof *dim);
		*t = (qn_tensor){QN_DIM, 1, {to->rank}, dim};
	}
	qn_value *in[] = {v, qn_graph_const(g, NULL, t)};
	return qn_linear_apply(g, before, "Reshape", name, in, 2, *to);
}

void qn_linear_continue(qn_graph *g, qn_node *n, const qn_shape *split, const int64_t *perm)
{
	qn_value *y = n->out[0];
	qn_node *after = n->next;
	qn_value *z = qn_linear_reshape(g, after, qn_arena_printf(g->arena, "%s.split", n->name), y, split);
	z = qn_linear_transpose(g, after, qn_arena_printf(g->arena, "%s.ordered", n->name), z, perm);
	if (z != y)
		qn_value_replace_except(g, y, z, n->next);
}

static qn_value *transposed(qn_graph *g, qn_node *before, qn_value *w)
{
	static const int64_t swap[] = {1, 0};
	const qn_node *p = w->producer;
	const qn_attr *perm = p && qn_node_is(p, "Transpose") ? qn_node_attr(p, "perm") : NULL;
	if (p && (p->op->traits & QN_LAYOUT) && perm && perm->n == 2 && perm->ints[0] == 1 && perm->ints[1] == 0)
		return p->in[0]; /* undone rather than done twice */
	return qn_linear_transpose(g, before, qn_arena_printf(g->arena, "%s.T", w->name), w, swap);
}

/* [1, 1, K, N] as [K, N] */
static qn_value *as_matrix(qn_graph *g, qn_node *before, qn_value *w)
{
	const qn_shape *s = &w->fact.shape;
	qn_shape two = {2, {s->dim[s->rank - 2], s->dim[s->rank - 1]}};
	return qn_linear_reshape(g, before, qn_arena_printf(g->arena, "%s.2d", w->name), w, &two);
}

/* A constant float matrix: rank 2, or more with unit dims in front. */
static bool is_matrix(const qn_value *v)
{
	if (!v || !v->is_const || v->fact.type != QN_F32 || v->fact.shape.rank < 2 || !qn_shape_is_const(&v->fact.shape))
		return false;
	for (int i = 0; i < v->fact.shape.rank - 2; i++)
		if (!qn_dim_is(v->fact.shape.dim[i], 1))
			return false;
	return true;
}

static void matmul_to_linear(qn_graph *g, qn_node *n)
{
	qn_value *x = n->in[0], *w = n->in[1];
	int rank = x->fact.shape.rank;
	if (x->is_const || x->fact.type != QN_F32 || !is_matrix(w) || rank < 1 || (rank == 1 && w->fact.shape.rank > 2))
		return;
	if (w->fact.shape.rank > rank && rank > 1) { /* the unit axes of the weight are axes of the result */
		qn_shape wide = {.rank = w->fact.shape.rank};
		for (int i = 0; i < wide.rank; i++)
			wide.dim[i] = i < wide.rank - rank ? qn_dim_const(1) : x->fact.shape.dim[i - (wide.rank - rank)];
		x = qn_linear_reshape(g, n, qn_arena_printf(g->arena, "%s.wide", n->name), x, &wide);
	}
	qn_value *in[] = {x, transposed(g, n, as_matrix(g, n, w))};
	qn_node_become(g, n, qn_op_find("quern", "Linear"), in, 2);
}

/* A matrix in front of the activation: it mixes rows, which become columns for it. */
static void matmul_from_left(qn_graph *g, qn_node *n)
{
	qn_value *w = n->in[0], *x = n->in[1];
	int rank = x->fact.shape.rank;
	if (x->is_const || x->fact.type != QN_F32 || !is_matrix(w) || w->fact.shape.rank != 2 || rank < 2)
		return;
	int64_t perm[QN_MAX_RANK];
	for (int i = 0; i < rank; i++)
		perm[i] = i + 2 < rank ? i : i + 2 == rank ? rank - 1 : rank - 2;
	qn_value *in[] = {qn_linear_transpose(g, n, qn_arena_printf(g->arena, "%s.columns", n->name), x, perm), w};
	qn_shape y = in[0]->fact.shape;
	y.dim[rank - 1] = w->fact.shape.dim[0];
	qn_node_become(g, n, qn_op_find("quern", "Linear"), in, 2);
	n->out[0]->fact.shape = y;
	qn_linear_continue(g, n, &y, perm);
}

/* A bias that adds the same N values to every row. */
static bool is_bias(const qn_value *b, qn_dim n)
{
	if (!b || !b->is_const || b->fact.type != QN_F32 || b->fact.shape.rank < 1 || !qn_shape_is_const(&b->fact.shape))
		return false;
	const qn_shape *s = &b->fact.shape;
	for (int i = 0; i < s->rank - 1; i++)
		if (!qn_dim_is(s->dim[i], 1))
			return false;
	return qn_dim_equal(s->dim[s->rank - 1], n);
}

static qn_value *as_vector(qn_graph *g, qn_node *before, qn_value *b)
{
	qn_shape one = {1, {b->fact.shape.dim[b->fact.shape.rank - 1]}};
	return qn_linear_reshape(g, before, qn_arena_printf(g->arena, "%s.1d", b->name), b, &one);
}

static qn_value *scaled(qn_graph *g, qn_node *before, qn_value *v, float by)
{
	if (by == 1)
		return v;
	qn_value *in[] = {v, qn_graph_const(g, NULL, qn_tensor_scalar_f32(g->arena, by))};
	return qn_linear_apply(g, before, "Mul", qn_arena_printf(g->arena, "%s.scaled", v->name), in, 2, v->fact.shape);
}

static void gemm_to_linear(qn_graph *g, qn_node *n)
{
	qn_value *x = n->in[0], *w = n->in[1], *c = qn_node_has_in(n, 2) ? n->in[2] : NULL;
	if (x->is_const || x->fact.type != QN_F32 || !is_matrix(w) || w->fact.shape.rank != 2)
		return;
	bool trans_a = qn_node_int(n, "transA", 0), trans_b = qn_node_int(n, "transB", 0);
	float alpha = qn_node_float(n, "alpha", 1), beta = qn_node_float(n, "beta", 1);
	qn_dim width = w->fact.shape.dim[trans_b ? 0 : 1];
	bool apart = c && beta != 0 && !is_bias(c, width); /* added after the product, by a node of its own */
	if (trans_a) {
		static const int64_t swap[] = {1, 0};
		x = qn_linear_transpose(g, n, qn_arena_printf(g->arena, "%s.T", n->name), x, swap);
	}
	qn_value *in[3] = {scaled(g, n, x, alpha), trans_b ? w : transposed(g, n, w), NULL};
	if (c && beta != 0 && !apart)
		in[2] = scaled(g, n, as_vector(g, n, c), beta);
	if (apart) {
		qn_node *product = qn_graph_node(g, n, qn_op_find("quern", "Linear"), qn_arena_printf(g->arena, "%s.product", n->name), in, 2, 1);
		product->out[0]->fact = (qn_fact){QN_F32, n->out[0]->fact.shape, NULL};
		qn_value *sum[] = {product->out[0], scaled(g, n, c, beta)};
		qn_node_become(g, n, qn_op_find("", "Add"), sum, 2);
		return;
	}
	qn_node_become(g, n, qn_op_find("quern", "Linear"), in, in[2] ? 3 : 2);
}

/* Linear then Add of a constant vector, when nothing else reads the product. */
static void take_bias(qn_graph *g, qn_node *n)
{
	qn_value *y = n->out[0];
	if (qn_node_has_in(n, 2) || y->n_uses != 1 || y->is_output || !qn_node_is(y->uses[0].node, "Add"))
		return;
	qn_node *add = y->uses[0].node;
	qn_value *b = add->in[1 - y->uses[0].input];
	const qn_shape *s = &y->fact.shape;
	if (!is_bias(b, s->dim[s->rank - 1]) || b->fact.shape.rank > s->rank)
		return;
	qn_value *sum = add->out[0];
	qn_node_set_input(g, n, 2, as_vector(g, n, b));
	qn_value_replace(g, sum, y);
	qn_node_remove(g, add);
}

static void gather_to_embedding(qn_graph *g, qn_node *n)
{
	qn_value *table = n->in[0], *ids = n->in[1];
	if (!is_matrix(table) || table->fact.shape.rank != 2 || ids->is_const || qn_node_int(n, "axis", 0) != 0)
		return;
	qn_value *in[] = {table, ids};
	qn_node_become(g, n, qn_op_find("quern", "Embedding"), in, 2);
}

/* Rows say by name how their constants may be used; the rewriting itself is here. */
static const struct {
	const char *op;
	void (*rewrite)(qn_graph *g, qn_node *n);
} rules[] = {{"Einsum", qn_linear_from_einsum}, {"Conv", qn_linear_from_conv}, {"MatMul", qn_linear_from_batch}, {"MatMul", matmul_to_linear},
	{"MatMul", matmul_from_left}, {"Gemm", gemm_to_linear}, {"Gather", gather_to_embedding}};

qn_status qn_pass_linear(qn_graph *g, qn_pass_env *env)
{
	(void)env;
	for (size_t r = 0; r < QN_LEN(rules); r++) {
		const qn_op *op = qn_op_find("", rules[r].op);
		for (qn_node *n = g->first, *next; n; n = next) {
			next = n->next;
			if (n->op == op && n->out[0] && !n->out[0]->is_const)
				rules[r].rewrite(g, n);
		}
	}
	const qn_op *linear = qn_op_find("quern", "Linear");
	for (qn_node *n = g->first; n; n = n->next)
		if (n->op == linear)
			take_bias(g, n);
	qn_graph_sweep(g);
	return QUERN_OK;
}
