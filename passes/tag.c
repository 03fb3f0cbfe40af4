/* tag.c - roles from the structure of the graph: query, key, value, output, ffn, head, embedding.
 *
 * needs: linear (weights of layers in one operator), shapes. gives: a plan with a layer for each use of a weight, each with a role or
 * the reason why it has none, its block and the parts of fused weights. Names play no part. */
#include "passes/tag.h"

#include "passes/passes.h"

void qn_nodes_add(qn_nodes *s, qn_arena *a, qn_node *n)
{
	if (qn_nodes_has(s, n))
		return;
	QN_GROW(a, s->v, s->n, s->cap);
	s->v[s->n++] = n;
}

bool qn_nodes_has(const qn_nodes *s, const qn_node *n)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i] == n)
			return true;
	return false;
}

static bool wide_kernel(const qn_layer *l)
{
	for (int i = 2; i < l->node->in[l->weight_in]->fact.shape.rank; i++)
		if (!qn_dim_is(l->node->in[l->weight_in]->fact.shape.dim[i], 1))
			return true;
	return false;
}

static bool is_convolution(const qn_layer *l) { return l->node->op->traits & QN_CONVOLUTION; }

qn_layer *qn_tag_layer(const qn_tagger *t, const qn_node *n)
{
	qn_layer *l = t->of_node[n->id];
	if (!l || n->op->hint != QN_HINT_CONTRACTION || (is_convolution(l) && wide_kernel(l)))
		return NULL;
	if (n->op->weight_input && l->weight_in != n->op->weight_input - 1) /* such as learned queries in front of their keys */
		return NULL;
	return l;
}

bool qn_tag_is_sum(const qn_node *n)
{
	return (qn_node_is(n, "Add") || qn_node_is(n, "Sub")) && !n->in[0]->is_const && !n->in[1]->is_const;
}

bool qn_tag_is_table(const qn_tagger *t, const qn_node *n)
{
	return t->of_node[n->id] && n->op->weight_input && n->op->hint == QN_HINT_NONE;
}

/* Attentions open blocks; an ffn belongs to the last attention whose query comes before it. A cross attention stays in the block of
 * the self attention before it. qn_tag_attention numbered the attention layers; here the rest follows. */
static void number_blocks(qn_plan *p)
{
	int block = -1;
	for (size_t i = 0; i < p->n; i++) {
		qn_layer *l = &p->layers[i];
		if (l->role >= QN_ROLE_QUERY && l->role <= QN_ROLE_OUTPUT && l->block > block)
			block = l->block;
		else if (l->role == QN_ROLE_FFN)
			l->block = block < 0 ? 0 : block;
	}
}

qn_status qn_pass_tag(qn_graph *g, qn_pass_env *env)
{
	QN_TRY(qn_plan_collect(g, env->plan));
	qn_tagger t = {.g = g, .plan = env->plan, .a = env->scratch, .of_node = QN_NEW(env->scratch, qn_layer *, g->next_node_id)};
	for (size_t i = 0; i < env->plan->n; i++)
		t.of_node[env->plan->layers[i].node->id] = &env->plan->layers[i];
	QN_TRY(qn_tag_attention(&t));
	qn_tag_branches(&t);
	number_blocks(env->plan);
	return QUERN_OK;
}
