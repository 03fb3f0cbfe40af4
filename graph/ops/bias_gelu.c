#include "graph/ops/_gelu.h"

static qn_status eval(qn_call *c) { return qn_gelu_bias_eval(c, false); }
static qn_status emit(qn_emit *e) { return qn_gelu_bias_emit(e, false); }

const qn_op qn_op_bias_gelu = {
	.name = "BiasGelu",
	.domain = "com.microsoft",
	.min_in = 2,
	.max_in = 2,
	.traits = QN_ELEMENTWISE,
	.infer = qn_gelu_bias_infer,
	.eval = eval,
	.emit = emit,
};
