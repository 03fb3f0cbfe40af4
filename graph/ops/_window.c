#include "graph/ops/_window.h"

static const char *read_list(qn_arena *a, const qn_node *node, const char *name, int n, int64_t least, int64_t *to)
{
	const qn_attr *attr = qn_node_attr(node, name);
	if (!attr)
		return NULL;
	if (attr->kind != QN_ATTR_INTS || attr->n != (size_t)n)
		return qn_arena_printf(a, "%s has %zu entries, %d are needed", name, attr->n, n);
	for (int i = 0; i < n; i++) {
		if (attr->ints[i] < least || attr->ints[i] > INT32_MAX)
			return qn_arena_printf(a, "%s has the entry %lld, it must be at least %lld", name, (long long)attr->ints[i], (long long)least);
		to[i] = attr->ints[i];
	}
	return NULL;
}

const char *qn_window_read(qn_arena *a, const qn_node *node, int n, qn_window *w)
{
	*w = (qn_window){.n = n, .ceil = qn_node_int(node, "ceil_mode", 0) != 0};
	const char *pad = qn_node_string(node, "auto_pad", "NOTSET");
	static const char *const names[] = {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"};
	int mode = 0;
	while (mode < 4 && strcmp(pad, names[mode]) != 0)
		mode++;
	if (mode == 4)
		return qn_arena_printf(a, "auto_pad '%s' is unknown", pad);
	w->padding = (qn_padding)mode;
	for (int i = 0; i < n; i++)
		w->stride[i] = w->dilation[i] = 1;
	int64_t pads[2 * QN_MAX_SPATIAL] = {0};
	const char *why = read_list(a, node, "kernel_shape", n, 1, w->kernel);
	if (!why)
		why = read_list(a, node, "strides", n, 1, w->stride);
	if (!why)
		why = read_list(a, node, "dilations", n, 1, w->dilation);
	if (!why && w->padding == QN_PAD_EXPLICIT)
		why = read_list(a, node, "pads", 2 * n, 0, pads);
	for (int i = 0; i < n; i++)
		w->before[i] = pads[i], w->after[i] = pads[n + i];
	return why;
}

qn_status qn_window_of(qn_call *c, const qn_shape *x, const qn_shape *weight, qn_window *w)
{
	if (x->rank < 3 || (weight && weight->rank != x->rank))
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "input of rank %d%s, it needs batch, channels and spatial axes", x->rank,
			weight ? qn_arena_printf(c->scratch, " and weight of rank %d", weight->rank) : "");
	const char *why = qn_window_read(c->scratch, c->node, x->rank - 2, w);
	if (why)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%s", why);
	for (int i = 0; i < w->n; i++) {
		if (!weight && w->kernel[i] == 0)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "kernel_shape is missing");
		if (!weight)
			continue;
		if (!qn_dim_is_const(weight->dim[i + 2]) || weight->dim[i + 2].k < 1)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the kernel dims of the weight must be known and positive, they are %s",
				qn_shape_text(c->scratch, weight));
		if (w->kernel[i] && w->kernel[i] != weight->dim[i + 2].k)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "kernel_shape says %lld and the weight %lld on spatial axis %d", (long long)w->kernel[i],
				(long long)weight->dim[i + 2].k, i);
		w->kernel[i] = weight->dim[i + 2].k;
	}
	return QUERN_OK;
}

void qn_window_pads(const qn_window *w, int axis, int64_t in, int64_t *before, int64_t *after)
{
	*before = w->before[axis], *after = w->after[axis];
	if (w->padding != QN_PAD_SAME_UPPER && w->padding != QN_PAD_SAME_LOWER)
		return;
	int64_t s = w->stride[axis], out = (in + s - 1) / s, total = (out - 1) * s + qn_window_span(w, axis) - in;
	total = total > 0 ? total : 0;
	*before = w->padding == QN_PAD_SAME_UPPER ? total / 2 : total - total / 2;
	*after = total - *before;
}

qn_status qn_window_out(qn_call *c, const qn_window *w, int axis, qn_dim in, qn_dim *out)
{
	qn_dims *t = c->dims;
	qn_dim stride = qn_dim_const(w->stride[axis]);
	if (w->padding == QN_PAD_SAME_UPPER || w->padding == QN_PAD_SAME_LOWER) {
		*out = qn_dim_ceildiv(t, in, stride);
		return QUERN_OK;
	}
	int64_t fixed = w->before[axis] + w->after[axis] - qn_window_span(w, axis);
	if (qn_dim_is_const(in) && in.k + fixed < 0)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the window spans %lld elements and spatial axis %d has only %lld with its pads",
			(long long)qn_window_span(w, axis), axis, (long long)(in.k + w->before[axis] + w->after[axis]));
	qn_dim room = qn_dim_add(t, in, qn_dim_const(fixed));
	if (!w->ceil) {
		*out = qn_dim_add(t, qn_dim_floordiv(t, room, stride), qn_dim_const(1));
		return QUERN_OK;
	}
	/* a window that would start in the padding after the data is left out */
	qn_dim all = qn_dim_add(t, qn_dim_ceildiv(t, room, stride), qn_dim_const(1));
	*out = qn_dim_min(t, all, qn_dim_ceildiv(t, qn_dim_add(t, in, qn_dim_const(w->before[axis])), stride));
	return QUERN_OK;
}

static const char *unit_list(qn_emit *e, const int64_t *v, int n, int outer)
{
	int64_t all[QN_MAX_RANK];
	for (int i = 0; i < outer + n; i++)
		all[i] = i < outer ? 1 : v[i - outer];
	return qn_emit_ints(e, all, outer + n);
}

bool qn_window_emit(qn_emit *e, const qn_window *w, const qn_shape *x, int outer, const int64_t *more, const char **out)
{
	qn_text pads = {.arena = e->arena};
	bool same = w->padding == QN_PAD_SAME_UPPER || w->padding == QN_PAD_SAME_LOWER, written = false;
	qn_text_add(&pads, "[");
	for (int i = 0; i < outer; i++)
		qn_text_add(&pads, "(0, 0), ");
	for (int i = 0; i < w->n; i++) {
		qn_dim in = x->dim[i + 2];
		int64_t before, after;
		if (same && !qn_dim_is_const(in) && w->stride[i] > 1) { /* the engine's own rule, which is all or nothing */
			if (w->padding == QN_PAD_SAME_LOWER || more)
				return false;
			written = true;
			continue;
		}
		/* at stride 1 the pads do not depend on the size */
		qn_window_pads(w, i, qn_dim_is_const(in) ? in.k : qn_window_span(w, i), &before, &after);
		qn_text_add(&pads, "%s(%lld, %lld)", i ? ", " : "", (long long)before, (long long)(after + (more ? more[i] : 0)));
	}
	qn_text_add(&pads, "]");
	*out = qn_arena_printf(e->arena, "stride=%s, dilation=%s, padding=%s", unit_list(e, w->stride, w->n, outer),
		unit_list(e, w->dilation, w->n, outer), written ? "[]" : pads.s);
	return true;
}
