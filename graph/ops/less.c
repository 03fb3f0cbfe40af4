#include "graph/ops/_zip.h"

QN_ZIP_TESTS(a < b, qn_int_less(a, b, u))

static qn_tristate test(qn_dims *t, qn_dim a, qn_dim b) { return qn_dim_lt(t, a, b); }
static qn_status eval(qn_call *c) { return qn_zip_eval(c, &(qn_zip){.kernel = QN_ZIP_ALL, .to_bool = true, .test = test}); }
static qn_status emit(qn_emit *e) { return qn_zip_emit_compare(e, "lt"); }

const qn_op qn_op_less = {
	.name = "Less",
	.min_in = 2,
	.max_in = 2,
	.traits = QN_ELEMENTWISE,
	.dims_in = 3,
	.infer = qn_zip_infer_bool,
	.eval = eval,
	.emit = emit,
};
