#include "graph/ops/_zip.h"

QN_ZIP_KERNEL(zip_i64, int64_t, int64_t, a ^ b)

static qn_status eval(qn_call *c) { return qn_zip_eval(c, &(qn_zip){.kernel = {NULL, NULL, zip_i64}}); }
static qn_status emit(qn_emit *e) { return qn_zip_emit(e, "tract_core_bitxor"); }

const qn_op qn_op_bitwise_xor = {
	.name = "BitwiseXor",
	.min_in = 2,
	.max_in = 2,
	.traits = QN_ELEMENTWISE,
	.infer = qn_zip_infer,
	.eval = eval,
	.emit = emit,
};
