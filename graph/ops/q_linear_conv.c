#include "graph/ops/_conv.h"
#include "graph/ops/_quant.h"
#include "graph/ops/_quantized.h"

/* inputs: x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias (i32, in units of x_scale * w_scale) */

static qn_status infer(qn_call *c)
{
	for (int i = 0; i < 4; i += 3)
		if (c->in[i].type != QN_I8 && c->in[i].type != QN_U8)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "input %d is of type %s, it must be i8 or u8", i, qn_dtype_name(c->in[i].type));
	const qn_shape *w = &c->in[3].shape;
	QN_TRY(qn_conv_shape(c, &c->in[0].shape, w, &c->out[0].shape));
	const int scalars[] = {1, 2, 6, 7}, vectors[] = {4, 5, 8};
	for (size_t i = 0; i < QN_LEN(scalars); i++)
		QN_TRY(qn_call_quant_check(c, scalars[i], NULL));
	for (size_t i = 0; i < QN_LEN(vectors); i++)
		QN_TRY(qn_call_quant_check(c, vectors[i], &w->dim[0]));
	c->out[0].type = c->in[7].type;
	int64_t low, high;
	if (!qn_quant_range(c->out[0].type, &low, &high))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "an output zero point of type %s", qn_dtype_name(c->out[0].type));
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *const *x = c->x, *bias = c->node->n_in > 8 ? c->x[8] : NULL;
	qn_conv v = {.type = QN_I32};
	QN_TRY(qn_conv_plan(c, x[0], x[3], &c->y[0], &v));
	const float *in = qn_quant_centered(c, x[0], x[2], 0, &v.x_max), *w = qn_quant_centered(c, x[3], x[5], 0, &v.w_max);
	int64_t count = qn_tensor_count(&c->y[0]), channels = v.groups * v.c_out, low, high, zero = qn_tensor_get_i64(x[7], 0);
	int32_t *sums = QN_NEW(c->scratch, int32_t, count);
	qn_conv_run(c, &v, in, w, sums);
	qn_quant_range(c->y[0].type, &low, &high);
	bool many = qn_tensor_count(x[4]) > 1;
	void *y = QN_OUT(c, 0, void);
	for (int64_t i = 0; i < count; i++) {
		int64_t ch = i / v.out_size % channels;
		double sum = (double)sums[i] + (bias ? qn_tensor_get(bias, ch) : 0);
		double factor = qn_tensor_get(x[1], 0) * qn_tensor_get(x[4], many ? ch : 0) / qn_tensor_get(x[6], 0);
		qn_tensor_set(y, c->y[0].type, i, (double)qn_quantize((float)(sum * factor), 1.0f, zero, low, high));
	}
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	const qn_node *n = e->node;
	const qn_shape *x = &n->in[0]->fact.shape, *w = &n->in[3]->fact.shape;
	qn_window win;
	const char *why = qn_window_read(e->arena, n, x->rank - 2, &win), *window;
	if (why)
		return qn_emit_fail(e, "%s", why);
	for (int i = 0; i < win.n; i++)
		win.kernel[i] = w->dim[i + 2].k;
	if (!qn_window_emit(e, &win, x, 0, NULL, &window))
		return qn_emit_fail(e, "pads by SAME_LOWER depend on a symbol at a stride over 1: bind the size with --set");
	const char *in = qn_emit_temp(e, "x", "tract_core_cast(%s, to='f32') - %s", qn_emit_ranked(e, n->in[0], x->rank),
		qn_quant_param(e, n->in[2], "x_zero", x->rank, 0));
	const char *weight = qn_emit_temp(e, "w", "tract_core_cast(%s, to='f32') - %s", qn_emit_ranked(e, n->in[3], x->rank),
		qn_quant_param(e, n->in[5], "w_zero", x->rank, 0));
	const char *bias = qn_node_has_in(n, 8) ? qn_quant_param(e, n->in[8], "bias", 2, 1) : "0.0";
	const char *y = qn_emit_temp(e, "sums", "conv(%s, %s, %s, %s, border='constant', groups=%lld)", in, weight, bias, window,
		(long long)qn_node_int(n, "group", 1));
	const char *factor = qn_emit_temp(e, "factor", "%s * %s / %s", qn_quant_param(e, n->in[1], "x_scale", x->rank, 0),
		qn_quant_param(e, n->in[4], "w_scale", x->rank, 1), qn_quant_param(e, n->in[6], "y_scale", x->rank, 0));
	y = qn_emit_temp(e, "steps", "tract_core_round_even(%s * %s)", y, factor);
	y = qn_emit_temp(e, "shifted", "%s + %s", y, qn_quant_param(e, n->in[7], "y_zero", x->rank, 0));
	qn_emit_output(e, 0, "tract_core_cast(%s, to='%s')", y, qn_emit_dtype(n->out[0]->fact.type));
	return QUERN_OK;
}

const qn_op qn_op_q_linear_conv = {.name = "QLinearConv",
	.since = 10,
	.min_in = 8,
	.max_in = 9,
	.infer = infer,
	.lower = qn_lower_quantized_weight,
	.eval = eval,
	.emit = emit};
