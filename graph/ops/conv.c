#include "graph/ops/_conv.h"

static qn_status infer(qn_call *c)
{
	qn_dtype t = c->in[0].type;
	if (!qn_dtype_is_float(t))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "input of type %s", qn_dtype_name(t));
	/* a block-quantized or f16 weight stands for f32 values */
	qn_dtype tw = c->in[1].type;
	if (tw != t && !(t == QN_F32 && (tw == QN_Q4_0 || tw == QN_F16)))
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "input of type %s and weight of type %s", qn_dtype_name(t), qn_dtype_name(tw));
	c->out[0].type = t;
	QN_TRY(qn_conv_shape(c, &c->in[0].shape, &c->in[1].shape, &c->out[0].shape));
	if (!qn_call_has(c, 2))
		return QUERN_OK;
	if (c->in[2].shape.rank != 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the bias has rank %d, it must have rank 1", c->in[2].shape.rank);
	return qn_call_equate(c, c->in[2].shape.dim[0], c->in[1].shape.dim[0], "the bias and the output channels");
}

static const void *as_type(qn_call *c, const qn_tensor *t, qn_dtype to)
{
	if (to == QN_F32)
		return qn_tensor_f32(c->scratch, t);
	return t->data;
}

#define ADD_BIAS(type)                                                                                                   \
	for (int64_t i = 0; i < v->batch * channels; i++)                                                                \
		for (int64_t p = 0; p < v->out_size; p++)                                                                \
			((type *)y)[i * v->out_size + p] += ((const type *)bias)[i % channels]

static void add_bias(const qn_conv *v, void *y, const void *bias)
{
	int64_t channels = v->groups * v->c_out;
	if (v->type == QN_F64)
		ADD_BIAS(double);
	else
		ADD_BIAS(float);
}

static qn_status eval(qn_call *c)
{
	qn_conv v = {.type = c->x[0]->type == QN_F64 ? QN_F64 : QN_F32};
	QN_TRY(qn_conv_plan(c, c->x[0], c->x[1], &c->y[0], &v));
	int64_t n = qn_tensor_count(&c->y[0]);
	void *out = QN_OUT(c, 0, void), *y = c->x[0]->type == v.type ? out : qn_arena_array(c->scratch, (size_t)n, qn_dtype_size(v.type));
	qn_conv_run(c, &v, as_type(c, c->x[0], v.type), as_type(c, c->x[1], v.type), y);
	if (c->node->n_in > 2 && c->x[2])
		add_bias(&v, y, as_type(c, c->x[2], v.type));
	if (y != out)
		qn_convert(y, v.type, out, c->x[0]->type, n);
	return QUERN_OK;
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
	const char *in = qn_emit_ranked(e, n->in[0], x->rank);
	if (!qn_window_emit(e, &win, x, 0, NULL, &window))
		return qn_emit_fail(e, "pads by SAME_LOWER depend on a symbol at a stride over 1: bind the size with --set");
	const char *bias = "0.0", *weight = qn_emit_ranked(e, n->in[1], w->rank);
	if (qn_node_has_in(n, 2))
		bias = qn_emit_ranked(e, n->in[2], 2);
	if (n->in[1]->fact.type == QN_F16 && n->in[0]->fact.type == QN_F32) /* the engine has no such kernel */
		weight = qn_emit_temp(e, "weight", "tract_core_cast(%s, to='f32')", weight);
	qn_emit_output(e, 0, "conv(%s, %s, %s, %s, border='constant', groups=%lld)", in, weight, bias, window,
		(long long)qn_node_int(n, "group", 1));
	return QUERN_OK;
}

const qn_op qn_op_conv = {
	.name = "Conv", .hint = QN_HINT_CONTRACTION, .traits = QN_CONVOLUTION, .weight_input = 2, .min_in = 2, .max_in = 3,
	.infer = infer, .eval = eval, .emit = emit};
