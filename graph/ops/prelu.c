#include "graph/ops/_zip.h"

QN_ZIP_KERNELS(a < 0 ? a * b : a, !u && a < 0 ? qn_wrap_mul(a, b) : a)

/* The slope is broadcast to the input, never the input to the slope. */
static qn_status infer(qn_call *c)
{
	QN_TRY(qn_zip_infer(c));
	const qn_shape *x = &c->in[0].shape, *slope = &c->in[1].shape;
	if (slope->rank > x->rank && x->rank >= 0)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the slope has rank %d, the input rank %d: the slope must be broadcast to the input", slope->rank,
			x->rank);
	return QUERN_OK;
}

static qn_status eval(qn_call *c) { return qn_zip_eval(c, &(qn_zip){.kernel = QN_ZIP_ALL}); }

static qn_status emit(qn_emit *e)
{
	const char *x = qn_zip_operand(e, 0);
	qn_emit_output(e, 0, "select(lt(%s, 0.0), mul(%s, %s), %s)", x, x, qn_zip_operand(e, 1), x);
	return QUERN_OK;
}

const qn_op qn_op_prelu = {
	.name = "PRelu",
	.min_in = 2,
	.max_in = 2,
	.traits = QN_ELEMENTWISE | QN_HOMOGENEOUS,
	.infer = infer,
	.eval = eval,
	.emit = emit,
};
