/* constant.c - Constant nodes become constants of the graph. */
#include "graph/onnx/loader.h"

#define KIND(x) QN__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##x

/* `form` is the attribute's name, which fixes its kind. */
static qn_status content(
	qn_loader *ld, const char *subject, const char *form, const Qn__AttributeProto *a, const qn_tensor **out, const char **refused)
{
	Qn__AttributeProto__AttributeType kind;
	QN_TRY(qn_attr_kind_of(ld, subject, a, &kind));
	if (!strcmp(form, "value") && kind == KIND(TENSOR) && a->t) {
		*refused = qn_payload_refusal(ld, subject, a->t);
		return *refused ? QUERN_OK : qn_payload_tensor(ld, subject, a->t, out);
	}
	if (!strcmp(form, "sparse_value") && kind == KIND(SPARSE_TENSOR) && a->sparse_tensor)
		return qn_sparse_tensor(ld, subject, a->sparse_tensor, out);
	bool list = !strcmp(form, "value_floats") || !strcmp(form, "value_ints");
	qn_tensor *t = NULL;
	if (!strcmp(form, "value_float") && kind == KIND(FLOAT)) {
		t = qn_tensor_scalar_f32(ld->a, a->f);
	} else if (!strcmp(form, "value_int") && kind == KIND(INT)) {
		t = qn_tensor_scalar_i64(ld->a, a->i);
	} else if (list && kind == (form[6] == 'f' ? KIND(FLOATS) : KIND(INTS))) {
		size_t n = kind == KIND(FLOATS) ? a->n_floats : a->n_ints;
		t = qn_tensor_new(ld->a, kind == KIND(FLOATS) ? QN_F32 : QN_I64, 1, &(int64_t){(int64_t)n});
		if (n)
			memcpy((void *)(uintptr_t)t->data, kind == KIND(FLOATS) ? (const void *)a->floats : (const void *)a->ints,
				qn_tensor_bytes(t));
	} else if (!strcmp(form, "value_string") || !strcmp(form, "value_strings")) {
		*refused = qn_arena_printf(ld->tmp, "%s is a string, which is not supported", subject);
		return QUERN_OK;
	}
	if (!t)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s: attribute '%s' of kind %d is no content for a Constant", subject, form, (int)kind);
	*out = t;
	return QUERN_OK;
}

qn_status qn_constant_node(qn_loader *ld, qn_scope *s, const Qn__NodeProto *p)
{
	if (p->n_output != 1 || !*p->output[0])
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "node '%s' (Constant) has %zu outputs, and must have one", qn_node_title(ld->tmp, p),
			p->n_output);
	const char *name = p->output[0], *subject = qn_arena_printf(ld->tmp, "constant '%s'", name), *refused = NULL;
	const qn_tensor *t = NULL;
	size_t found = 0;
	for (size_t i = 0; i < p->n_attribute; i++) {
		const Qn__AttributeProto *a;
		QN_TRY(qn_attr_resolve(ld, s, subject, p->attribute[i], &a));
		if (!a)
			continue;
		if (found++)
			QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s has more than one content", subject);
		QN_TRY(content(ld, subject, qn_str(p->attribute[i]->name), a, &t, &refused));
	}
	if (!found)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s has no content", subject);
	if (refused)
		return qn_scope_bind(ld, s, name, (qn_binding){.refused = refused});
	return qn_scope_const(ld, s, name, t);
}
