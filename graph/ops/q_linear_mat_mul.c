#include "graph/ops/_matmul_int.h"
#include "graph/ops/_quant.h"
#include "graph/ops/_quantized.h"

/* inputs: a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero */

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_matmul_int_infer(c, 0, 3, 2, 5));
	const qn_shape *a = &c->in[0].shape, *b = &c->in[3].shape;
	QN_TRY(qn_call_quant_check(c, 1, a->rank > 1 ? &a->dim[a->rank - 2] : NULL));
	QN_TRY(qn_call_quant_check(c, 4, b->rank > 1 ? &b->dim[b->rank - 1] : NULL));
	QN_TRY(qn_call_quant_check(c, 6, NULL));
	QN_TRY(qn_call_quant_check(c, 7, NULL));
	c->out[0].type = c->in[7].type;
	int64_t low, high;
	if (!qn_quant_range(c->out[0].type, &low, &high))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "an output zero point of type %s", qn_dtype_name(c->out[0].type));
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *const *x = c->x;
	int64_t count = qn_tensor_count(&c->y[0]), low, high;
	int32_t *sums = QN_NEW(c->scratch, int32_t, count);
	qn_matmul_int_run(c, x[0], x[2], x[3], x[5], sums);
	qn_quant_range(c->y[0].type, &low, &high);
	int64_t n = x[3]->rank > 1 ? x[3]->dim[x[3]->rank - 1] : 1, m = x[0]->rank > 1 ? x[0]->dim[x[0]->rank - 2] : 1;
	bool rows = qn_tensor_count(x[1]) > 1, columns = qn_tensor_count(x[4]) > 1;
	double y_scale = qn_tensor_get(x[6], 0);
	void *y = QN_OUT(c, 0, void);
	for (int64_t i = 0; i < count; i++) {
		double factor = qn_tensor_get(x[1], rows ? i / n % m : 0) * qn_tensor_get(x[4], columns ? i % n : 0) / y_scale;
		qn_tensor_set(
			y, c->y[0].type, i, (double)qn_quantize((float)(sums[i] * factor), 1.0f, qn_tensor_get_i64(x[7], 0), low, high));
	}
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	const qn_node *n = e->node;
	int rank = n->out[0]->fact.shape.rank, a = n->in[0]->fact.shape.rank, b = n->in[3]->fact.shape.rank;
	const char *y = qn_emit_temp(e, "sums", "%s", qn_matmul_int_emit(e, n->in[0], n->in[2], n->in[3], n->in[5]));
	/* rank 1 operands have no axis of their own in the result, and then scalars as parameters */
	const char *factor = qn_emit_temp(e, "factor", "%s * %s / %s",
		qn_quant_param(e, n->in[1], "a_scale", rank, b > 1 ? rank - 2 : rank - 1),
		qn_quant_param(e, n->in[4], "b_scale", rank, a > 0 ? rank - 1 : 0), qn_quant_param(e, n->in[6], "y_scale", rank, 0));
	y = qn_emit_temp(e, "steps", "tract_core_round_even(tract_core_cast(%s, to='f32') * %s)", y, factor);
	y = qn_emit_temp(e, "shifted", "%s + %s", y, qn_quant_param(e, n->in[7], "y_zero", rank, 0));
	qn_emit_output(e, 0, "tract_core_cast(%s, to='%s')", y, qn_emit_dtype(n->out[0]->fact.type));
	return QUERN_OK;
}

const qn_op qn_op_q_linear_mat_mul = {.name = "QLinearMatMul",
	.since = 10,
	.min_in = 8,
	.max_in = 8,
	.infer = infer,
	.lower = qn_lower_quantized_weight,
	.eval = eval,
	.emit = emit};
