#include "graph/emit.h"
#include "graph/ops/_gemm.h"
#include <math.h>

/* inputs: signal [B, L] or [B, L, 1 or 2], frame_step, window, frame_length */

static const qn_tensor *single(const qn_call *c, int i)
{
	const qn_tensor *t = qn_call_has(c, i) ? c->in[i].value : NULL;
	return t && t->type != QN_DIM && qn_tensor_count(t) == 1 ? t : NULL;
}

/* The length of a frame: given, or that of the window. */
static qn_status frame(qn_call *c, int64_t *step, int64_t *length)
{
	if (!single(c, 1))
		return qn_call_data_dependent(c, 1, "frame_step");
	*step = qn_tensor_get_i64(single(c, 1), 0);
	if (qn_call_has(c, 3)) {
		if (!single(c, 3))
			return qn_call_data_dependent(c, 3, "frame_length");
		*length = qn_tensor_get_i64(single(c, 3), 0);
	} else if (qn_call_has(c, 2) && c->in[2].shape.rank == 1 && qn_dim_is_const(c->in[2].shape.dim[0])) {
		*length = c->in[2].shape.dim[0].k;
	} else {
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "neither a window nor frame_length is given");
	}
	if (*step < 1 || *length < 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "frame_step is %lld and frame_length %lld", (long long)*step, (long long)*length);
	if (qn_call_has(c, 2)) {
		if (c->in[2].shape.rank != 1)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the window has rank %d, it must have rank 1", c->in[2].shape.rank);
		return qn_call_equate(c, c->in[2].shape.dim[0], qn_dim_const(*length), "the window and frame_length");
	}
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	const qn_shape *x = &c->in[0].shape;
	int64_t step, length;
	QN_TRY(frame(c, &step, &length));
	if (!qn_dtype_is_float(c->in[0].type) || (x->rank != 2 && x->rank != 3))
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "signal of type %s and rank %d, it must be float of rank 3", qn_dtype_name(c->in[0].type), x->rank);
	if (x->rank == 3 && !qn_dim_is(x->dim[2], 1) && !qn_dim_is(x->dim[2], 2))
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the last axis must hold 1 or 2 parts");
	if (qn_dim_is_const(x->dim[1]) && x->dim[1].k < length)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "a signal of %lld is shorter than a frame of %lld", (long long)x->dim[1].k, (long long)length);
	int64_t bins = qn_node_int(c->node, "onesided", 1) ? length / 2 + 1 : length;
	qn_dim room = qn_dim_sub(c->dims, x->dim[1], qn_dim_const(length));
	qn_dim frames = qn_dim_add(c->dims, qn_dim_floordiv(c->dims, room, qn_dim_const(step)), qn_dim_const(1));
	c->out[0].type = c->in[0].type;
	c->out[0].shape = (qn_shape){4, {x->dim[0], frames, qn_dim_const(bins), qn_dim_const(2)}};
	return QUERN_OK;
}

/* The windowed transform of a frame, [bins, 2, parts, length]. */
static qn_tensor *filters(qn_arena *a, const float *window, int64_t length, int64_t parts, int64_t bins)
{
	const double pi = 3.14159265358979323846;
	int64_t dim[4] = {bins, 2, parts, length};
	qn_tensor *t = qn_tensor_new(a, QN_F32, 4, dim);
	float *m = (float *)(uintptr_t)t->data;
	for (int64_t k = 0; k < bins; k++)
		for (int64_t i = 0; i < length; i++) {
			double angle = -2 * pi * (double)(k * i % length) / (double)length, w = window ? (double)window[i] : 1;
			for (int64_t p = 0; p < 2; p++)
				for (int64_t q = 0; q < parts; q++) {
					double v = p == q ? cos(angle) : p == 0 ? -sin(angle) : sin(angle);
					m[((k * 2 + p) * parts + q) * length + i] = (float)(v * w);
				}
		}
	return t;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *y = &c->y[0];
	int64_t step, length, parts = x->rank == 3 ? x->dim[2] : 1, frames = y->dim[1], width = y->dim[2] * 2;
	QN_TRY(frame(c, &step, &length));
	const float *window = qn_call_has(c, 2) ? qn_tensor_f32(c->scratch, c->x[2]) : NULL, *xf = qn_tensor_f32(c->scratch, x);
	const float *m = filters(c->scratch, window, length, parts, y->dim[2])->data;
	float *rows = QN_NEW(c->scratch, float, x->dim[0] * frames * parts * length), *to = rows;
	for (int64_t f = 0; f < x->dim[0] * frames; f++)
		for (int64_t q = 0; q < parts; q++)
			for (int64_t i = 0; i < length; i++)
				*to++ = xf[(f / frames * x->dim[1] + f % frames * step + i) * parts + q];
	float *out = y->type == QN_F32 ? QN_OUT(c, 0, float) : QN_NEW(c->scratch, float, qn_tensor_count(y));
	qn_gemm g = {.type = QN_F32, .tb = true, .m = x->dim[0] * frames, .n = width, .k = parts * length, .lda = parts * length,
		.ldb = parts * length, .ldc = width, .batch = 1};
	qn_gemm_run(&g, c->threads, rows, m, out);
	if (y->type != QN_F32)
		qn_convert(out, QN_F32, QN_OUT(c, 0, void), y->type, qn_tensor_count(y));
	return QUERN_OK;
}

/* A convolution along the signal. */
static qn_status emit(qn_emit *e)
{
	const qn_node *n = e->node;
	const qn_shape *x = &n->in[0]->fact.shape, *y = &n->out[0]->fact.shape;
	const qn_tensor *t, *window = NULL;
	if (n->in[0]->fact.type != QN_F32 || (qn_node_has_in(n, 2) && !n->in[2]->is_const))
		return qn_emit_fail(e, "a signal that is not f32, or a window that is not constant, is not expressible");
	QN_TRY(qn_graph_load(e->graph, n->in[1], e->arena, &t));
	int64_t step = qn_tensor_get_i64(t, 0), parts = x->rank == 3 ? x->dim[2].k : 1, bins = y->dim[2].k, length;
	if (qn_node_has_in(n, 2))
		QN_TRY(qn_graph_load(e->graph, n->in[2], e->arena, &window));
	if (qn_node_has_in(n, 3))
		QN_TRY(qn_graph_load(e->graph, n->in[3], e->arena, &t));
	length = qn_node_has_in(n, 3) ? qn_tensor_get_i64(t, 0) : window->dim[0];
	qn_tensor *m = filters(e->arena, window ? qn_tensor_f32(e->arena, window) : NULL, length, parts, bins);
	m->rank = 3, m->dim[0] = bins * 2, m->dim[1] = parts, m->dim[2] = length;
	const char *signal = qn_emit_ranked(e, n->in[0], x->rank);
	signal = qn_emit_temp(e, "channels", x->rank == 3 ? "transpose(%s, axes=[0, 2, 1])" : "unsqueeze(%s, axes=[1])", signal);
	const char *out = qn_emit_temp(e, "frames",
		"conv(%s, %s, 0.0, stride=[%lld], dilation=[1], padding=[(0, 0)], border='constant', groups=1)", signal,
		qn_emit_constant(e, "filters", m), (long long)step);
	out = qn_emit_temp(e, "rows", "transpose(%s, axes=[0, 2, 1])", out);
	qn_emit_output(e, 0, "reshape(%s, shape=%s)", out, qn_emit_shape(e, y));
	return QUERN_OK;
}

const qn_op qn_op_stft = {.name = "STFT", .since = 17, .min_in = 2, .max_in = 4, .infer = infer, .eval = eval, .emit = emit};
