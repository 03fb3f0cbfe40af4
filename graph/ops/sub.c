#include "graph/ops/_zip.h"

QN_ZIP_KERNELS(a - b, qn_wrap_sub(a, b))

static bool on_dim(qn_call *c, qn_dim a, qn_dim b, qn_dim *y)
{
	*y = qn_dim_sub(c->dims, a, b);
	return true;
}

static qn_status eval(qn_call *c) { return qn_zip_eval(c, &(qn_zip){.kernel = QN_ZIP_ALL, .dim = on_dim}); }
static qn_status emit(qn_emit *e) { return qn_zip_emit(e, "sub"); }

const qn_op qn_op_sub = {
	.name = "Sub",
	.min_in = 2,
	.max_in = 2,
	.traits = QN_ELEMENTWISE,
	.dims_in = 3,
	.infer = qn_zip_infer,
	.eval = eval,
	.emit = emit,
};
