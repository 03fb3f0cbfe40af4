#include "graph/ops/_window_function.h"

static qn_status eval(qn_call *c)
{
	return qn_window_function_eval(c, 0.5, 0.5, 0);
}

/* Always a constant, so that nothing is emitted. */
const qn_op qn_op_hann_window = {
	.name = "HannWindow", .since = 17, .min_in = 1, .max_in = 1, .infer = qn_window_function_infer, .eval = eval};
