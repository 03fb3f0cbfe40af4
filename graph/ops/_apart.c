#include "graph/ops/_apart.h"

const char *qn_emit_apart(qn_emit *e, const char *text)
{
	return qn_emit_temp(e, "apart", "max(%s, -inf)", text);
}

static bool named(const qn_node *n, const char *name)
{
	return !*n->domain && !strcmp(n->op->name, name);
}

/* Axes are counted from the end, where both sides agree. */
static bool enlarges(const qn_node *n, int axes)
{
	const qn_shape *x = &n->in[0]->fact.shape, *y = &n->out[0]->fact.shape;
	for (int i = 1; i <= axes && i <= y->rank; i++) {
		bool unit = i > x->rank || qn_dim_is(x->dim[x->rank - i], 1);
		if (unit && !qn_dim_is(y->dim[y->rank - i], 1))
			return true;
	}
	return false;
}

bool qn_is_broadcast(const qn_value *v, int axes, bool moves)
{
	for (const qn_node *n = v->producer; n && !v->is_const; n = v->producer) {
		if (named(n, "ConstantOfShape"))
			return true;
		if (named(n, "Expand") || named(n, "Tile"))
			if (enlarges(n, axes))
				return true;
		for (int i = 1; i < n->n_in; i++)
			if (n->in[i] && !n->in[i]->is_const)
				return false;
		if (n->op->traits & QN_LAYOUT) {
			if (!moves)
				return false;
			axes = QN_MAX_RANK;
		} else if (!(n->op->traits & QN_ELEMENTWISE)) {
			return false;
		}
		v = n->in[0];
	}
	return false;
}
