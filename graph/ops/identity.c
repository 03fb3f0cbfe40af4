#include "graph/ops/_unary.h"

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0];
	size_t bytes = qn_tensor_bytes(x);
	if (bytes)
		memcpy(QN_OUT(c, 0, void), x->data, bytes);
	return QUERN_OK;
}

static qn_status emit(qn_emit *e) { return qn_unary_emit(e, NULL); }

const qn_op qn_op_identity = {
	.name = "Identity",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_ELEMENTWISE | QN_KEEPS_WEIGHT | QN_LAYOUT | QN_SMALL,
	.dims_in = 1,
	.infer = qn_infer_same,
	.eval = eval,
	.emit = emit,
};
