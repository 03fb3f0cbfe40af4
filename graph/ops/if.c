/* if.c - one of two subgraphs. A condition known at compile time is replaced by its branch; otherwise the branch is chosen when it runs.
 * The target has no branches, so a condition that depends on the data cannot be emitted.
 *
 * The inputs after the condition are the values that the branches capture, in the order of qn_if_captures; the loader adds them. */
#include "graph/exec.h"
#include "graph/ops/_if.h"

static bool listed(qn_value *const *list, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(list[i]->name, name))
			return true;
	return false;
}

static void add_captures(const qn_graph *body, qn_value **list, int *n)
{
	for (size_t i = 0; i < body->n_values; i++) {
		qn_value *v = body->values[i];
		if (v && !v->producer && !v->is_const && !v->is_input && !listed(list, *n, v->name))
			list[(*n)++] = v;
	}
}

int qn_if_captures(qn_arena *a, const qn_node *n, qn_value ***list)
{
	size_t most = 1;
	int count = 0;
	for (int i = 0; i < n->n_attrs; i++)
		if (n->attrs[i].kind == QN_ATTR_GRAPH)
			most += n->attrs[i].graph->n_values;
	*list = QN_NEW(a, qn_value *, most);
	for (int i = 0; i < n->n_attrs; i++)
		if (n->attrs[i].kind == QN_ATTR_GRAPH)
			add_captures(n->attrs[i].graph, *list, &count);
	return count;
}

static const qn_graph *branch(const qn_node *n, const qn_tensor *condition)
{
	const qn_attr *a = qn_node_attr(n, qn_tensor_get(condition, 0) != 0 ? "then_branch" : "else_branch");
	return a && a->kind == QN_ATTR_GRAPH && a->graph->n_outputs == n->n_out ? a->graph : NULL;
}

/* The branch with what it captures as its inputs; at[i] is the node input that feeds input i. */
static qn_graph *with_inputs(qn_arena *a, const qn_node *n, const qn_graph *body, int *at)
{
	qn_value **all;
	int count = qn_if_captures(a, n, &all);
	qn_graph *view = QN_NEW(a, qn_graph, 1);
	*view = *body;
	view->inputs = QN_NEW(a, qn_value *, count + 1);
	view->n_inputs = 0;
	for (int i = 0; i < count && i + 1 < n->n_in; i++) {
		qn_value *v = NULL;
		for (size_t k = 0; k < body->n_values && !v; k++)
			if (body->values[k] && !body->values[k]->producer && !body->values[k]->is_const &&
				!strcmp(body->values[k]->name, all[i]->name))
				v = body->values[k];
		if (!v)
			continue;
		at[view->n_inputs] = i + 1;
		view->inputs[view->n_inputs] = QN_NEW(a, qn_value, 1);
		*view->inputs[view->n_inputs] = *v;
		view->inputs[view->n_inputs++]->fact.shape.rank = -1;
	}
	return view;
}

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	*done = false;
	const qn_tensor *condition = n->in[0]->fact.value;
	if (!condition || condition->type == QN_DIM || qn_tensor_count(condition) != 1)
		return QUERN_OK;
	const qn_graph *body = branch(n, condition);
	if (!body)
		return QUERN_OK;
	int *at = QN_NEW(g->arena, int, n->n_in + 1);
	qn_graph *view = with_inputs(g->arena, n, body, at);
	qn_value **in = QN_NEW(g->arena, qn_value *, n->n_in + 1), **out = QN_NEW(g->arena, qn_value *, n->n_out + 1);
	for (int i = 0; i < view->n_inputs; i++)
		in[i] = n->in[at[i]];
	QN_TRY(qn_graph_inline(g, view, n, in, out));
	for (int i = 0; i < n->n_out; i++)
		if (n->out[i])
			qn_value_replace(g, n->out[i], out[i]);
	*done = true;
	return QUERN_OK;
}

/* Types and shapes follow from running the branch, which only the executor can. */
static qn_status infer(qn_call *c)
{
	const qn_node *n = c->node;
	const qn_tensor *condition = c->in[0].value;
	for (int i = 0; i < n->n_in; i++)
		if (!c->in[i].value)
			return qn_call_data_dependent(c, 0, "the condition");
	if (condition->type == QN_DIM || qn_tensor_count(condition) != 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the condition is not one truth value");
	const qn_graph *body = branch(n, condition);
	if (!body)
		QN_OP_FAIL(c, QUERN_ERR_FORMAT, "the branch is missing or has another number of outputs");
	int *at = QN_NEW(c->scratch, int, n->n_in + 1);
	qn_graph *view = with_inputs(c->scratch, n, body, at);
	const qn_tensor **in = QN_NEW(c->scratch, const qn_tensor *, n->n_in + 1);
	qn_tensor *out = QN_NEW(c->scratch, qn_tensor, n->n_out + 1);
	for (int i = 0; i < view->n_inputs; i++) {
		in[i] = c->in[at[i]].value;
		view->inputs[i]->fact.type = in[i]->type;
	}
	qn_status status = qn_exec_run(c->ctx, view, in, c->scratch, out, NULL, NULL);
	if (status != QUERN_OK)
		return qn_prefix(c->ctx, status, "node '%s' (%s)", n->name, n->op_type);
	for (int i = 0; i < n->n_out; i++)
		c->out[i] = (qn_fact){out[i].type, qn_shape_of(&out[i]), &out[i]};
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	for (int i = 0; i < c->node->n_out; i++)
		if (qn_call_wants(c, i) && qn_tensor_bytes(c->out[i].value))
			memcpy(QN_OUT(c, i, void), c->out[i].value->data, qn_tensor_bytes(c->out[i].value));
	return QUERN_OK;
}

const qn_op qn_op_if = {
	.name = "If", .min_in = 1, .max_in = -1, .max_out = -1, .traits = QN_SUBGRAPH, .infer = infer, .eval = eval, .lower = lower};
