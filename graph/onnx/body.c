/* body.c - graphs and their nodes. */
#include "graph/onnx/loader.h"
#include "graph/ops/_if.h"

qn_status qn_nesting_enter(qn_loader *ld, const char *title)
{
	if (ld->nesting == QN_MAX_NESTING)
		QN_FAIL(ld->ctx, QUERN_ERR_UNSUPPORTED, "node '%s': subgraphs and functions nest deeper than %d levels", title,
			QN_MAX_NESTING);
	ld->nesting++;
	return QUERN_OK;
}

/* In ai.onnx all inputs up to the last required one are required; other domains have optional inputs before required ones. */
static qn_status check_arity(qn_loader *ld, const qn_op *op, const char *title, const Qn__NodeProto *p, qn_value *const *in)
{
	int n_in = (int)p->n_input, n_out = (int)p->n_output, max_out = op->max_out ? op->max_out : 1;
	while (n_in && !in[n_in - 1])
		n_in--;
	for (int i = 0; i < op->min_in; i++)
		if (i >= n_in || (!in[i] && (i == 0 || !*qn_domain(p->domain))))
			QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "node '%s' (%s) lacks input %d", title, p->op_type, i);
	if (op->max_in >= 0 && n_in > op->max_in)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "node '%s' (%s) has %d inputs, at most %d are known", title, p->op_type, n_in,
			op->max_in);
	if ((op->traits & QN_SUBGRAPH) && n_in > 1) /* more are added by the loader itself */
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "node '%s' (%s) has %d inputs and may have one", title, p->op_type, n_in);
	while (n_out && !*p->output[n_out - 1])
		n_out--;
	if (max_out > 0 && n_out > max_out)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "node '%s' (%s) has %d outputs, at most %d are known", title, p->op_type, n_out,
			max_out);
	return QUERN_OK;
}

static qn_status build_outputs(qn_loader *ld, qn_scope *s, const Qn__NodeProto *p, qn_node *n)
{
	n->n_out = (int)p->n_output;
	n->out = QN_NEW(ld->a, qn_value *, p->n_output);
	for (size_t i = 0; i < p->n_output; i++) {
		if (!*p->output[i])
			continue;
		QN_TRY(qn_scope_value(ld, s, p->output[i], &n->out[i]));
		n->out[i]->producer = n;
		n->out[i]->producer_output = (int)i;
	}
	return QUERN_OK;
}

/* What the subgraphs of a node read from around them is read by the node too. */
static void add_captures(qn_loader *ld, qn_scope *s, qn_node *n)
{
	qn_value **list;
	int count = n->op->traits & QN_SUBGRAPH ? qn_if_captures(ld->tmp, n, &list) : 0;
	for (int i = 0; i < count; i++)
		qn_node_set_input(s->g, n, 1 + i, qn_graph_find_value(s->g, list[i]->name));
}

static qn_status build_node(qn_loader *ld, qn_scope *s, const Qn__NodeProto *p)
{
	const char *title = qn_arena_printf(ld->tmp, "%s%s", s->prefix, qn_node_title(ld->tmp, p));
	const char *domain = qn_domain(p->domain), *reader = qn_arena_printf(ld->tmp, "node '%s' (%s)", title, p->op_type);
	const qn_op *op = qn_op_find(domain, p->op_type); /* the survey has seen that it is there */
	qn_value **in = QN_NEW(ld->tmp, qn_value *, p->n_input);
	for (size_t i = 0; i < p->n_input; i++)
		QN_TRY(qn_scope_read(ld, s, reader, p->input[i], &in[i]));
	QN_TRY(check_arity(ld, op, title, p, in));
	qn_attr *attrs;
	int n_attrs;
	QN_TRY(qn_attrs_build(ld, s, title, p, &attrs, &n_attrs));
	qn_node *n = qn_graph_node(s->g, NULL, op, title, in, (int)p->n_input, 0);
	int version = qn_opset_of(ld, s->frame ? s->frame->function : NULL, domain);
	n->op_type = qn_arena_strdup(ld->a, p->op_type);
	n->domain = qn_arena_strdup(ld->a, domain);
	n->opset = version ? version : 1;
	n->attrs = attrs;
	n->n_attrs = n_attrs;
	add_captures(ld, s, n);
	return build_outputs(ld, s, p, n);
}

qn_status qn_nodes_build(qn_loader *ld, qn_scope *s, Qn__NodeProto *const *nodes, size_t n)
{
	size_t *order;
	QN_TRY(qn_sort_nodes(ld, nodes, n, &order));
	for (size_t i = 0; i < n; i++) {
		const Qn__NodeProto *p = nodes[order[i]];
		const qn_function *f = qn_function_find(ld, p);
		if (f)
			QN_TRY(qn_call_inline(ld, s, p, f->proto));
		else if (qn_is_constant(ld, p))
			QN_TRY(qn_constant_node(ld, s, p));
		else
			QN_TRY(build_node(ld, s, p));
	}
	return QUERN_OK;
}

static qn_status build_initializer(qn_loader *ld, qn_scope *s, const Qn__TensorProto *t)
{
	const char *name = qn_str(t->name), *subject = qn_arena_printf(ld->tmp, "tensor '%s'", name);
	const char *refused = qn_payload_refusal(ld, subject, t);
	if (refused)
		return qn_scope_bind(ld, s, name, (qn_binding){.refused = refused});
	const qn_tensor *data;
	QN_TRY(qn_payload_tensor(ld, subject, t, &data));
	return qn_scope_const(ld, s, name, data);
}

static qn_status build_sparse(qn_loader *ld, qn_scope *s, const Qn__SparseTensorProto *p)
{
	const char *name = p->values ? qn_str(p->values->name) : "", *subject = qn_arena_printf(ld->tmp, "tensor '%s'", name);
	const qn_tensor *data;
	const char *refused = p->values ? qn_payload_refusal(ld, subject, p->values) : NULL;
	if (refused)
		return qn_scope_bind(ld, s, name, (qn_binding){.refused = refused});
	QN_TRY(qn_sparse_tensor(ld, subject, p, &data));
	return qn_scope_const(ld, s, name, data);
}

qn_status qn_graph_build(qn_loader *ld, qn_scope *s, const Qn__GraphProto *p)
{
	qn_graph *g = s->g;
	if (*qn_str(p->name))
		g->name = qn_arena_strdup(ld->a, p->name);
	for (size_t i = 0; i < p->n_initializer; i++)
		QN_TRY(build_initializer(ld, s, p->initializer[i]));
	for (size_t i = 0; i < p->n_sparse_initializer; i++)
		QN_TRY(build_sparse(ld, s, p->sparse_initializer[i]));
	QN_TRY(qn_inputs_build(ld, s, p));
	QN_TRY(qn_nodes_build(ld, s, p->node, p->n_node));
	g->outputs = QN_NEW(ld->a, qn_value *, p->n_output);
	g->output_names = QN_NEW(ld->a, const char *, p->n_output);
	for (size_t i = 0; i < p->n_output; i++) {
		const char *name = qn_str(p->output[i]->name);
		if (!*name)
			QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "output %zu of graph '%s' has no name", i, g->name);
		QN_TRY(qn_scope_read(ld, s, qn_arena_printf(ld->tmp, "output list of graph '%s'", g->name), name, &g->outputs[i]));
		if (!g->outputs[i])
			QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "output '%s' of graph '%s' is an input that the function's call leaves out",
				name, g->name);
		g->outputs[i]->is_output = true;
		g->output_names[i] = qn_arena_strdup(ld->a, name);
		g->n_outputs++;
	}
	return QUERN_OK;
}
