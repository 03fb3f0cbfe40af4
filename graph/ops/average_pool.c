#include "graph/ops/_pool.h"

static qn_status eval(qn_call *c)
{
	return qn_pool_eval(c, QN_POOL_AVERAGE);
}

/* Elements of the window at output position o of an axis that count: those of the input, or of the input with its pads. */
static int64_t counted(const qn_window *w, int axis, int64_t in, int64_t o, bool pads)
{
	int64_t before, after, n = 0;
	qn_window_pads(w, axis, in, &before, &after);
	for (int64_t k = 0; k < w->kernel[axis]; k++) {
		int64_t i = o * w->stride[axis] - before + k * w->dilation[axis];
		n += pads ? i < in + after : i >= 0 && i < in;
	}
	return n;
}

/* One over the number of elements of each window, [1, 1, out...]; the count of a window is the product over its axes. */
static qn_tensor *weights(qn_emit *e, const qn_window *w, const qn_shape *x, const qn_shape *y, bool pads)
{
	int64_t dim[QN_MAX_RANK] = {1, 1};
	for (int i = 2; i < y->rank; i++)
		dim[i] = y->dim[i].k;
	qn_tensor *t = qn_tensor_new(e->arena, QN_F32, y->rank, dim);
	float *v = (float *)(uintptr_t)t->data;
	for (int64_t p = 0; p < qn_tensor_count(t); p++) {
		int64_t rest = p, n = 1;
		for (int d = w->n - 1; d >= 0; d--) {
			n *= counted(w, d, x->dim[d + 2].k, rest % dim[d + 2], pads);
			rest /= dim[d + 2];
		}
		v[p] = n ? 1.0f / (float)n : 0;
	}
	return t;
}

static qn_status emit(qn_emit *e)
{
	const qn_node *n = e->node;
	const qn_shape *x = &n->in[0]->fact.shape, *y = &n->out[0]->fact.shape;
	bool pads = qn_node_int(n, "count_include_pad", 0) != 0, known = true;
	const char *window, *in = qn_emit_ranked(e, n->in[0], x->rank);
	qn_window w;
	qn_window_read(e->arena, n, x->rank - 2, &w); /* checked by infer */
	QN_TRY(qn_pool_window(e, &window));
	for (int i = 2; i < x->rank; i++)
		known = known && qn_dim_is_const(x->dim[i]);
	if (w.ceil && pads && known) { /* windows that reach beyond the pads: the engine's count is not that of ONNX */
		const char *sum = qn_emit_temp(e, "sum", "box(%s, %s, border='ignore', normalize=false)", in, window);
		qn_emit_output(e, 0, "%s * %s", sum, qn_emit_constant(e, "weights", weights(e, &w, x, y, pads)));
		return QUERN_OK;
	}
	if (w.ceil && pads)
		return qn_emit_fail(e, "ceil_mode with count_include_pad depends on the size: bind the symbol with --set");
	qn_emit_output(e, 0, "box(%s, %s, border='%s', normalize=true)", in, window, pads ? "constant" : "ignore");
	return QUERN_OK;
}

const qn_op qn_op_average_pool = {
	.name = "AveragePool", .since = 7, .min_in = 1, .max_in = 1, .infer = qn_pool_infer, .eval = eval, .emit = emit};
