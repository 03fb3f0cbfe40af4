/* merge.c - what is computed twice is computed once.
 *
 * needs: nothing. gives: no two nodes of one operator with equal attributes and operands; spoils nothing. Exporters repeat norms, casts,
 * masks and index lists; without the copies two layers that read the same are seen to do so. */
#include "passes/passes.h"

enum { MOST_COMPARED = 4096 }; /* bytes of a constant; larger ones are equal only where they are one */

static bool same_tensor(const qn_tensor *a, const qn_tensor *b)
{
	if (a == b)
		return true;
	if (!a || !b || a->type != b->type || a->rank != b->rank || memcmp(a->dim, b->dim, sizeof *a->dim * (size_t)a->rank))
		return false;
	size_t bytes = qn_tensor_bytes(a);
	return a->data == b->data || !bytes || (bytes <= MOST_COMPARED && !memcmp(a->data, b->data, bytes));
}

static bool same_value(const qn_value *a, const qn_value *b)
{
	if (a == b)
		return true;
	return a && b && !a->producer && !b->producer && a->is_const && b->is_const && a->fact.type == b->fact.type && a->fact.value &&
	       b->fact.value && same_tensor(a->fact.value, b->fact.value);
}

static bool same_attr(const qn_attr *a, const qn_attr *b)
{
	if (a->kind != b->kind || a->n != b->n)
		return false;
	switch (a->kind) {
	case QN_ATTR_INT:
		return a->i == b->i;
	case QN_ATTR_FLOAT:
		return !memcmp(&a->f, &b->f, sizeof a->f);
	case QN_ATTR_STRING:
		return !strcmp(a->s, b->s);
	case QN_ATTR_TENSOR:
		return same_tensor(a->t, b->t);
	case QN_ATTR_INTS:
		return !a->n || !memcmp(a->ints, b->ints, a->n * sizeof *a->ints);
	case QN_ATTR_FLOATS:
		return !a->n || !memcmp(a->floats, b->floats, a->n * sizeof *a->floats);
	case QN_ATTR_STRINGS:
	case QN_ATTR_GRAPH:
		break;
	}
	return false;
}

static bool same_work(const qn_node *a, const qn_node *b)
{
	if (a->op != b->op || a->opset != b->opset || a->n_in != b->n_in || a->n_out != b->n_out || a->n_attrs != b->n_attrs ||
		(a->op->traits & (QN_RANDOM | QN_SUBGRAPH)))
		return false;
	for (int i = 0; i < a->n_in; i++)
		if (!same_value(a->in[i], b->in[i]))
			return false;
	for (int i = 0; i < a->n_attrs; i++) {
		const qn_attr *other = qn_node_attr(b, a->attrs[i].name);
		if (!other || !same_attr(&a->attrs[i], other))
			return false;
	}
	for (int i = 0; i < a->n_out; i++)
		if (!a->out[i] != !b->out[i])
			return false;
	return true;
}

/* The operand that is read by the fewest nodes: a twin is among its readers. */
static const qn_value *rarest(const qn_node *n)
{
	const qn_value *best = NULL;
	for (int i = 0; i < n->n_in; i++)
		if (n->in[i] && !n->in[i]->is_const && (!best || n->in[i]->n_uses < best->n_uses))
			best = n->in[i];
	return best;
}

static qn_node *earlier_twin(const qn_node *n, const size_t *place)
{
	const qn_value *v = rarest(n);
	for (size_t i = 0; v && i < v->n_uses; i++) {
		qn_node *m = v->uses[i].node;
		if (m != n && place[m->id] < place[n->id] && same_work(m, n))
			return m;
	}
	return NULL;
}

qn_status qn_pass_merge(qn_graph *g, qn_pass_env *env)
{
	size_t *place = QN_NEW(env->scratch, size_t, g->next_node_id), at = 0;
	for (qn_node *n = g->first; n; n = n->next)
		place[n->id] = at++;
	for (qn_node *n = g->first, *next; n; n = next) {
		next = n->next;
		qn_node *twin = earlier_twin(n, place);
		if (!twin)
			continue;
		for (int i = 0; i < n->n_out; i++)
			if (n->out[i])
				qn_value_replace(g, n->out[i], twin->out[i]);
		qn_node_remove(g, n);
	}
	qn_graph_sweep(g);
	return QUERN_OK;
}
