#include "graph/ops/_gemm.h"
#include "graph/ops/_window.h"

/* The geometry of a transposed convolution: pads may come from a wanted output size. */
typedef struct transposed {
	qn_window window;
	int64_t groups;
	int64_t extra[QN_MAX_SPATIAL];  /* output_padding */
	int64_t wanted[QN_MAX_SPATIAL]; /* output_shape, 0 where not given */
	bool same;                      /* the output is input * stride */
} transposed;

static const char *read_geometry(qn_arena *a, const qn_node *n, int axes, transposed *t)
{
	const char *why = qn_window_read(a, n, axes, &t->window);
	if (why)
		return why;
	t->groups = qn_node_int(n, "group", 1);
	t->same = t->window.padding == QN_PAD_SAME_UPPER || t->window.padding == QN_PAD_SAME_LOWER;
	const qn_attr *extra = qn_node_attr(n, "output_padding"), *shape = qn_node_attr(n, "output_shape");
	if (extra && extra->n != (size_t)axes)
		return qn_arena_printf(a, "output_padding has %zu entries, %d are needed", extra->n, axes);
	if (shape && shape->n != (size_t)axes && shape->n != (size_t)axes + 2)
		return qn_arena_printf(a, "output_shape has %zu entries, %d are needed", shape->n, axes);
	for (int i = 0; i < axes; i++) {
		t->extra[i] = extra ? extra->ints[i] : 0;
		t->wanted[i] = shape ? shape->ints[shape->n - (size_t)axes + (size_t)i] : 0;
		if (t->extra[i] < 0 || t->wanted[i] < 0)
			return qn_arena_printf(a, "output_padding and output_shape must not be negative");
	}
	return NULL;
}

/* Elements cut off in front of an axis of `in` elements, given how many come out. */
static int64_t cut_before(const transposed *t, int axis, int64_t in, int64_t out)
{
	const qn_window *w = &t->window;
	if (!t->same && !t->wanted[axis])
		return w->before[axis];
	int64_t total = (in - 1) * w->stride[axis] + t->extra[axis] + qn_window_span(w, axis) - out;
	total = total > 0 ? total : 0;
	return w->padding == QN_PAD_SAME_UPPER ? total / 2 : total - total / 2;
}

static qn_status infer(qn_call *c)
{
	const qn_shape *x = &c->in[0].shape, *w = &c->in[1].shape;
	transposed t = {.same = false};
	if (!qn_dtype_is_float(c->in[0].type) || c->in[1].type != c->in[0].type)
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "input of type %s and weight of type %s", qn_dtype_name(c->in[0].type),
			qn_dtype_name(c->in[1].type));
	qn_window from_weight;
	QN_TRY(qn_window_of(c, x, w, &from_weight));
	const char *why = read_geometry(c->scratch, c->node, x->rank - 2, &t);
	if (why)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%s", why);
	memcpy(t.window.kernel, from_weight.kernel, sizeof t.window.kernel);
	if (t.groups < 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "group is %lld, it must be at least 1", (long long)t.groups);
	QN_TRY(qn_call_equate(c, x->dim[1], w->dim[0], "the channels of input and weight"));
	if (qn_dim_is_const(w->dim[0]) && w->dim[0].k % t.groups)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%lld input channels do not divide into %lld groups", (long long)w->dim[0].k, (long long)t.groups);
	c->out[0].type = c->in[0].type;
	qn_shape *y = &c->out[0].shape;
	*y = *x;
	y->dim[1] = qn_dim_mul(c->dims, w->dim[1], qn_dim_const(t.groups));
	for (int i = 0; i < t.window.n; i++) {
		qn_dim stride = qn_dim_const(t.window.stride[i]), in = x->dim[i + 2];
		int64_t fixed = t.extra[i] + qn_window_span(&t.window, i) - t.window.before[i] - t.window.after[i] - t.window.stride[i];
		if (t.wanted[i])
			y->dim[i + 2] = qn_dim_const(t.wanted[i]);
		else if (t.same)
			y->dim[i + 2] = qn_dim_mul(c->dims, in, stride);
		else
			y->dim[i + 2] = qn_dim_add(c->dims, qn_dim_mul(c->dims, in, stride), qn_dim_const(fixed));
		if (qn_dim_is_const(y->dim[i + 2]) && y->dim[i + 2].k < 0)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "spatial axis %d would have %lld elements", i, (long long)y->dim[i + 2].k);
	}
	if (!qn_call_has(c, 2))
		return QUERN_OK;
	if (c->in[2].shape.rank != 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the bias has rank %d, it must have rank 1", c->in[2].shape.rank);
	return qn_call_equate(c, c->in[2].shape.dim[0], y->dim[1], "the bias and the output channels");
}

