#include "graph/ops/_arg.h"

static qn_status eval(qn_call *c) { return qn_arg_eval(c, false); }
static qn_status emit(qn_emit *e) { return qn_arg_emit(e, false); }

const qn_op qn_op_arg_min = {
	.name = "ArgMin", .hint = QN_HINT_SELECTION,
	.min_in = 1,
	.max_in = 1,
	.infer = qn_arg_infer,
	.eval = eval,
	.emit = emit,
};
