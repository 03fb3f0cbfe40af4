#include "graph/ops/_resize.h"

/* scales are an attribute until opset 8, then an input */
static qn_status infer(qn_call *c)
{
	return qn_resize_infer(c, 1, -1, -1);
}

static qn_status eval(qn_call *c)
{
	return qn_resize_eval(c, 1, -1, -1);
}

static qn_status emit(qn_emit *e)
{
	return qn_resize_emit(e, 1, -1, -1);
}

const qn_op qn_op_upsample = {.name = "Upsample", .since = 7, .min_in = 1, .max_in = 2, .infer = infer, .eval = eval, .emit = emit};
