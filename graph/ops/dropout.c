#include "graph/ops/_build.h"
#include "graph/ops/_unary.h"

/* At inference the data passes unchanged. Training mode would need random numbers: refused, unless nothing is dropped. */
static bool trains(const qn_tensor *training, const qn_tensor *ratio)
{
	if (!training || qn_tensor_count(training) != 1 || qn_tensor_get(training, 0) == 0.0)
		return false;
	return !ratio || qn_tensor_count(ratio) != 1 || qn_tensor_get(ratio, 0) != 0.0;
}

static qn_status check(qn_call *c, const qn_tensor *training, const qn_tensor *ratio)
{
	if (trains(training, ratio))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "training_mode is set: export the model for inference (model.eval())");
	return QUERN_OK;
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
	size_t bytes = qn_tensor_bytes(x);
	if (qn_call_has(c, 2))
		QN_TRY(check(c, c->x[2], qn_call_has(c, 1) ? c->x[1] : NULL));
	if (bytes && c->y[0].data)
		memcpy(QN_OUT(c, 0, void), x->data, bytes);
	if (bytes && qn_call_wants(c, 1))
		memset(QN_OUT(c, 1, void), 1, (size_t)qn_tensor_count(x));
	return QUERN_OK;
}

/* Whoever reads the output reads the input. The mask is true everywhere, NaN included: x is a NaN or it is not. A flag that only the data
 * gives stays, since it may ask for training. */
static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build b = {g, n};
	const qn_value *flag = qn_node_has_in(n, 2) ? n->in[2] : NULL, *ratio = qn_node_has_in(n, 1) ? n->in[1] : NULL;
	*done = false;
	if (flag && (!flag->fact.value || trains(flag->fact.value, ratio ? ratio->fact.value : NULL)))
		return QUERN_OK;
	if (qn_build_wants(&b, 1)) {
		qn_value *nan = qn_build_op1(&b, "IsNaN", "nan", n->in[0]);
		qn_build_give(&b, 1, qn_build_op2(&b, "Or", "mask", nan, qn_build_op1(&b, "Not", "number", nan)));
	}
	if (qn_build_wants(&b, 0))
		qn_build_give(&b, 0, n->in[0]);
	*done = true;
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	return qn_emit_fail(e, "training_mode comes from '%s', which the archive does not know: make it a constant", e->node->in[2]->name);
}

const qn_op qn_op_dropout = {
	.name = "Dropout",
	.since = 7,
	.min_in = 1,
	.max_in = 3,
	.max_out = 2,
	.infer = infer,
	.eval = eval,
	.lower = lower,
	.emit = emit,
};
