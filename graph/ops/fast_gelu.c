#include "graph/ops/_gelu.h"

static qn_status eval(qn_call *c) { return qn_gelu_bias_eval(c, true); }
static qn_status emit(qn_emit *e) { return qn_gelu_bias_emit(e, true); }

const qn_op qn_op_fast_gelu = {
	.name = "FastGelu",
	.domain = "com.microsoft",
	.min_in = 1,
	.max_in = 2,
	.traits = QN_ELEMENTWISE,
	.infer = qn_gelu_bias_infer,
	.eval = eval,
	.emit = emit,
};
