#include "graph/ops/_unary.h"

static bool is_nan(double v, const double *p)
{
	(void)p;
	return v != v;
}

static qn_status eval(qn_call *c) { return qn_unary_test(c, is_nan, NULL); }
static qn_status emit(qn_emit *e) { return qn_unary_emit(e, "tract_core_is_nan"); }

const qn_op qn_op_is_nan = {
	.name = "IsNaN",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_ELEMENTWISE,
	.infer = qn_unary_test_infer,
	.eval = eval,
	.emit = emit,
};
