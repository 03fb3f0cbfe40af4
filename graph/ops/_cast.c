#include "graph/ops/_cast.h"

static qn_status on_dims(qn_call *c)
{
	const qn_tensor *x = c->x[0], *y = &c->y[0];
	int64_t n = qn_tensor_count(x);
	for (int64_t i = 0; i < n; i++) {
		qn_dim d = ((const qn_dim *)x->data)[i];
		qn_tristate zero = y->type == QN_BOOL ? qn_dim_eq(c->dims, d, qn_dim_const(0)) : QN_UNDECIDED;
		if (y->type == QN_DIM)
			QN_OUT(c, 0, qn_dim)[i] = d;
		else if (zero != QN_UNDECIDED)
			QN_OUT(c, 0, uint8_t)[i] = zero == QN_FALSE;
		else
			c->undecided = true;
	}
	return QUERN_OK;
}

qn_status qn_cast_eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *y = &c->y[0];
	if (x->type == QN_DIM)
		return on_dims(c);
	if (!qn_dtype_is_numeric(x->type) || !qn_dtype_is_numeric(y->type))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "no conversion from %s to %s", qn_dtype_name(x->type), qn_dtype_name(y->type));
	int64_t n = qn_tensor_count(x), tasks = (n + QN_SPAN_TASK - 1) / QN_SPAN_TASK;
	size_t from = qn_dtype_size(x->type), to = qn_dtype_size(y->type);
	char *out = QN_OUT(c, 0, char);
	int threads = qn_span_threads(c, n);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
	for (int64_t t = 0; t < tasks; t++) {
		int64_t at = t * QN_SPAN_TASK, m = n - at < QN_SPAN_TASK ? n - at : QN_SPAN_TASK;
		qn_convert((const char *)x->data + (size_t)at * from, x->type, out + (size_t)at * to, y->type, m);
	}
	return QUERN_OK;
}

qn_status qn_cast_emit(qn_emit *e)
{
	qn_dtype from = e->node->in[0]->fact.type, to = e->node->out[0]->fact.type;
	const char *x = qn_emit_ref(e, e->node->in[0]);
	if (to == QN_BF16)
		return qn_emit_fail(e, "the engine has no bf16 activations: leave the cast out or use f16");
	if (from == to || (e->target != QN_TARGET_TRACT && qn_dtype_is_float(from) && qn_dtype_is_float(to)))
		qn_emit_output(e, 0, "copy(%s)", x);
	else if (e->target == QN_TARGET_TRACT)
		qn_emit_output(e, 0, "tract_core_cast(%s, to='%s')", x, qn_emit_dtype(to));
	else if (from == QN_BOOL && qn_dtype_is_float(to))
		qn_emit_output(e, 0, "select(%s, 1.0, 0.0)", x);
	else
		return qn_emit_fail(e, "standard NNEF has no conversion from %s to %s", qn_dtype_name(from), qn_dtype_name(to));
	return QUERN_OK;
}
