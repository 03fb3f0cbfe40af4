/* call.c - a call of a model-local function is replaced by the function's body. */
#include "graph/onnx/loader.h"

static qn_status bind_attributes(qn_loader *ld, const qn_scope *s, const char *title, const Qn__NodeProto *p, qn_frame *frame)
{
	const Qn__FunctionProto *f = frame->function;
	frame->attrs = qn_names_new(ld->tmp);
	for (size_t i = 0; i < f->n_attribute_proto; i++)
		qn_names_put(frame->attrs, qn_str(f->attribute_proto[i]->name), f->attribute_proto[i]);
	for (size_t i = 0; i < p->n_attribute; i++) {
		const Qn__AttributeProto *a;
		QN_TRY(qn_attr_resolve(ld, s, title, p->attribute[i], &a));
		if (a)
			qn_names_put(frame->attrs, qn_str(p->attribute[i]->name), (void *)(uintptr_t)a);
	}
	return QUERN_OK;
}

static qn_status bind_inputs(qn_loader *ld, qn_scope *outer, qn_scope *inner, const char *title, const Qn__NodeProto *p)
{
	const Qn__FunctionProto *f = inner->frame->function;
	if (p->n_input > f->n_input || p->n_output > f->n_output)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "node '%s' calls function '%s' with %zu inputs and %zu outputs; it has %zu and %zu",
			title, qn_str(f->name), p->n_input, p->n_output, f->n_input, f->n_output);
	const char *reader = qn_arena_printf(ld->tmp, "node '%s' (%s)", title, p->op_type);
	for (size_t i = 0; i < f->n_input; i++) {
		qn_binding b = {0};
		if (i < p->n_input)
			QN_TRY(qn_scope_read(ld, outer, reader, p->input[i], &b.value));
		QN_TRY(qn_scope_bind(ld, inner, f->input[i], b));
	}
	return QUERN_OK;
}

/* The outer names go to the values of the body; a result that is an input or is returned twice only gets a second binding. */
static qn_status bind_outputs(qn_loader *ld, qn_scope *outer, qn_scope *inner, const char *title, const Qn__NodeProto *p)
{
	const Qn__FunctionProto *f = inner->frame->function;
	const char *reader = qn_arena_printf(ld->tmp, "output list of function '%s', called by node '%s'", qn_str(f->name), title);
	for (size_t i = 0; i < p->n_output; i++) {
		if (!*p->output[i])
			continue;
		qn_binding b = {0};
		QN_TRY(qn_scope_read(ld, inner, reader, f->output[i], &b.value));
		QN_TRY(qn_scope_bind(ld, outer, p->output[i], b));
	}
	return QUERN_OK;
}

static qn_status check_budget(qn_loader *ld, const qn_scope *s, const char *title, const Qn__FunctionProto *f)
{
	for (const qn_frame *frame = s->frame; frame; frame = frame->caller)
		if (frame->function == f)
			QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "node '%s': function '%s' calls itself", title, qn_str(f->name));
	ld->function_nodes += 8 + f->n_node;
	if (ld->function_nodes > QN_MAX_FUNCTION_NODES)
		QN_FAIL(ld->ctx, QUERN_ERR_UNSUPPORTED, "node '%s': the model's functions expand to more than %d nodes", title,
			QN_MAX_FUNCTION_NODES);
	return qn_nesting_enter(ld, title);
}

qn_status qn_call_inline(qn_loader *ld, qn_scope *s, const Qn__NodeProto *p, const Qn__FunctionProto *f)
{
	const char *title = qn_arena_printf(ld->tmp, "%s%s", s->prefix, qn_node_title(ld->tmp, p));
	QN_TRY(check_budget(ld, s, title, f));
	qn_frame *frame = QN_NEW(ld->tmp, qn_frame, 1);
	*frame = (qn_frame){.caller = s->frame, .function = f};
	QN_TRY(bind_attributes(ld, s, title, p, frame));
	qn_scope *inner = qn_scope_new(ld, NULL, s->g);
	inner->frame = frame;
	inner->prefix = qn_arena_printf(ld->tmp, "%s/", title);
	inner->exports = qn_names_new(ld->tmp);
	QN_TRY(bind_inputs(ld, s, inner, title, p));
	for (size_t i = 0; i < p->n_output; i++)
		if (*p->output[i] && !qn_names_get(inner->exports, f->output[i]))
			qn_names_put(inner->exports, f->output[i], (void *)(uintptr_t)qn_scope_value_name(ld, s, p->output[i]));
	QN_TRY(qn_nodes_build(ld, inner, f->node, f->n_node));
	QN_TRY(bind_outputs(ld, s, inner, title, p));
	ld->nesting--;
	return QUERN_OK;
}
