#include "graph/ops/_unary.h"

QN_UNARY_INT(~x)

static qn_status eval(qn_call *c)
{
	return qn_unary_eval(c, &(qn_unary){.i64 = map_i64}, NULL);
}

static qn_status emit(qn_emit *e) { return qn_unary_emit(e, "tract_core_bitnot"); }

const qn_op qn_op_bitwise_not = {
	.name = "BitwiseNot",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_ELEMENTWISE,
	.infer = qn_infer_same,
	.eval = eval,
	.emit = emit,
};
