#include "graph/ops/_arg.h"

static qn_status eval(qn_call *c) { return qn_arg_eval(c, true); }
static qn_status emit(qn_emit *e) { return qn_arg_emit(e, true); }

const qn_op qn_op_arg_max = {
	.name = "ArgMax", .hint = QN_HINT_SELECTION,
	.min_in = 1,
	.max_in = 1,
	.infer = qn_arg_infer,
	.eval = eval,
	.emit = emit,
};
