#include "graph/ops/_unary.h"

static qn_status on_dims(qn_call *c, const qn_unary *f)
{
	const qn_tensor *x = c->x[0];
	qn_dim *y = QN_OUT(c, 0, qn_dim);
	int64_t n = qn_tensor_count(x);
	for (int64_t i = 0; i < n && !c->undecided; i++)
		if (!f->dim || !f->dim(c->dims, ((const qn_dim *)x->data)[i], &y[i]))
			c->undecided = true;
	return QUERN_OK;
}

/* One block of elements of one thread: in place where the type allows, else through buffers. */
static void on_block(const qn_unary *f, const void *x, void *y, qn_dtype type, int64_t from, int64_t n, const float *p32, const double *p64)
{
	qn_compute as = qn_compute_of(type);
	if (type == QN_F32) {
		f->f32((const float *)x + from, (float *)y + from, n, p32);
		return;
	}
	qn_cell in[QN_SPAN], out[QN_SPAN];
	for (int64_t i = 0; i < n; i += QN_SPAN) {
		int64_t m = n - i < QN_SPAN ? n - i : QN_SPAN;
		qn_span_load(x, type, from + i, m, in);
		if (as == QN_AS_F32)
			f->f32((const float *)in, (float *)out, m, p32);
		else if (as == QN_AS_F64)
			f->f64((const double *)in, (double *)out, m, p64);
		else
			f->i64((const int64_t *)in, (int64_t *)out, m, qn_dtype_is_unsigned(type), p64);
		qn_span_store(out, y, type, from + i, m);
	}
}

qn_status qn_unary_map(qn_call *c, const qn_tensor *x, const qn_tensor *y, const qn_unary *f, const double *p)
{
	qn_compute as = qn_compute_of(x->type);
	if (!qn_dtype_is_numeric(x->type) || (as == QN_AS_F32 && !f->f32) || (as == QN_AS_F64 && !f->f64) || (as == QN_AS_I64 && !f->i64))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "no evaluation for elements of type %s", qn_dtype_name(x->type));
	float p32[QN_UNARY_PARAMS] = {0};
	for (int i = 0; p && i < QN_UNARY_PARAMS; i++)
		p32[i] = (float)p[i];
	int64_t n = qn_tensor_count(x), tasks = (n + QN_SPAN_TASK - 1) / QN_SPAN_TASK;
	void *out = (void *)(uintptr_t)y->data;
	int threads = qn_span_threads(c, n);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
	for (int64_t t = 0; t < tasks; t++) {
		int64_t from = t * QN_SPAN_TASK;
		on_block(f, x->data, out, x->type, from, n - from < QN_SPAN_TASK ? n - from : QN_SPAN_TASK, p32, p);
	}
	return QUERN_OK;
}

qn_status qn_unary_eval(qn_call *c, const qn_unary *f, const double *p)
{
	return c->x[0]->type == QN_DIM ? on_dims(c, f) : qn_unary_map(c, c->x[0], &c->y[0], f, p);
}

qn_status qn_unary_test(qn_call *c, bool (*test)(double v, const double *p), const double *p)
{
	const qn_tensor *x = c->x[0];
	uint8_t *y = QN_OUT(c, 0, uint8_t);
	double part[QN_SPAN];
	int64_t n = qn_tensor_count(x);
	if (!qn_dtype_is_float(x->type))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "no evaluation for elements of type %s", qn_dtype_name(x->type));
	for (int64_t i = 0; i < n; i += QN_SPAN) {
		int64_t m = n - i < QN_SPAN ? n - i : QN_SPAN;
		qn_span_load_f64(x->data, x->type, i, m, part);
		for (int64_t k = 0; k < m; k++)
			y[i + k] = test(part[k], p);
	}
	return QUERN_OK;
}

qn_status qn_unary_test_infer(qn_call *c)
{
	QN_TRY(qn_infer_same(c));
	c->out[0].type = QN_BOOL;
	return QUERN_OK;
}

qn_status qn_unary_emit(qn_emit *e, const char *nnef)
{
	qn_emit_output(e, 0, "%s(%s)", nnef ? nnef : "copy", qn_emit_ref(e, e->node->in[0]));
	return QUERN_OK;
}
