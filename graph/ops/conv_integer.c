#include "graph/ops/_conv.h"
#include "graph/ops/_quant.h"
#include "graph/ops/_quantized.h"

static qn_status infer(qn_call *c)
{
	for (int i = 0; i < 2; i++)
		if (c->in[i].type != QN_I8 && c->in[i].type != QN_U8)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "operand %d is of type %s, it must be i8 or u8", i, qn_dtype_name(c->in[i].type));
	QN_TRY(qn_call_quant_check(c, 2, NULL));
	QN_TRY(qn_conv_shape(c, &c->in[0].shape, &c->in[1].shape, &c->out[0].shape));
	QN_TRY(qn_call_quant_check(c, 3, &c->in[1].shape.dim[0]));
	c->out[0].type = QN_I32;
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	const qn_node *n = c->node;
	qn_conv v = {.type = QN_I32};
	QN_TRY(qn_conv_plan(c, c->x[0], c->x[1], &c->y[0], &v));
	const float *x = qn_quant_centered(c, c->x[0], n->n_in > 2 ? c->x[2] : NULL, 0, &v.x_max);
	const float *w = qn_quant_centered(c, c->x[1], n->n_in > 3 ? c->x[3] : NULL, 0, &v.w_max);
	qn_conv_run(c, &v, x, w, QN_OUT(c, 0, void));
	return QUERN_OK;
}

/* x - zero as f32, an unsigned zero of one element or one an output channel. */
static const char *centered(qn_emit *e, qn_value *v, qn_value *zero)
{
	int rank = v->fact.shape.rank;
	const char *x = qn_emit_temp(e, "wide", "tract_core_cast(%s, to='f32')", qn_emit_ranked(e, v, rank));
	if (!zero)
		return x;
	const char *z = qn_emit_temp(e, "zero", "tract_core_cast(%s, to='f32')", qn_emit_ref(e, zero));
	int64_t shape[QN_MAX_RANK];
	for (int i = 0; i < rank; i++)
		shape[i] = 1;
	if (!qn_is_single(&zero->fact.shape))
		shape[0] = v->fact.shape.dim[0].k;
	z = qn_emit_temp(e, "zeros", "reshape(%s, shape=%s)", z, qn_emit_ints(e, shape, rank));
	return qn_emit_temp(e, "centered", "%s - %s", x, z);
}

static qn_status emit(qn_emit *e)
{
	const qn_node *n = e->node;
	const qn_shape *x = &n->in[0]->fact.shape, *w = &n->in[1]->fact.shape;
	qn_window win;
	const char *why = qn_window_read(e->arena, n, x->rank - 2, &win), *window;
	if (why)
		return qn_emit_fail(e, "%s", why);
	for (int i = 0; i < win.n; i++)
		win.kernel[i] = w->dim[i + 2].k;
	if (!qn_window_emit(e, &win, x, 0, NULL, &window))
		return qn_emit_fail(e, "pads by SAME_LOWER depend on a symbol at a stride over 1: bind the size with --set");
	/* f32 holds the products and sums of up to 257 taps of full range exactly, more to 24 bits */
	const char *in = centered(e, n->in[0], qn_node_has_in(n, 2) ? n->in[2] : NULL);
	const char *weight = centered(e, n->in[1], qn_node_has_in(n, 3) ? n->in[3] : NULL);
	const char *y = qn_emit_temp(e, "sums", "conv(%s, %s, 0.0, %s, border='constant', groups=%lld)", in, weight, window,
		(long long)qn_node_int(n, "group", 1));
	qn_emit_output(e, 0, "tract_core_cast(%s, to='i32')", y);
	return QUERN_OK;
}

const qn_op qn_op_conv_integer = {
	.name = "ConvInteger", .min_in = 2, .max_in = 4, .infer = infer, .lower = qn_lower_quantized_weight, .eval = eval, .emit = emit};
