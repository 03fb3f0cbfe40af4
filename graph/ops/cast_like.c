#include "graph/ops/_cast.h"

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_infer_same(c));
	c->out[0].type = c->in[1].type;
	return QUERN_OK;
}

const qn_op qn_op_cast_like = {
	.name = "CastLike",
	.min_in = 2,
	.max_in = 2,
	.traits = QN_KEEPS_WEIGHT,
	.dims_in = 1,
	.infer = infer,
	.eval = qn_cast_eval,
	.emit = qn_cast_emit,
};
