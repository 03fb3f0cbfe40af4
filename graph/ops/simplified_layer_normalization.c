#include "graph/ops/_norm.h"

static qn_status eval(qn_call *c) { return qn_norm_layer_eval(c, true); }
static qn_status emit(qn_emit *e) { return qn_norm_layer_emit(e, true); }

const qn_op qn_op_simplified_layer_normalization = {
	.name = "SimplifiedLayerNormalization",
	.also = "com.microsoft:SimplifiedLayerNormalization",
	.min_in = 2,
	.max_in = 2,
	.max_out = 2,
	.infer = qn_norm_layer_infer,
	.eval = eval,
	.emit = emit,
};
