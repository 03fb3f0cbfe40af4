/* load.c - the content of constants: resident data, or a recipe run on demand. */
#include "graph/exec.h"

qn_status qn_graph_load(qn_graph *g, qn_value *v, qn_arena *scratch, const qn_tensor **out)
{
	if (v->fact.value) {
		*out = v->fact.value;
		return QUERN_OK;
	}
	if (v->is_const && v->make)
		return v->make(g, v->make_arg, scratch, out);
	qn_node *n = v->producer;
	if (!v->is_const || !n)
		QN_FAIL(g->ctx, QUERN_ERR_INTERNAL, "value '%s' is no constant", v->name);
	const qn_tensor **x = QN_NEW(scratch, const qn_tensor *, n->n_in + 1);
	for (int i = 0; i < n->n_in; i++)
		if (n->in[i])
			QN_TRY(qn_graph_load(g, n->in[i], scratch, &x[i]));
	qn_tensor *y = QN_NEW(scratch, qn_tensor, n->n_out + 1);
	QN_TRY(qn_exec_node(g->ctx, g->dims, n, x, scratch, y, NULL));
	*out = &y[v->producer_output];
	return QUERN_OK;
}

qn_value *qn_value_root(qn_value *v)
{
	while (v->producer && v->is_const) {
		if (!(v->producer->op->traits & QN_KEEPS_WEIGHT))
			return NULL;
		v = v->producer->in[0];
	}
	return v->is_const ? v : NULL;
}
