#include "graph/ops/_unary.h"

/* At inference the data passes unchanged. A model that asks for training mode would need random numbers: refused when it is known. */
static qn_status check(qn_call *c, const qn_tensor *training, const qn_tensor *ratio)
{
	if (!training || qn_tensor_count(training) != 1 || qn_tensor_get(training, 0) == 0.0)
		return QUERN_OK;
	if (ratio && qn_tensor_count(ratio) == 1 && qn_tensor_get(ratio, 0) == 0.0)
		return QUERN_OK;
	QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "training_mode is set: export the model for inference (model.eval())");
}

static qn_status infer(qn_call *c)
{
	if (qn_call_has(c, 2))
		QN_TRY(check(c, c->in[2].value, qn_call_has(c, 1) ? c->in[1].value : NULL));
	QN_TRY(qn_infer_same(c));
	if (qn_call_wants(c, 1))
		c->out[1] = (qn_fact){.type = QN_BOOL, .shape = c->in[0].shape};
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0];
	if (qn_call_has(c, 2))
		QN_TRY(check(c, c->x[2], qn_call_has(c, 1) ? c->x[1] : NULL));
	size_t bytes = qn_tensor_bytes(x);
	if (bytes)
		memcpy(QN_OUT(c, 0, void), x->data, bytes);
	if (qn_call_wants(c, 1) && bytes)
		memset(QN_OUT(c, 1, void), 1, (size_t)qn_tensor_count(x));
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	const char *x = qn_emit_ref(e, e->node->in[0]);
	qn_emit_output(e, 0, "copy(%s)", x);
	if (qn_node_has_out(e->node, 1))
		qn_emit_output(e, 1, "eq(%s, %s)", x, x);
	return QUERN_OK;
}

const qn_op qn_op_dropout = {
	.name = "Dropout",
	.min_in = 1,
	.max_in = 3,
	.max_out = 2,
	.traits = QN_KEEPS_WEIGHT,
	.infer = infer,
	.eval = eval,
	.emit = emit,
};
