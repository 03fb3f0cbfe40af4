#include "graph/ops/_unary.h"
#include "graph/ops/_zip.h"

QN_ZIP_KERNELS(a + b, qn_wrap_add(a, b))
QN_UNARY_FLOAT(x / p[0], x / p[0])

static qn_status eval(qn_call *c)
{
	const double p[QN_UNARY_PARAMS] = {(double)c->node->n_in};
	QN_TRY(qn_zip_eval_all(c, &(qn_zip){.kernel = QN_ZIP_ALL}));
	return qn_unary_map(c, &c->y[0], &c->y[0], &(qn_unary){.f32 = map_f32, .f64 = map_f64}, p);
}

static qn_status emit(qn_emit *e)
{
	const char *text = qn_zip_operand(e, 0);
	for (int i = 1; i < e->node->n_in; i++)
		text = qn_emit_temp(e, "sum", "add(%s, %s)", text, qn_zip_operand(e, i));
	qn_emit_output(e, 0, "div(%s, %s)", text, qn_emit_float(e, (double)e->node->n_in));
	return QUERN_OK;
}

const qn_op qn_op_mean = {
	.name = "Mean",
	.min_in = 1,
	.max_in = -1,
	.traits = QN_ELEMENTWISE,
	.infer = qn_zip_infer,
	.eval = eval,
	.emit = emit,
};
