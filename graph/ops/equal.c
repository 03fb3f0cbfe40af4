#include "graph/ops/_zip.h"

QN_ZIP_TESTS(a == b, a == b)

/* Exporters ask of sizes whether they are -1, which stands for "as it is". What is not known here, such as total - past, is a size when the program runs. */
static qn_tristate test(qn_dims *t, qn_dim a, qn_dim b)
{
	qn_tristate eq = qn_dim_eq(t, a, b);
	bool mark = (qn_dim_is(a, -1) && b.expr) || (qn_dim_is(b, -1) && a.expr);
	return eq == QN_UNDECIDED && mark ? QN_FALSE : eq;
}

static qn_status eval(qn_call *c) { return qn_zip_eval(c, &(qn_zip){.kernel = QN_ZIP_ALL, .to_bool = true, .test = test}); }
static qn_status emit(qn_emit *e) { return qn_zip_emit_compare(e, "eq"); }

const qn_op qn_op_equal = {
	.name = "Equal",
	.min_in = 2,
	.max_in = 2,
	.traits = QN_ELEMENTWISE,
	.dims_in = 3,
	.infer = qn_zip_infer_bool,
	.eval = eval,
	.emit = emit,
};