/* Adds the contributions of one kernel offset (decoded from `k`) to an output channel. */
static void scatter(const transposed *t, const qn_tensor *x, const qn_tensor *y, int64_t k, const float *part, float *out)
{
	int n = t->window.n;
	int64_t shift[QN_MAX_SPATIAL], count = 1;
	for (int d = n - 1; d >= 0; d--) {
		shift[d] = k % t->window.kernel[d] * t->window.dilation[d] - cut_before(t, d, x->dim[d + 2], y->dim[d + 2]);
		k /= t->window.kernel[d];
		count *= x->dim[d + 2];
	}
	for (int64_t p = 0; p < count; p++) {
		int64_t rest = p, at = 0, step = 1;
		bool inside = true;
		for (int d = n - 1; d >= 0; d--) {
			int64_t o = rest % x->dim[d + 2] * t->window.stride[d] + shift[d];
			rest /= x->dim[d + 2];
			inside = inside && o >= 0 && o < y->dim[d + 2];
			at += o * step;
			step *= y->dim[d + 2];
		}
		if (inside)
			out[at] += part[p];
	}
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *w = c->x[1], *y = &c->y[0];
	transposed t = {.same = false};
	read_geometry(c->scratch, c->node, x->rank - 2, &t); /* checked by infer */
	int64_t in_size = 1, out_size = 1, kernel = 1;
	for (int i = 0; i < t.window.n; i++) {
		t.window.kernel[i] = w->dim[i + 2];
		in_size *= x->dim[i + 2], out_size *= y->dim[i + 2], kernel *= w->dim[i + 2];
	}
	int64_t m = w->dim[1], c_in = w->dim[0] / t.groups, tasks = x->dim[0] * t.groups * m;
	const float *xf = qn_tensor_f32(c->scratch, x), *wf = qn_tensor_f32(c->scratch, w);
	const float *bias = c->node->n_in > 2 && c->x[2] ? qn_tensor_f32(c->scratch, c->x[2]) : NULL;
	float *out = y->type == QN_F32 ? QN_OUT(c, 0, float) : QN_NEW(c->scratch, float, tasks * out_size);
	float *parts = QN_NEW(c->scratch, float, kernel * in_size);
	for (int64_t task = 0; task < tasks; task++) {
		int64_t group = task / m, channel = task % m;
		qn_gemm g = {.type = QN_F32, .ta = true, .m = kernel, .n = in_size, .k = c_in, .lda = m * kernel, .ldb = in_size, .ldc = in_size,
			.batch = 1};
		qn_gemm_run(&g, c->threads, wf + (group % t.groups * c_in * m + channel) * kernel, xf + group * c_in * in_size, parts);
		float first = bias ? bias[task % (t.groups * m)] : 0;
		for (int64_t i = 0; i < out_size; i++)
			out[task * out_size + i] = first;
		for (int64_t k = 0; k < kernel; k++)
			scatter(&t, x, y, k, parts + k * in_size, out + task * out_size);
	}
	if (y->type != QN_F32)
		qn_convert(out, QN_F32, QN_OUT(c, 0, void), y->type, tasks * out_size);
	return QUERN_OK;
}

