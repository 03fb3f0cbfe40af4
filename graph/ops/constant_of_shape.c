/* constant_of_shape.c - one value, repeated to a shape. */
#include "graph/ops/_move.h"

static const float zero = 0;

static void find_value(const qn_node *n, qn_dtype *type, const void **value)
{
	const qn_attr *a = qn_node_attr(n, "value");
	*type = a ? a->t->type : QN_F32;
	*value = a ? a->t->data : &zero;
}

static qn_status infer(qn_call *c)
{
	const qn_attr *a = qn_node_attr(c->node, "value");
	const qn_dim *dim = NULL;
	const void *value;
	int n;
	if (a && (a->kind != QN_ATTR_TENSOR || qn_tensor_count(a->t) != 1 || !qn_dtype_size(a->t->type)))
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the value is not a tensor of one element");
	QN_TRY(qn_call_dims(c, 0, &dim, &n));
	if (n < 0)
		return qn_call_data_dependent(c, 0, "the shape");
	if (n > QN_MAX_RANK)
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "the shape has rank %d, more than %d", n, QN_MAX_RANK);
	find_value(c->node, &c->out[0].type, &value);
	c->out[0].shape.rank = n;
	for (int i = 0; i < n; i++) {
		if (qn_dim_is_const(dim[i]) && dim[i].k < 0)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "axis %d has a size of %lld", i, (long long)dim[i].k);
		c->out[0].shape.dim[i] = dim[i];
	}
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	qn_dtype type;
	const void *value;
	find_value(c->node, &type, &value);
	qn_move_fill(QN_OUT(c, 0, void), value, qn_dtype_size(type), qn_tensor_count(&c->y[0]));
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	qn_dtype type;
	const void *value;
	find_value(e->node, &type, &value);
	qn_emit_output(e, 0, "%s", qn_move_emit_full(e, "value", type, value, &e->node->out[0]->fact.shape));
	return QUERN_OK;
}

const qn_op qn_op_constant_of_shape = {
	.name = "ConstantOfShape", .since = 9, .min_in = 1, .max_in = 1, .infer = infer, .eval = eval, .emit = emit};
