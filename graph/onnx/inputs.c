/* inputs.c - graph inputs with their declared types and shapes. */
#include "graph/onnx/loader.h"

/* A symbol for a dimension without a name: "<input>_<axis>", made different from every name that the file gives a dimension. */
static qn_dim fresh_symbol(qn_loader *ld, qn_names *given, const char *input, size_t axis)
{
	const char *name = qn_names_unique(given, qn_arena_printf(ld->tmp, "%s_%zu", input, axis));
	qn_names_put(given, name, ld);
	return qn_dim_symbol(ld->dims, name);
}

static qn_status shape_of(qn_loader *ld, qn_names *given, const char *input, const Qn__TensorShapeProto *p, qn_shape *out)
{
	if (!p) {
		out->rank = -1;
		return QUERN_OK;
	}
	if (p->n_dim > QN_MAX_RANK)
		QN_FAIL(ld->ctx, QUERN_ERR_UNSUPPORTED, "input '%s' has rank %zu; the largest supported rank is %d", input, p->n_dim,
			QN_MAX_RANK);
	out->rank = (int)p->n_dim;
	for (size_t i = 0; i < p->n_dim; i++) {
		const Qn__TensorShapeProto__Dimension *d = p->dim[i];
		if (d->value_case == QN__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE) {
			if (d->dim_value < 0)
				QN_FAIL(ld->ctx, QUERN_ERR_FORMAT,
					"input '%s' has the dimension %lld at axis %zu; give a dimension that varies a name", input,
					(long long)d->dim_value, i);
			out->dim[i] = qn_dim_const(d->dim_value);
		} else if (d->value_case == QN__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && *qn_str(d->dim_param)) {
			out->dim[i] = qn_dim_symbol(ld->dims, d->dim_param);
		} else {
			out->dim[i] = fresh_symbol(ld, given, input, i);
		}
	}
	return QUERN_OK;
}

static qn_status type_of(qn_loader *ld, qn_names *given, const char *input, const Qn__TypeProto *p, qn_fact *out)
{
	static const char *const kinds[] = {
		[4] = "a sequence", [5] = "a map", [7] = "an opaque value", [8] = "a sparse tensor", [9] = "an optional value"};
	if (!p || !p->value_case)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "input '%s' has no type", input);
	if (p->value_case != QN__TYPE_PROTO__VALUE_TENSOR_TYPE)
		QN_FAIL(ld->ctx, QUERN_ERR_UNSUPPORTED, "input '%s' is %s; only tensors are supported", input, kinds[p->value_case]);
	const char *name;
	out->type = qn_payload_type(p->tensor_type->elem_type, &name);
	if (out->type == QN_NONE)
		QN_FAIL(ld->ctx, QUERN_ERR_UNSUPPORTED, "input '%s' is of type %s (%d), which is not supported", input, name,
			(int)p->tensor_type->elem_type);
	return shape_of(ld, given, input, p->tensor_type->shape, &out->shape);
}

static void collect_names(qn_loader *ld, const Qn__TypeProto *p, qn_names *given)
{
	if (!p || p->value_case != QN__TYPE_PROTO__VALUE_TENSOR_TYPE || !p->tensor_type->shape)
		return;
	const Qn__TensorShapeProto *shape = p->tensor_type->shape;
	for (size_t i = 0; i < shape->n_dim; i++)
		if (shape->dim[i]->value_case == QN__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM)
			qn_names_put(given, shape->dim[i]->dim_param, ld);
}

qn_status qn_inputs_build(qn_loader *ld, qn_scope *s, const Qn__GraphProto *p)
{
	qn_names *given = qn_names_new(ld->tmp), *seen = qn_names_new(ld->tmp);
	for (size_t i = 0; i < p->n_input; i++)
		collect_names(ld, p->input[i]->type, given);
	s->g->inputs = QN_NEW(ld->a, qn_value *, p->n_input);
	for (size_t i = 0; i < p->n_input; i++) {
		const char *name = qn_str(p->input[i]->name);
		if (qn_names_get(seen, name))
			QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "input '%s' is there twice", name);
		qn_names_put(seen, name, ld);
		if (qn_names_get(s->names, name)) /* an initializer: a constant, not something to feed */
			continue;
		qn_value *v;
		QN_TRY(qn_scope_value(ld, s, name, &v));
		v->is_input = true;
		if (s->is_main)
			QN_TRY(type_of(ld, given, name, p->input[i]->type, &v->fact));
		s->g->inputs[s->g->n_inputs++] = v;
	}
	return QUERN_OK;
}
