#include "graph/ops/_move.h"
#include "graph/ops/_reduce.h"
#include "graph/ops/_zip.h"

static const int64_t usual[] = {0, 2, 3};

static qn_status axes_of(qn_call *c, bool *reduced)
{
	const qn_attr *a = qn_node_attr(c->node, "axes");
	const int64_t *axes = a ? a->ints : usual;
	size_t n = a ? a->n : QN_LEN(usual);
	for (int k = 0; k < c->in[0].shape.rank; k++)
		reduced[k] = false;
	for (size_t i = 0; i < n; i++) {
		int axis;
		QN_TRY(qn_call_axis(c, axes[i], c->in[0].shape.rank, &axis));
		reduced[axis] = true;
	}
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	bool reduced[QN_MAX_RANK];
	QN_TRY(qn_move_need_rank(c, 0));
	QN_TRY(axes_of(c, reduced));
	return qn_infer_same(c);
}

QN_FOLD(fold_sum, double, v, a + b)

static void fold_squares(const void *px, int64_t n, void *pacc, bool by_row, const double *mean)
{
	const double *x = px;
	double *acc = pacc;
	for (int64_t i = 0; i < n; i++) {
		double d = x[i] - mean[by_row ? 0 : i];
		acc[by_row ? 0 : i] += d * d;
	}
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *y = &c->y[0];
	bool reduced[QN_MAX_RANK];
	qn_reduce_plan p;
	QN_TRY(axes_of(c, reduced));
	if (!qn_dtype_is_float(x->type))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "elements of type %s: floats are needed", qn_dtype_name(x->type));
	qn_reduce_plan_make(&p, x, reduced);
	double *mean = QN_NEW(c->scratch, double, p.outputs + 1), *dev = QN_NEW(c->scratch, double, p.outputs + 1);
	qn_reduce_f64(c, &p, x, fold_sum, 0.0, NULL, mean);
	for (int64_t o = 0; o < p.outputs; o++)
		mean[o] /= (double)p.count;
	qn_reduce_f64(c, &p, x, fold_squares, 0.0, mean, dev);
	for (int64_t o = 0; o < p.outputs; o++)
		dev[o] = sqrt(dev[o] / (double)p.count) + 1e-9;
	qn_tensor stats = {.type = QN_F64, .rank = x->rank, .data = mean};
	for (int a = 0; a < x->rank; a++)
		stats.dim[a] = reduced[a] ? 1 : x->dim[a];
	qn_zip_plan z;
	qn_zip_plan_make(&z, (const qn_tensor *const[]){x, &stats}, 2, x->rank, x->dim);
	for (int64_t i = 0; i < z.count; i++) {
		int64_t at[QN_ZIP_OPERANDS];
		double v;
		qn_zip_plan_seek(&z, i / z.inner, at);
		int64_t o = at[1] + i % z.inner * z.inner_stride[1];
		qn_span_load_f64(x->data, x->type, i, 1, &v);
		v = (v - mean[o]) / dev[o];
		qn_span_store_f64(&v, (void *)(uintptr_t)y->data, y->type, i, 1);
	}
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	bool reduced[QN_MAX_RANK];
	int64_t list[QN_MAX_RANK];
	int n = 0;
	QN_TRY(axes_of(&c, reduced));
	for (int a = 0; a < c.in[0].shape.rank; a++)
		if (reduced[a])
			list[n++] = a;
	const char *x = qn_emit_ref(e, e->node->in[0]), *axes = qn_emit_ints(e, list, n);
	const char *d = qn_emit_temp(e, "centred", "sub(%s, mean_reduce(%s, axes=%s))", x, x, axes);
	qn_emit_output(e, 0, "div(%s, add(sqrt(mean_reduce(mul(%s, %s), axes=%s)), 1e-9))", d, d, d, axes);
	return QUERN_OK;
}

const qn_op qn_op_mean_variance_normalization = {
	.name = "MeanVarianceNormalization",
	.since = 9,
	.min_in = 1,
	.max_in = 1,
	.infer = infer,
	.eval = eval,
	.emit = emit,
};
