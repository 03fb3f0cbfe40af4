#include "graph/ops/_norm.h"

static qn_status eval(qn_call *c) { return qn_norm_layer_eval(c, false); }
static qn_status emit(qn_emit *e) { return qn_norm_layer_emit(e, false); }

const qn_op qn_op_layer_normalization = {
	.name = "LayerNormalization",
	.min_in = 2,
	.max_in = 3,
	.max_out = 3,
	.infer = qn_norm_layer_infer,
	.eval = eval,
	.emit = emit,
};
