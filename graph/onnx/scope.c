/* scope.c - what names mean, in the model, in its subgraphs and in expanded functions. */
#include "graph/onnx/loader.h"

qn_scope *qn_scope_new(qn_loader *ld, qn_scope *parent, qn_graph *g)
{
	qn_scope *s = QN_NEW(ld->tmp, qn_scope, 1);
	s->parent = parent;
	s->g = g;
	s->frame = parent ? parent->frame : NULL;
	s->prefix = parent ? parent->prefix : "";
	s->names = qn_names_new(ld->tmp);
	return s;
}

static qn_status check_free(qn_loader *ld, qn_scope *s, const char *name)
{
	if (!*name)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "an initializer or an input has no name");
	if (qn_names_get(s->names, name))
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "value '%s' is defined twice", name);
	return QUERN_OK;
}

qn_status qn_scope_bind(qn_loader *ld, qn_scope *s, const char *name, qn_binding b)
{
	QN_TRY(check_free(ld, s, name));
	qn_binding *item = QN_NEW(ld->tmp, qn_binding, 1);
	*item = b;
	qn_names_put(s->names, name, item);
	return QUERN_OK;
}

const qn_binding *qn_scope_find(qn_loader *ld, qn_scope *s, const char *name)
{
	const qn_binding *b = qn_names_get(s->names, name);
	if (b || !s->parent)
		return b;
	b = qn_scope_find(ld, s->parent, name);
	if (!b || !b->value)
		return b;
	/* captured: a value without a producer, by the name that the outer graph's value has; one value, by whatever aliases it is read */
	qn_binding *item = QN_NEW(ld->tmp, qn_binding, 1);
	item->value = qn_graph_find_value(s->g, b->value->name);
	if (!item->value)
		item->value = qn_graph_value(s->g, b->value->name);
	item->value->fact.type = b->value->fact.type;
	qn_names_put(s->names, name, item);
	return item;
}

const char *qn_scope_value_name(qn_loader *ld, qn_scope *s, const char *name)
{
	const char *outside = s->exports ? qn_names_get(s->exports, name) : NULL;
	if (outside)
		return outside;
	if (s->is_main)
		return name;
	const char *unique = qn_names_unique(ld->taken, qn_arena_printf(ld->tmp, "%s%s", s->prefix, name));
	qn_names_put(ld->taken, unique, ld);
	return unique;
}

qn_status qn_scope_value(qn_loader *ld, qn_scope *s, const char *name, qn_value **out)
{
	QN_TRY(check_free(ld, s, name));
	*out = qn_graph_value(s->g, qn_scope_value_name(ld, s, name));
	return qn_scope_bind(ld, s, name, (qn_binding){.value = *out});
}

qn_status qn_scope_const(qn_loader *ld, qn_scope *s, const char *name, const qn_tensor *t)
{
	QN_TRY(check_free(ld, s, name));
	qn_value *v = qn_graph_const(s->g, qn_scope_value_name(ld, s, name), t);
	/* a function's own names say nothing outside it, and come again with each call */
	v->weight = s->is_main || s->frame ? v->name : qn_arena_strdup(ld->a, name);
	return qn_scope_bind(ld, s, name, (qn_binding){.value = v});
}

qn_status qn_scope_read(qn_loader *ld, qn_scope *s, const char *reader, const char *name, qn_value **out)
{
	*out = NULL;
	if (!*name)
		return QUERN_OK;
	const qn_binding *b = qn_scope_find(ld, s, name);
	if (!b)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s reads '%s', which is no input, initializer or output of a node", reader, name);
	if (b->refused)
		QN_FAIL(ld->ctx, QUERN_ERR_UNSUPPORTED, "%s: %s", reader, b->refused);
	*out = b->value;
	return QUERN_OK;
}
