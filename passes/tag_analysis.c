/* tag_analysis.c - what kind of attention it is: heads, rotary positions, what is done to the scores. Nothing else depends on it; it is
 * told to users. */
#include "passes/tag.h"

typedef struct walk {
	const qn_tagger *t;
	const qn_nodes *products;
	uint8_t *seen;
} walk;

/* Whether v is computed from the layer with nothing but moves and arithmetic between. */
static bool comes_from(const qn_tagger *t, const qn_value *v, const qn_layer *l, int depth)
{
	const qn_node *n = v->producer;
	if (!n || v->is_const || !depth)
		return false;
	if (qn_tag_layer(t, n))
		return qn_tag_layer(t, n) == l;
	if (n->op->hint != QN_HINT_NONE && n->op->hint != QN_HINT_NORM)
		return false;
	for (int i = 0; i < n->n_in; i++)
		if (n->in[i] && comes_from(t, n->in[i], l, depth - 1))
			return true;
	return false;
}

enum { DEEPEST = 24 };

/* Rotary positions add a layer's output, times a cosine, to its own output turned by a quarter, times a sine. */
static bool is_rotated(walk *w, const qn_value *v, const qn_layer *l)
{
	const qn_node *n = v->producer;
	if (!n || v->is_const || w->seen[v->id] || qn_tag_layer(w->t, n))
		return false;
	w->seen[v->id] = 1;
	if (n->op->hint != QN_HINT_NONE && n->op->hint != QN_HINT_NORM)
		return false;
	if (qn_tag_is_sum(n) && comes_from(w->t, n->in[0], l, DEEPEST) && comes_from(w->t, n->in[1], l, DEEPEST))
		return true;
	for (int i = 0; i < n->n_in; i++)
		if (n->in[i] && is_rotated(w, n->in[i], l))
			return true;
	return false;
}

/* Whether v is computed from one of the products of query and key. */
static bool holds_scores(const walk *w, const qn_value *v, uint8_t *seen)
{
	const qn_node *n = v->producer;
	if (!n || v->is_const || seen[v->id])
		return false;
	seen[v->id] = 1;
	if (qn_nodes_has(w->products, n))
		return true;
	if (n->op->hint != QN_HINT_NONE)
		return false;
	for (int i = 0; i < n->n_in; i++)
		if (n->in[i] && holds_scores(w, n->in[i], seen))
			return true;
	return false;
}

static bool has_scores(const walk *w, const qn_value *v)
{
	return holds_scores(w, v, QN_NEW(w->t->a, uint8_t, w->t->g->n_values));
}

/* Whether learned numbers enter what is added to the scores: a table of distances, slopes. */
static bool is_learned(const walk *w, const qn_value *v, uint8_t *seen)
{
	if (v->is_const)
		return v->weight && qn_dtype_is_float(v->fact.type) && v->fact.shape.rank > 0;
	const qn_node *n = v->producer;
	if (!n || seen[v->id])
		return false;
	seen[v->id] = 1;
	for (int i = 0; i < n->n_in; i++)
		if (n->in[i] && is_learned(w, n->in[i], seen))
			return true;
	return false;
}

/* Whether v is made from what a caller gives, sizes aside. */
static bool is_given(const qn_value *v, uint8_t *seen)
{
	if (v->is_const || seen[v->id])
		return false;
	seen[v->id] = 1;
	const qn_node *n = v->producer;
	if (!n)
		return v->is_input;
	for (int i = 0; i < n->n_in; i++)
		if (n->in[i] && is_given(n->in[i], seen))
			return true;
	return false;
}

/* Goes from the softmax back to the products along the scores and notes what else is mixed in. */
static void look_at_scores(const walk *w, const qn_value *v, qn_attention *a)
{
	const qn_node *n = v->producer;
	if (!n || v->is_const || qn_nodes_has(w->products, n) || n->op->hint != QN_HINT_NONE)
		return;
	bool sum = qn_node_is(n, "Add") || qn_node_is(n, "Sub");
	bool where = qn_node_is(n, "Where");
	for (int i = 0; i < n->n_in; i++) {
		if (!n->in[i])
			continue;
		if (has_scores(w, n->in[i])) {
			look_at_scores(w, n->in[i], a);
			continue;
		}
		if (where && i == 0)
			a->mask_where = true;
		if (!sum || n->in[i]->fact.shape.rank < 1)
			continue;
		bool learned = is_learned(w, n->in[i], QN_NEW(w->t->a, uint8_t, w->t->g->n_values));
		a->position_bias |= learned;
		a->mask_added |= !learned || is_given(n->in[i], QN_NEW(w->t->a, uint8_t, w->t->g->n_values));
	}
}

enum { MOST_HEADS = 512 };

/* The scores are [batch, heads .., queries, keys], or [batch x heads, queries, keys]: then the number that divides whatever the batch is.
 */
static int64_t heads_of(const qn_tagger *t, const qn_shape *s)
{
	int64_t heads = s->rank > 3 ? 1 : 0;
	qn_dim batch;
	for (int64_t k = MOST_HEADS; s->rank == 3 && !qn_dim_is_const(s->dim[0]) && k > 0 && !heads; k--)
		heads = qn_dim_exact_div(t->g->dims, s->dim[0], qn_dim_const(k), &batch) ? k : 0;
	for (int i = 1; i + 2 < s->rank && heads; i++)
		heads = qn_dim_is_const(s->dim[i]) ? heads * s->dim[i].k : 0;
	return heads;
}

void qn_tag_note_attention(qn_tagger *t, const qn_node *softmax, const qn_nodes *products, const qn_tag_members *m, int block, bool cross)
{
	qn_plan *p = t->plan;
	QN_GROW(p->arena, p->attentions, p->n_attentions, p->cap_attentions);
	qn_attention *a = &p->attentions[p->n_attentions++];
	*a = (qn_attention){.name = softmax->name, .block = block, .cross = cross, .heads = heads_of(t, &softmax->in[0]->fact.shape)};
	for (size_t i = 0; i < m->n; i++) {
		walk w = {t, products, QN_NEW(t->a, uint8_t, t->g->n_values)};
		if ((m->v[i].bits & QN_TAG_Q) && m->v[i].operand[0])
			a->rotary |= is_rotated(&w, m->v[i].operand[0], m->v[i].layer);
	}
	walk w = {t, products, NULL};
	look_at_scores(&w, softmax->in[0], a);
}
