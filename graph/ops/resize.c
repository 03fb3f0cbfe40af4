#include "graph/ops/_resize.h"

/* Until opset 10 the inputs are x and scales, and coordinates are asymmetric; later x, roi, scales, sizes. */
static bool old(const qn_node *n)
{
	return n->opset == 10;
}

static qn_status infer(qn_call *c)
{
	return old(c->node) ? qn_resize_infer(c, 1, -1, -1) : qn_resize_infer(c, 2, 3, 1);
}

static qn_status eval(qn_call *c)
{
	return old(c->node) ? qn_resize_eval(c, 1, -1, -1) : qn_resize_eval(c, 2, 3, 1);
}

static qn_status emit(qn_emit *e)
{
	return old(e->node) ? qn_resize_emit(e, 1, -1, -1) : qn_resize_emit(e, 2, 3, 1);
}

const qn_op qn_op_resize = {.name = "Resize", .since = 10, .min_in = 1, .max_in = 4, .infer = infer, .eval = eval, .emit = emit};
