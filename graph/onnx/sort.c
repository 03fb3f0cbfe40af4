/* sort.c - producers before consumers. */
#include "graph/onnx/loader.h"

typedef struct sorter {
	qn_loader *ld;
	Qn__NodeProto *const *nodes;
	size_t n;
	qn_names *producers; /* position + 1 of the node that makes a name */
	size_t *edges;       /* positions of producers, node after node */
	size_t n_edges, cap_edges;
	size_t *first; /* of each node's edges; n + 1 entries */
} sorter;

typedef struct locals {
	const struct locals *outer;
	qn_names *names;
} locals;

const char *qn_node_title(qn_arena *a, const Qn__NodeProto *n)
{
	if (*qn_str(n->name))
		return n->name;
	const char *output = "";
	for (size_t i = 0; i < n->n_output && !*output; i++)
		output = n->output[i];
	return qn_arena_printf(a, "%s_%s", qn_str(n->op_type), output);
}

static void add_edge(sorter *s, const char *name, const locals *hidden)
{
	for (; hidden; hidden = hidden->outer)
		if (qn_names_get(hidden->names, name))
			return;
	size_t at = *name ? (size_t)(uintptr_t)qn_names_get(s->producers, name) : 0;
	if (!at)
		return;
	QN_GROW(s->ld->tmp, s->edges, s->n_edges, s->cap_edges);
	s->edges[s->n_edges++] = at - 1;
}

static qn_names *names_of(sorter *s, const Qn__GraphProto *g)
{
	qn_names *names = qn_names_new(s->ld->tmp);
	for (size_t i = 0; i < g->n_input; i++)
		qn_names_put(names, qn_str(g->input[i]->name), s);
	for (size_t i = 0; i < g->n_initializer; i++)
		qn_names_put(names, qn_str(g->initializer[i]->name), s);
	for (size_t i = 0; i < g->n_sparse_initializer; i++)
		if (g->sparse_initializer[i]->values)
			qn_names_put(names, qn_str(g->sparse_initializer[i]->values->name), s);
	for (size_t i = 0; i < g->n_node; i++)
		for (size_t k = 0; k < g->node[i]->n_output; k++)
			qn_names_put(names, g->node[i]->output[k], s);
	return names;
}

/* What a subgraph reads from around it counts as an input of the node that holds the subgraph. */
static void add_captured(sorter *s, const Qn__NodeProto *n, const locals *outer)
{
	for (size_t k = 0; k < n->n_attribute; k++) {
		const Qn__GraphProto *g = n->attribute[k]->g;
		if (!g)
			continue;
		locals here = {outer, names_of(s, g)};
		for (size_t i = 0; i < g->n_node; i++) {
			for (size_t j = 0; j < g->node[i]->n_input; j++)
				add_edge(s, g->node[i]->input[j], &here);
			add_captured(s, g->node[i], &here);
		}
		for (size_t i = 0; i < g->n_output; i++)
			add_edge(s, qn_str(g->output[i]->name), &here);
	}
}

static qn_status collect(sorter *s)
{
	qn_arena *tmp = s->ld->tmp;
	for (size_t i = 0; i < s->n; i++)
		for (size_t k = 0; k < s->nodes[i]->n_output; k++) {
			const char *name = s->nodes[i]->output[k];
			size_t other = *name ? (size_t)(uintptr_t)qn_names_get(s->producers, name) : 0;
			if (other)
				QN_FAIL(s->ld->ctx, QUERN_ERR_FORMAT, "value '%s' is produced twice, by node '%s' and by node '%s'", name,
					qn_node_title(tmp, s->nodes[other - 1]), qn_node_title(tmp, s->nodes[i]));
			if (*name)
				qn_names_put(s->producers, name, (void *)(uintptr_t)(i + 1));
		}
	for (size_t i = 0; i < s->n; i++) {
		s->first[i] = s->n_edges;
		for (size_t k = 0; k < s->nodes[i]->n_input; k++)
			add_edge(s, s->nodes[i]->input[k], NULL);
		add_captured(s, s->nodes[i], NULL);
	}
	s->first[s->n] = s->n_edges;
	return QUERN_OK;
}

/* Depth first from each node in file order, with a stack of our own: a chain of any length may be listed backwards. */
static qn_status order_nodes(sorter *s, size_t *order)
{
	enum { FRESH, OPEN, DONE };
	uint8_t *state = QN_NEW(s->ld->tmp, uint8_t, s->n);
	size_t *stack = QN_NEW(s->ld->tmp, size_t, s->n), *next = QN_NEW(s->ld->tmp, size_t, s->n), n_order = 0;
	for (size_t root = 0; root < s->n; root++) {
		size_t depth = 0;
		if (state[root] == FRESH) {
			stack[depth++] = root;
			state[root] = OPEN;
			next[root] = s->first[root];
		}
		while (depth) {
			size_t at = stack[depth - 1];
			if (next[at] == s->first[at + 1]) {
				state[at] = DONE;
				order[n_order++] = at;
				depth--;
				continue;
			}
			size_t producer = s->edges[next[at]++];
			if (state[producer] == OPEN)
				QN_FAIL(s->ld->ctx, QUERN_ERR_FORMAT, "node '%s' (%s) needs its own result: the graph has a cycle",
					qn_node_title(s->ld->tmp, s->nodes[producer]), qn_str(s->nodes[producer]->op_type));
			if (state[producer] == FRESH) {
				stack[depth++] = producer;
				state[producer] = OPEN;
				next[producer] = s->first[producer];
			}
		}
	}
	return QUERN_OK;
}

qn_status qn_sort_nodes(qn_loader *ld, Qn__NodeProto *const *nodes, size_t n, size_t **order)
{
	sorter s = {.ld = ld, .nodes = nodes, .n = n, .producers = qn_names_new(ld->tmp), .first = QN_NEW(ld->tmp, size_t, n + 1)};
	QN_TRY(collect(&s));
	*order = QN_NEW(ld->tmp, size_t, n);
	return order_nodes(&s, *order);
}
