/* _pad_emit.c - Pad as the engine's pad where that can say it, else as concatenations along one axis after another. */
#include "graph/ops/_pad.h"

typedef struct work {
	qn_emit *e;
	qn_call c;
	qn_pad p;
	qn_shape now;  /* of the value so far */
	const char *x; /* the value so far */
} work;

static bool is_negative(qn_dims *t, qn_dim d)
{
	int64_t high;
	return qn_dim_upper(t, d, &high) && high < 0;
}

/* Negative pads first, as a slice; they are 0 after it. */
static void cut(work *w)
{
	qn_dims *t = w->c.dims;
	for (int i = 0; i < w->now.rank; i++) {
		bool low = is_negative(t, w->p.low[i]), high = is_negative(t, w->p.high[i]);
		if (!low && !high)
			continue;
		qn_dim begin = low ? qn_dim_sub(t, qn_dim_const(0), w->p.low[i]) : qn_dim_const(0);
		qn_dim end = high ? qn_dim_add(t, w->now.dim[i], w->p.high[i]) : w->now.dim[i];
		w->x = qn_emit_temp(w->e, "cut", "%s", qn_move_emit_slice(w->e, w->x, i, begin, end));
		w->now.dim[i] = qn_dim_sub(t, end, begin);
		w->p.low[i] = low ? qn_dim_const(0) : w->p.low[i];
		w->p.high[i] = high ? qn_dim_const(0) : w->p.high[i];
	}
}

static bool all_constant(const work *w)
{
	for (int i = 0; i < w->now.rank; i++)
		if (!qn_dim_is_const(w->p.low[i]) || !qn_dim_is_const(w->p.high[i]))
			return false;
	return true;
}

static void native(work *w, const char *border, const char *value)
{
	qn_text pads = {.arena = w->e->arena};
	for (int i = 0; i < w->now.rank; i++)
		qn_text_add(&pads, "%s(%lld,%lld)", i ? ", " : "", (long long)w->p.low[i].k, (long long)w->p.high[i].k);
	if (value)
		qn_emit_output(w->e, 0, "pad(%s, padding=[%s], border='%s', value=%s)", w->x, pads.s, border, value);
	else
		qn_emit_output(w->e, 0, "pad(%s, padding=[%s], border='%s')", w->x, pads.s, border);
}

/* The pad value of a constant Pad: its element where known, else the expression of the value input. */
static qn_status find_value(work *w, double *number, const void **bytes, const char **run_time)
{
	static const int64_t zero[2] = {0};
	qn_emit *e = w->e;
	qn_dtype type = w->c.in[0].type;
	const qn_tensor *t = NULL;
	*run_time = NULL;
	*bytes = zero;
	*number = 0;
	if (qn_call_has(&w->c, 2)) {
		QN_TRY(qn_move_const(e, 2, &t));
		if (!t) {
			*run_time = qn_emit_ref(e, e->node->in[2]);
			return QUERN_OK;
		}
	} else if (qn_node_float(e->node, "value", 0) != 0) {
		qn_tensor *made = qn_tensor_new(e->arena, type, 0, NULL);
		qn_tensor_set((void *)(uintptr_t)made->data, type, 0, qn_node_float(e->node, "value", 0));
		t = made;
	}
	if (t && qn_tensor_count(t) == 1) {
		*bytes = qn_tensor_aligned(e->arena, t)->data;
		*number = qn_tensor_get(t, 0);
	}
	return QUERN_OK;
}

static const char *constant_part(work *w, int axis, qn_dim size, const void *bytes, const char *run_time)
{
	qn_shape s = w->now;
	s.dim[axis] = size;
	if (!run_time)
		return qn_move_emit_full(w->e, "value", w->c.in[0].type, bytes, &s);
	int64_t axes[QN_MAX_RANK];
	for (int i = 0; i < s.rank; i++)
		axes[i] = i;
	int own = w->c.in[2].shape.rank;
	const char *wide =
		s.rank > own ? qn_arena_printf(w->e->arena, "unsqueeze(%s, axes=%s)", run_time, qn_emit_ints(w->e, axes, s.rank - own))
			     : run_time;
	return qn_arena_printf(w->e->arena, "tract_core_broadcast(%s, shape=%s)", wide, qn_emit_shape(w->e, &s));
}

