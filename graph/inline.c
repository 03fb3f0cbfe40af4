/* inline.c - a subgraph body is copied into the graph that holds it. */
#include "graph/op.h"
#include "graph/names.h"

static qn_value *mapped(qn_graph *g, qn_value **map, qn_value *v)
{
	if (!map[v->id]) {
		/* not an input and not yet produced: a constant of the body, or a name captured from the graph around it */
		qn_value *outer = v->is_const ? NULL : qn_graph_find_value(g, v->name);
		if (!outer && v->is_const) {
			outer = qn_graph_const(g, v->name, v->fact.value);
			outer->fact = v->fact;
			outer->weight = v->weight;
		}
		map[v->id] = outer;
	}
	return map[v->id];
}

static qn_status copy_node(qn_graph *g, const qn_node *n, qn_node *before, qn_value **map)
{
	qn_value **in = QN_NEW(g->arena, qn_value *, n->n_in);
	for (int i = 0; i < n->n_in; i++)
		if (n->in[i] && !(in[i] = mapped(g, map, n->in[i])))
			QN_FAIL(g->ctx, QUERN_ERR_FORMAT, "node '%s' (%s): input '%s' is defined neither in its subgraph nor around it", n->name,
				n->op_type, n->in[i]->name);
	qn_node *copy = qn_graph_node(g, before, n->op, n->name, in, n->n_in, n->n_out);
	copy->op_type = n->op_type;
	copy->domain = n->domain;
	copy->opset = n->opset;
	copy->attrs = n->attrs;
	copy->n_attrs = n->n_attrs;
	for (int i = 0; i < n->n_out; i++) {
		if (n->out[i])
			map[n->out[i]->id] = copy->out[i];
		else
			copy->out[i] = NULL;
	}
	return QUERN_OK;
}

qn_status qn_graph_inline(qn_graph *g, const qn_graph *body, qn_node *before, qn_value *const *in, qn_value **out)
{
	qn_value **map = QN_NEW(g->arena, qn_value *, body->n_values);
	for (int i = 0; i < body->n_inputs; i++)
		map[body->inputs[i]->id] = in[i];
	for (const qn_node *n = body->first; n; n = n->next)
		QN_TRY(copy_node(g, n, before, map));
	for (int i = 0; i < body->n_outputs; i++)
		if (!(out[i] = mapped(g, map, body->outputs[i])))
			QN_FAIL(g->ctx, QUERN_ERR_FORMAT, "subgraph output '%s' is defined neither in the subgraph nor around it",
				body->output_names[i]);
	return QUERN_OK;
}
