/* tag_source.c - what the layers of one attention read: projections in two factors, and whether queries and values look at one stream. */
#include "passes/tag.h"

qn_tag_member *qn_tag_member_of(const qn_tag_members *m, const qn_layer *l)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->v[i].layer == l)
			return &m->v[i];
	return NULL;
}

/* Whether v goes nowhere but into members, through what changes neither its place nor its direction. */
static bool only_members_read(const qn_tagger *t, const qn_tag_members *m, const qn_value *v)
{
	if (v->is_output)
		return false;
	for (size_t i = 0; i < v->n_uses; i++) {
		const qn_node *n = v->uses[i].node;
		const qn_layer *l = qn_tag_layer(t, n);
		if (l) {
			if (!qn_tag_member_of(m, l))
				return false;
			continue;
		}
		if (n->op->hint != QN_HINT_NORM && (n->op->hint != QN_HINT_NONE || qn_tag_is_sum(n)))
			return false;
		for (int k = 0; k < n->n_out; k++)
			if (n->out[k] && !only_members_read(t, m, n->out[k]))
				return false;
	}
	return true;
}

/* The layer in front of l with nothing but norms, views and splits of one operand between. */
static qn_layer *in_front_of(const qn_tagger *t, const qn_layer *l)
{
	const qn_value *v = qn_tag_activation(l);
	for (;;) {
		const qn_node *n = v->producer;
		if (!n || v->is_const)
			return NULL;
		if (qn_tag_layer(t, n))
			return qn_tag_layer(t, n);
		for (int i = 1; i < n->n_in; i++)
			if (n->in[i] && !n->in[i]->is_const)
				return NULL;
		if (n->op->hint != QN_HINT_NORM && (n->op->hint != QN_HINT_NONE || qn_tag_is_table(t, n)))
			return NULL;
		v = n->in[0];
	}
}

void qn_tag_add_factors(qn_tagger *t, qn_tag_members *m)
{
	for (size_t i = 0; i < m->n; i++) {
		qn_layer *front = in_front_of(t, m->v[i].layer);
		if (!front || front->n >= front->k || front->role != QN_ROLE_NONE || qn_tag_member_of(m, front) ||
			!only_members_read(t, m, front->node->out[0]))
			continue;
		uint8_t bits = 0;
		for (size_t k = 0; k < m->n; k++)
			if (in_front_of(t, m->v[k].layer) == front)
				bits |= m->v[k].bits;
		if ((bits & QN_TAG_Q) && bits != QN_TAG_Q) /* it makes the stream, not a factor of a projection */
			continue;
		QN_GROW(t->a, m->v, m->n, m->cap);
		m->v[m->n++] = (qn_tag_member){.layer = front, .bits = bits};
	}
}

/* The activation that a layer reads, through what only moves it and through the factors in front. */
static const qn_value *source(const qn_tagger *t, const qn_tag_members *m, const qn_layer *l)
{
	for (const qn_layer *front; (front = in_front_of(t, l)) && qn_tag_member_of(m, front); l = front)
		;
	const qn_value *v = qn_tag_activation(l);
	while (v->producer && (v->producer->op->traits & QN_LAYOUT))
		v = v->producer->in[0];
	return v;
}

bool qn_tag_is_cross(qn_tagger *t, const qn_tag_members *m)
{
	bool queries = false, values = false;
	for (size_t i = 0; i < m->n; i++) {
		queries |= (m->v[i].bits & QN_TAG_Q) != 0;
		for (size_t k = 0; k < m->n; k++) {
			if (!(m->v[k].bits & QN_TAG_V))
				continue;
			values = true;
			if ((m->v[i].bits & QN_TAG_Q) && source(t, m, m->v[i].layer) == source(t, m, m->v[k].layer))
				return false;
		}
	}
	return queries && values;
}