/* x with `front` and `back` (NULL: none) along an axis. */
static void join(work *w, int axis, const char *front, const char *back)
{
	qn_dims *t = w->c.dims;
	if (!front && !back)
		return;
	w->x = qn_emit_temp(w->e, "padded", "concat([%s%s%s%s%s], axis=%d)", front ? front : "", front ? ", " : "", w->x, back ? ", " : "",
		back ? back : "", axis);
	w->now.dim[axis] = qn_dim_add(t, w->now.dim[axis], qn_dim_add(t, w->p.low[axis], w->p.high[axis]));
}

static qn_status emit_constant(work *w)
{
	double number;
	const void *bytes;
	const char *run_time;
	qn_dtype type = w->c.in[0].type;
	QN_TRY(find_value(w, &number, &bytes, &run_time));
	bool exact = type != QN_BOOL && type != QN_F64 && number == number && (type == QN_F32 || (double)(float)number == number);
	if (!run_time && exact && all_constant(w)) {
		native(w, "constant", qn_emit_float(w->e, number));
		return QUERN_OK;
	}
	for (int i = 0; i < w->now.rank; i++) {
		const char *front = qn_dim_is(w->p.low[i], 0) ? NULL : constant_part(w, i, w->p.low[i], bytes, run_time);
		const char *back = qn_dim_is(w->p.high[i], 0) ? NULL : constant_part(w, i, w->p.high[i], bytes, run_time);
		join(w, i, front, back);
	}
	qn_emit_output(w->e, 0, "%s", w->x);
	return QUERN_OK;
}

/* At most one repetition on each side. */
static qn_status emit_wrap(work *w)
{
	qn_dims *t = w->c.dims;
	for (int i = 0; i < w->now.rank; i++) {
		qn_dim size = w->now.dim[i], low = w->p.low[i], high = w->p.high[i];
		if (qn_dim_lt(t, size, low) == QN_TRUE || qn_dim_lt(t, size, high) == QN_TRUE)
			return qn_emit_fail(
				w->e, "axis %d of size %s is repeated more than once", i, qn_dim_text(w->e->arena, size, NULL, NULL));
		const char *front = qn_dim_is(low, 0) ? NULL : qn_move_emit_slice(w->e, w->x, i, qn_dim_sub(t, size, low), size);
		const char *back = qn_dim_is(high, 0) ? NULL : qn_move_emit_slice(w->e, w->x, i, qn_dim_const(0), high);
		join(w, i, front, back);
	}
	qn_emit_output(w->e, 0, "%s", w->x);
	return QUERN_OK;
}

qn_status qn_pad_emit(qn_emit *e)
{
	work w = {.e = e, .c = qn_move_call(e)};
	QN_TRY(qn_pad_read(&w.c, &w.p));
	w.now = w.c.in[0].shape;
	w.x = qn_emit_ref(e, e->node->in[0]);
	if (w.p.mode == QN_PAD_CONSTANT || w.p.mode == QN_PAD_EDGE)
		cut(&w);
	if (w.p.mode == QN_PAD_CONSTANT)
		return emit_constant(&w);
	if (w.p.mode == QN_PAD_WRAP)
		return emit_wrap(&w);
	if (!all_constant(&w))
		return qn_emit_fail(
			e, "mode '%s' with pads that are not numbers; bind the symbol with --set", qn_node_string(e->node, "mode", ""));
	native(&w, w.p.mode == QN_PAD_REFLECT ? "reflect" : "replicated", NULL);
	return QUERN_OK;
}
