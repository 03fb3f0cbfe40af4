#include "graph/ops/_zip.h"

QN_ZIP_KERNELS((a > b) | (a != a) ? a : b, qn_int_less(a, b, u) ? b : a)

static bool on_dim(qn_call *c, qn_dim a, qn_dim b, qn_dim *y)
{
	*y = qn_dim_max(c->dims, a, b);
	return true;
}

static qn_status eval(qn_call *c) { return qn_zip_eval_all(c, &(qn_zip){.kernel = QN_ZIP_ALL, .dim = on_dim}); }
static qn_status emit(qn_emit *e) { return qn_zip_emit(e, "max"); }

const qn_op qn_op_max = {
	.name = "Max",
	.min_in = 1,
	.max_in = -1,
	.traits = QN_ELEMENTWISE,
	.dims_in = UINT32_MAX,
	.infer = qn_zip_infer,
	.eval = eval,
	.emit = emit,
};
