/* plan.c - the list of layers: each use of a weight, with the names that its user knows it by. */
#include "passes/plan.h"

#include "passes/config.h"

const char *qn_role_name(qn_role r)
{
	static const char *const names[QN_ROLE_COUNT] = {"", "query", "key", "value", "qkv", "output", "ffn", "head", "embedding"};
	return names[r];
}

const char *const qn_layer_error_names[QN_LAYER_ERRORS] = {"cosine", "sqnrDb", "largestError"};

const char *qn_form_name(qn_form f)
{
	static const char *const names[] = {"q4_0", "q8_1", "i8", "f16", "f32"};
	return names[f];
}

const char *qn_origin_name(qn_origin o)
{
	static const char *const names[] = {"default", "role", "loaded", "pin", "override", "tuned", "fallback"};
	return names[o];
}

/* More than a vector: at least two axes that are not 1. */
static bool has_extent(const qn_value *v)
{
	int wide = 0;
	for (int i = 0; i < v->fact.shape.rank; i++)
		wide += !qn_dim_is(v->fact.shape.dim[i], 1);
	return wide >= 2;
}

static bool is_weight(const qn_value *v)
{
	return v && v->is_const && v->weight && qn_dtype_is_float(v->fact.type) && qn_shape_is_const(&v->fact.shape);
}

static int weight_operand(const qn_node *n)
{
	int named = n->op->weight_input - 1;
	if (named >= 0 && qn_node_has_in(n, named) && is_weight(n->in[named]) && n->in[named]->fact.shape.rank >= 2)
		return named;
	for (int i = 0; i < n->n_in; i++)
		if (n->in[i] && is_weight(n->in[i]) && has_extent(n->in[i]))
			return i;
	return -1;
}

/* Rows and length of the products: [N, K] for a linear layer, [out, in x kernel] for a convolution, [V, D] for a table. */
static void measure(qn_arena *a, qn_layer *l)
{
	const qn_value *w = l->node->in[l->weight_in];
	const qn_shape *s = &w->fact.shape;
	if (l->node->op->weight_input - 1 != l->weight_in) {
		l->not_q4 = "it is no operand of a product or a gather";
		return;
	}
	l->n = s->dim[0].k;
	l->k = 1;
	for (int i = 1; i < s->rank; i++)
		l->k *= s->dim[i].k;
	bool quern = l->node->op->domain && !strcmp(l->node->op->domain, "quern");
	if (!quern && !(l->node->op->traits & QN_CONVOLUTION)) {
		l->not_q4 = "a batched or einsum operand; the engine's block products take a matrix";
		return;
	}
	if (l->k % 32)
		l->not_q4 = qn_arena_printf(a, "its contraction axis has length %lld, no multiple of 32", (long long)l->k);
}

static void add_layer(qn_graph *g, qn_plan *p, qn_node *n, int operand)
{
	QN_GROW(p->arena, p->layers, p->n, p->cap);
	qn_value *w = n->in[operand];
	qn_value *root = qn_value_root(w);
	if (!root)
		root = w;
	qn_layer l = {.node = n, .weight_in = operand, .name = n->name, .weight = w->weight, .block = -1};
	l.output = n->out[0] ? n->out[0]->name : n->name;
	l.rank = root->fact.shape.rank;
	for (int i = 0; i < l.rank; i++)
		l.shape[i] = root->fact.shape.dim[i].k;
	l.stored_type = root->fact.type;
	measure(g->arena, &l);
	p->layers[p->n++] = l;
}

qn_status qn_plan_collect(qn_graph *g, qn_plan *p)
{
	p->n = 0;
	for (qn_node *n = g->first; n; n = n->next) {
		if (!n->out[0] || n->out[0]->is_const)
			continue;
		int operand = weight_operand(n);
		if (operand >= 0)
			add_layer(g, p, n, operand);
	}
	return QUERN_OK;
}

static bool form_needs_range(const quern_config *c, qn_form f, int act_bits)
{
	if (f != QN_FORM_I8)
		return act_bits <= 8 && !c->dynamic_activations;
	return act_bits <= QN_MOST_ACT_BITS && !(c->dynamic_activations && act_bits <= 8);
}

bool qn_layer_needs_range(const qn_layer *l, const quern_config *c)
{
	bool needs = false;
	for (int i = 0; i < l->n_parts; i++)
		needs |= form_needs_range(c, l->parts[i].form, l->act_bits);
	return l->n_parts ? needs : form_needs_range(c, l->form, l->act_bits);
}

qn_layer *qn_plan_find(qn_plan *p, const qn_node *n)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->layers[i].node == n)
			return &p->layers[i];
	return NULL;
}

bool qn_plan_is_logits(qn_plan *p, const qn_value *v)
{
	for (const qn_node *n = v->producer; n; n = n->in[0] ? n->in[0]->producer : NULL) {
		const qn_layer *l = qn_plan_find(p, n);
		if (l)
			return l->role == QN_ROLE_HEAD;
		if (!(n->op->traits & (QN_LAYOUT | QN_KEEPS_WEIGHT)))
			return false;
	}
	return false;
}

bool qn_plan_logits_tell_all(qn_plan *p, const qn_graph *g)
{
	qn_arena scratch;
	qn_arena_init(&scratch, g->ctx);
	bool *reaches = QN_NEW(&scratch, bool, g->n_values), all = false;
	for (int i = 0; i < g->n_outputs; i++)
		if (qn_plan_is_logits(p, g->outputs[i]))
			all = reaches[g->outputs[i]->id] = true;
	for (const qn_node *n = g->last; n; n = n->prev) {
		bool any = false;
		for (int i = 0; i < n->n_out; i++)
			any |= n->out[i] && reaches[n->out[i]->id];
		for (int i = 0; i < n->n_in && any; i++)
			if (n->in[i])
				reaches[n->in[i]->id] = true;
	}
	for (size_t i = 0; i < p->n; i++)
		all &= !p->layers[i].role || reaches[p->layers[i].node->out[0]->id];
	qn_arena_release(&scratch);
	return all;
}
