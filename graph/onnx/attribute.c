/* attribute.c - node attributes, and Constant nodes, which are nothing but an attribute. */
#include "graph/onnx/loader.h"

#define KIND(x) QN__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##x

qn_status qn_attr_resolve(qn_loader *ld, const qn_scope *s, const char *title, const Qn__AttributeProto *a, const Qn__AttributeProto **out)
{
	*out = a;
	if (!*qn_str(a->ref_attr_name))
		return QUERN_OK;
	if (!s->frame)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "node '%s': attribute '%s' refers to attribute '%s' of a function, but stands in none",
			title, qn_str(a->name), a->ref_attr_name);
	*out = qn_names_get(s->frame->attrs, a->ref_attr_name);
	if (*out && (*out)->g)
		QN_FAIL(ld->ctx, QUERN_ERR_UNSUPPORTED,
			"node '%s': a graph is handed to function '%s' as attribute '%s'; inline the functions "
			"with onnx.inliner first",
			title, qn_str(s->frame->function->name), a->ref_attr_name);
	return QUERN_OK;
}

/* IR 1 had no `type`: the field that is set decides. */
qn_status qn_attr_kind_of(qn_loader *ld, const char *title, const Qn__AttributeProto *a, Qn__AttributeProto__AttributeType *out)
{
	*out = a->type;
	if (a->type != KIND(UNDEFINED))
		return QUERN_OK;
	*out = a->has_f       ? KIND(FLOAT)
	       : a->has_i     ? KIND(INT)
	       : a->has_s     ? KIND(STRING)
	       : a->t         ? KIND(TENSOR)
	       : a->g         ? KIND(GRAPH)
	       : a->n_floats  ? KIND(FLOATS)
	       : a->n_ints    ? KIND(INTS)
	       : a->n_strings ? KIND(STRINGS)
			      : KIND(UNDEFINED);
	if (*out == KIND(UNDEFINED))
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "node '%s': attribute '%s' has no value", title, qn_str(a->name));
	return QUERN_OK;
}

static qn_status text_of(qn_loader *ld, const char *title, const Qn__AttributeProto *a, ProtobufCBinaryData b, const char **out)
{
	if (b.len && memchr(b.data, 0, b.len))
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "node '%s': the text of attribute '%s' has a zero byte in it", title, qn_str(a->name));
	*out = qn_arena_strndup(ld->a, (const char *)b.data, b.len);
	return QUERN_OK;
}

static void *copied(qn_arena *a, const void *src, size_t n, size_t size)
{
	void *p = qn_arena_array(a, n, size);
	if (n)
		memcpy(p, src, n * size);
	return p;
}

static qn_status body_of(qn_loader *ld, qn_scope *s, const char *title, const Qn__AttributeProto *a, qn_graph **out)
{
	if (!a->g)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "node '%s': attribute '%s' has no graph", title, qn_str(a->name));
	QN_TRY(qn_nesting_enter(ld, title));
	*out = qn_graph_new(ld->a, ld->ctx, ld->dims);
	qn_status status = qn_graph_build(ld, qn_scope_new(ld, s, *out), a->g);
	ld->nesting--;
	return status;
}

static qn_status tensor_of(qn_loader *ld, const char *title, const Qn__AttributeProto *a, const qn_tensor **out)
{
	const char *subject = qn_arena_printf(ld->tmp, "tensor in attribute '%s' of node '%s'", qn_str(a->name), title);
	if (a->sparse_tensor)
		return qn_sparse_tensor(ld, subject, a->sparse_tensor, out);
	if (!a->t)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "node '%s': attribute '%s' has no tensor", title, qn_str(a->name));
	return qn_payload_tensor(ld, subject, a->t, out);
}

static qn_status convert(qn_loader *ld, qn_scope *s, const char *title, const Qn__AttributeProto *a, qn_attr *out)
{
	Qn__AttributeProto__AttributeType kind;
	QN_TRY(qn_attr_kind_of(ld, title, a, &kind));
	switch (kind) {
	case KIND(FLOAT):
		out->kind = QN_ATTR_FLOAT;
		out->f = a->f;
		return QUERN_OK;
	case KIND(INT):
		out->kind = QN_ATTR_INT;
		out->i = a->i;
		return QUERN_OK;
	case KIND(STRING):
		out->kind = QN_ATTR_STRING;
		return text_of(ld, title, a, a->s, &out->s);
	case KIND(FLOATS):
		out->kind = QN_ATTR_FLOATS;
		out->n = a->n_floats;
		out->floats = copied(ld->a, a->floats, a->n_floats, sizeof *a->floats);
		return QUERN_OK;
	case KIND(INTS):
		out->kind = QN_ATTR_INTS;
		out->n = a->n_ints;
		out->ints = copied(ld->a, a->ints, a->n_ints, sizeof *a->ints);
		return QUERN_OK;
	case KIND(STRINGS): {
		out->kind = QN_ATTR_STRINGS;
		out->n = a->n_strings;
		const char **list = QN_NEW(ld->a, const char *, a->n_strings);
		for (size_t i = 0; i < a->n_strings; i++)
			QN_TRY(text_of(ld, title, a, a->strings[i], &list[i]));
		out->strings = list;
		return QUERN_OK;
	}
	case KIND(TENSOR):
	case KIND(SPARSE_TENSOR):
		out->kind = QN_ATTR_TENSOR;
		return tensor_of(ld, title, a, &out->t);
	case KIND(GRAPH):
		out->kind = QN_ATTR_GRAPH;
		return body_of(ld, s, title, a, &out->graph);
	default:
		QN_FAIL(ld->ctx, QUERN_ERR_UNSUPPORTED, "node '%s': attribute '%s' is of kind %d, which is not supported", title,
			qn_str(a->name), (int)kind);
	}
}

qn_status qn_attrs_build(qn_loader *ld, qn_scope *s, const char *title, const Qn__NodeProto *p, qn_attr **attrs, int *n)
{
	*attrs = QN_NEW(ld->a, qn_attr, p->n_attribute);
	*n = 0;
	for (size_t i = 0; i < p->n_attribute; i++) {
		const char *name = qn_str(p->attribute[i]->name);
		const Qn__AttributeProto *a;
		QN_TRY(qn_attr_resolve(ld, s, title, p->attribute[i], &a));
		if (!a)
			continue;
		for (int k = 0; k < *n; k++)
			if (!strcmp((*attrs)[k].name, name))
				QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "node '%s': attribute '%s' is there twice", title, name);
		qn_attr *out = &(*attrs)[*n];
		out->name = qn_arena_strdup(ld->a, name);
		QN_TRY(convert(ld, s, title, a, out));
		++*n;
	}
	return QUERN_OK;
}
