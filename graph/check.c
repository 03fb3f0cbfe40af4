/* check.c - what must hold of a graph between passes, and its text. */
#include "graph/op.h"

static qn_status check_node(const qn_graph *g, const qn_node *n, const uint8_t *defined)
{
	qn_ctx *ctx = g->ctx;
	if (!n->op)
		QN_FAIL(ctx, QUERN_ERR_INTERNAL, "node '%s' has no operator", n->name);
	for (int i = 0; i < n->n_in; i++) {
		qn_value *v = n->in[i];
		if (!v)
			continue;
		if (v->id < 0 || (size_t)v->id >= g->n_values || g->values[v->id] != v)
			QN_FAIL(ctx, QUERN_ERR_INTERNAL, "node '%s' reads '%s', which is no longer in the graph", n->name, v->name);
		if (!defined[v->id])
			QN_FAIL(ctx, QUERN_ERR_INTERNAL, "node '%s' reads '%s' before it is computed", n->name, v->name);
		bool known = false;
		for (size_t k = 0; k < v->n_uses; k++)
			known |= v->uses[k].node == n && v->uses[k].input == i;
		if (!known)
			QN_FAIL(ctx, QUERN_ERR_INTERNAL, "value '%s' does not know its use by node '%s'", v->name, n->name);
	}
	for (int i = 0; i < n->n_out; i++) {
		qn_value *v = n->out[i];
		if (v && (v->producer != n || v->producer_output != i || g->values[v->id] != v))
			QN_FAIL(ctx, QUERN_ERR_INTERNAL, "output %d of node '%s' has another producer", i, n->name);
	}
	return QUERN_OK;
}

qn_status qn_graph_check(const qn_graph *g)
{
	qn_arena a;
	qn_arena_init(&a, g->ctx);
	uint8_t *defined = QN_NEW(&a, uint8_t, g->n_values + 1);
	qn_status status = QUERN_OK;
	size_t uses = 0, reads = 0;
	for (size_t i = 0; i < g->n_values; i++)
		if (g->values[i]) {
			defined[i] = !g->values[i]->producer;
			uses += g->values[i]->n_uses;
		}
	for (const qn_node *n = g->first; n && status == QUERN_OK; n = n->next) {
		status = check_node(g, n, defined);
		for (int i = 0; i < n->n_in; i++)
			reads += n->in[i] != NULL;
		for (int i = 0; i < n->n_out; i++)
			if (n->out[i])
				defined[n->out[i]->id] = 1;
		if (n->next && n->next->prev != n)
			status = qn_fail(g->ctx, QUERN_ERR_INTERNAL, "node list is broken after '%s'", n->name);
	}
	if (status == QUERN_OK && uses != reads)
		status = qn_fail(g->ctx, QUERN_ERR_INTERNAL, "%zu uses are noted, %zu are there", uses, reads);
	for (int i = 0; i < g->n_outputs && status == QUERN_OK; i++)
		if (!defined[g->outputs[i]->id] || !g->outputs[i]->is_output)
			status = qn_fail(g->ctx, QUERN_ERR_INTERNAL, "graph output '%s' is not computed", g->output_names[i]);
	qn_arena_release(&a);
	return status;
}

static void dump_value(const qn_value *v, qn_text *out)
{
	qn_text_add(out, "%s:%s%s", v->name, qn_dtype_name(v->fact.type),
		v->fact.shape.rank < 0 ? "[?]" : qn_shape_text(out->arena, &v->fact.shape));
}

static void dump_attr(const qn_attr *a, qn_text *out)
{
	qn_text_add(out, " %s=", a->name);
	switch (a->kind) {
	case QN_ATTR_INT:
		qn_text_add(out, "%lld", (long long)a->i);
		break;
	case QN_ATTR_FLOAT:
		qn_text_add(out, "%.9g", (double)a->f);
		break;
	case QN_ATTR_STRING:
		qn_text_add(out, "'%s'", a->s);
		break;
	case QN_ATTR_INTS:
		for (size_t i = 0; i < a->n; i++)
			qn_text_add(out, "%s%lld", i ? "," : "", (long long)a->ints[i]);
		break;
	case QN_ATTR_FLOATS:
		for (size_t i = 0; i < a->n; i++)
			qn_text_add(out, "%s%.9g", i ? "," : "", (double)a->floats[i]);
		break;
	default:
		qn_text_add(out, "...");
	}
}

void qn_graph_dump(const qn_graph *g, qn_text *out)
{
	for (int i = 0; i < g->n_inputs; i++) {
		qn_text_add(out, "input ");
		dump_value(g->inputs[i], out);
		qn_text_add(out, "\n");
	}
	for (const qn_node *n = g->first; n; n = n->next) {
		for (int i = 0; i < n->n_out; i++) {
			qn_text_add(out, "%s", i ? ", " : "");
			if (n->out[i])
				dump_value(n->out[i], out);
			else
				qn_text_add(out, "-");
		}
		qn_text_add(out, " = %s%s%s(", n->op->domain && *n->op->domain ? n->op->domain : "", n->op->domain && *n->op->domain ? ":" : "",
			n->op->name);
		for (int i = 0; i < n->n_in; i++) {
			qn_text_add(out, "%s%s", i ? ", " : "", n->in[i] ? n->in[i]->name : "-");
			if (n->in[i] && n->in[i]->is_const)
				qn_text_add(out, "%s", qn_shape_text(out->arena, &n->in[i]->fact.shape));
		}
		qn_text_add(out, ")");
		for (int i = 0; i < n->n_attrs; i++)
			dump_attr(&n->attrs[i], out);
		qn_text_add(out, "\n");
	}
	for (int i = 0; i < g->n_outputs; i++)
		qn_text_add(out, "output %s = %s\n", g->output_names[i], g->outputs[i]->name);
}
