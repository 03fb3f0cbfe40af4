/* linear_einsum.c - an einsum of an activation and a constant as Linear: axes of the activation that stay are rows, axes of the constant
 * that stay are output channels, common axes that vanish are contracted. */
#include "graph/ops/_einsum.h"
#include "passes/linear.h"

/* Places of the labels of `wanted` in `t`. */
static void places_of(const qn_term *wanted, const qn_term *t, int64_t *at)
{
	for (int i = 0; i < wanted->n; i++)
		for (int k = 0; k < t->n; k++)
			if (t->label[k] == wanted->label[i])
				at[i] = k;
}

/* Whether each label of t is in exactly one of a and b, and there are no others. */
static bool made_of(const qn_term *t, const qn_term *a, const qn_term *b)
{
	for (int i = 0; i < t->n; i++) {
		for (int k = 0; k < i; k++)
			if (t->label[k] == t->label[i])
				return false;
		if (qn_term_has(a, t->label[i]) == qn_term_has(b, t->label[i]))
			return false;
	}
	return t->n == a->n + b->n;
}

static void keep(const qn_term *t, const qn_term *of, bool in, qn_term *out)
{
	out->n = 0;
	for (int i = 0; i < t->n; i++)
		if (qn_term_has(of, t->label[i]) == in)
			out->label[out->n++] = t->label[i];
}

static qn_shape dims_of(const qn_value *v, const qn_term *t, const qn_term *wanted)
{
	int64_t at[QN_EINSUM_LABELS];
	places_of(wanted, t, at);
	qn_shape s = {.rank = wanted->n};
	for (int i = 0; i < wanted->n; i++)
		s.dim[i] = v->fact.shape.dim[at[i]];
	return s;
}

/* v with the axes of `first`, then those of `last` merged to one; those of `first` merged too where `merge_first`. */
static qn_value *arranged(
	qn_graph *g, qn_node *before, qn_value *v, const qn_term *t, const qn_term *first, const qn_term *last, bool merge_first)
{
	qn_term order = *first;
	qn_term_join(&order, last);
	int64_t perm[QN_EINSUM_LABELS];
	places_of(&order, t, perm);
	qn_shape f = dims_of(v, t, first), l = dims_of(v, t, last), to = {0};
	if (merge_first)
		to.dim[to.rank++] = qn_shape_count(g->dims, &f);
	for (int i = 0; i < f.rank && !merge_first; i++)
		to.dim[to.rank++] = f.dim[i];
	to.dim[to.rank++] = qn_shape_count(g->dims, &l);
	qn_value *y = qn_linear_transpose(g, before, qn_arena_printf(g->arena, "%s.ordered", v->name), v, perm);
	return qn_linear_reshape(g, before, qn_arena_printf(g->arena, "%s.merged", v->name), y, &to);
}

/* Axes of one label must be equal: einsum would repeat one of length 1. */
static bool same_lengths(const qn_value *x, const qn_term *tx, const qn_value *w, const qn_term *tw, const qn_term *common)
{
	qn_shape a = dims_of(x, tx, common), b = dims_of(w, tw, common);
	return qn_shape_equal(&a, &b);
}

void qn_linear_from_einsum(qn_graph *g, qn_node *n)
{
	if (n->n_in != 2 || n->in[0]->is_const == n->in[1]->is_const)
		return;
	int iw = n->in[1]->is_const;
	qn_value *x = n->in[1 - iw], *w = n->in[iw];
	int rank[] = {n->in[0]->fact.shape.rank, n->in[1]->fact.shape.rank};
	qn_einsum e;
	if (x->fact.type != QN_F32 || w->fact.type != QN_F32 || !qn_shape_is_const(&w->fact.shape) ||
		qn_einsum_parse(g->arena, n, rank, &e))
		return;
	const qn_term *tx = &e.in[1 - iw], *tw = &e.in[iw];
	qn_term rows, channels, summed;
	keep(tx, &e.out, true, &rows);
	keep(tw, &e.out, true, &channels);
	keep(tw, tx, true, &summed);
	if (!summed.n || !channels.n || !made_of(&e.out, &rows, &channels) || !made_of(tx, &rows, &summed) ||
		!made_of(tw, &channels, &summed) || !same_lengths(x, tx, w, tw, &summed))
		return;
	keep(&e.out, tw, false, &rows); /* both in the order of the result */
	keep(&e.out, tw, true, &channels);
	qn_term order = rows;
	qn_term_join(&order, &channels);
	qn_shape split = dims_of(x, tx, &rows), wide = dims_of(w, tw, &channels), y = split;
	y.dim[y.rank++] = qn_shape_count(g->dims, &wide);
	for (int i = 0; i < wide.rank; i++)
		split.dim[split.rank++] = wide.dim[i];
	int64_t perm[QN_EINSUM_LABELS];
	places_of(&e.out, &order, perm);
	qn_value *in[] = {arranged(g, n, x, tx, &rows, &summed, false), arranged(g, n, w, tw, &channels, &summed, true)};
	qn_node_become(g, n, qn_op_find("quern", "Linear"), in, 2);
	n->out[0]->fact.shape = y;
	qn_linear_continue(g, n, &split, perm);
}