/* The weight [C, M/groups, kernel] in the engine's order [M, C/groups, kernel]. */
static const char *engine_weight(qn_emit *e, qn_value *v, int64_t groups)
{
	const qn_shape *w = &v->fact.shape;
	const char *x = qn_emit_ranked(e, v, w->rank), *kernel = "";
	int64_t axes[QN_MAX_RANK + 1] = {0, 2, 1};
	for (int i = 2; i < w->rank; i++) {
		kernel = qn_arena_printf(e->arena, "%s, %s", kernel, qn_emit_dim(e, w->dim[i]));
		axes[i + 1] = i + 1;
	}
	int64_t c_in = w->dim[0].k / groups, m = w->dim[1].k;
	x = qn_emit_temp(e, "groups", "reshape(%s, shape=[%lld, %lld, %lld%s])", x, (long long)groups, (long long)c_in, (long long)m, kernel);
	x = qn_emit_temp(e, "turned", "transpose(%s, axes=%s)", x, qn_emit_ints(e, axes, w->rank + 1));
	return qn_emit_temp(e, "weight", "reshape(%s, shape=[%lld, %lld%s])", x, (long long)(groups * m), (long long)c_in, kernel);
}

static qn_status emit(qn_emit *e)
{
	const qn_node *n = e->node;
	const qn_shape *x = &n->in[0]->fact.shape, *w = &n->in[1]->fact.shape, *y = &n->out[0]->fact.shape;
	transposed t = {.same = false};
	const char *why = read_geometry(e->arena, n, x->rank - 2, &t);
	if (why || !qn_dim_is_const(w->dim[0]) || !qn_dim_is_const(w->dim[1]))
		return qn_emit_fail(e, "%s", why ? why : "the channels of the weight depend on a symbol");
	qn_text pads = {.arena = e->arena}, grow = {.arena = e->arena};
	bool grows = false;
	for (int i = 0; i < t.window.n; i++) {
		t.window.kernel[i] = w->dim[i + 2].k;
		int64_t span = qn_window_span(&t.window, i), before = t.window.before[i], after = t.window.after[i] - t.extra[i];
		if (t.same || t.wanted[i]) {
			if (!qn_dim_is_const(x->dim[i + 2]) && t.wanted[i])
				return qn_emit_fail(e, "output_shape with an input size that is a symbol: bind it with --set");
			/* with SAME the cut is the same for every size */
			int64_t in = qn_dim_is_const(x->dim[i + 2]) ? x->dim[i + 2].k : 1, out = t.wanted[i] ? y->dim[i + 2].k : in * t.window.stride[i];
			before = cut_before(&t, i, in, out);
			after = (in - 1) * t.window.stride[i] + span - before - out;
		}
		grows = grows || after < 0;
		qn_text_add(&pads, "%s(%lld, %lld)", i ? ", " : "", (long long)before, (long long)(after > 0 ? after : 0));
		qn_text_add(&grow, ", (0, %lld)", (long long)(after < 0 ? -after : 0));
	}
	const char *in = qn_emit_ranked(e, n->in[0], x->rank), *weight = engine_weight(e, n->in[1], t.groups), *bias = "0.0";
	bool late = grows && qn_node_has_in(n, 2); /* what the engine leaves out holds the bias alone */
	if (qn_node_has_in(n, 2) && !late)
		bias = qn_emit_ranked(e, n->in[2], 2);
	const char *out = qn_arena_printf(e->arena,
		"deconv(%s, %s, %s, stride=%s, dilation=%s, padding=[%s], border='constant', groups=%lld)", in, weight, bias,
		qn_emit_ints(e, t.window.stride, t.window.n), qn_emit_ints(e, t.window.dilation, t.window.n), pads.s, (long long)t.groups);
	if (grows)
		out = qn_arena_printf(e->arena, "pad(%s, padding=[(0, 0), (0, 0)%s], border='constant', value=0.0)",
			qn_emit_temp(e, "deconv", "%s", out), grow.s);
	if (late) {
		int64_t axes[QN_MAX_SPATIAL];
		for (int i = 0; i < t.window.n; i++)
			axes[i] = i + 2;
		bias = qn_emit_temp(e, "bias", "unsqueeze(%s, axes=%s)", qn_emit_ranked(e, n->in[2], 2), qn_emit_ints(e, axes, t.window.n));
		out = qn_arena_printf(e->arena, "%s + %s", qn_emit_temp(e, "grown", "%s", out), bias);
	}
	qn_emit_output(e, 0, "%s", out);
	return QUERN_OK;
}

const qn_op qn_op_conv_transpose = {
	.name = "ConvTranspose", .hint = QN_HINT_CONTRACTION, .traits = QN_CONVOLUTION, .weight_input = 2, .min_in = 2, .max_in = 3,
	.infer = infer, .eval = eval, .emit = emit};
