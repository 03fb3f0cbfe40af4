#include "graph/ops/_resize.h"

/* Rows of a matrix times the axis: [out, in]. */
static const char *by_matrix(qn_emit *e, const char *x, int rank, int axis, int64_t in, const qn_taps *t)
{
	int64_t dim[2] = {t->out, in};
	qn_tensor *m = qn_tensor_new(e->arena, QN_F32, 2, dim);
	float *v = (float *)(uintptr_t)m->data;
	for (int64_t i = 0; i < t->out * t->width; i++)
		v[i / t->width * in + t->index[i]] += t->weight[i];
	char from[QN_MAX_RANK + 1] = {0}, to[QN_MAX_RANK + 1] = {0};
	for (int i = 0; i < rank; i++) {
		from[i] = (char)('a' + i);
		to[i] = i == axis ? 'z' : from[i];
	}
	return qn_emit_temp(e, "resampled", "tract_core_einsum([%s, %s], expr='%s,z%c->%s', acc='f32', output='')", x,
		qn_emit_constant(e, qn_arena_printf(e->arena, "taps%d", axis), m), from, from[axis], to);
}

static const char *by_index(qn_emit *e, const char *x, int axis, const qn_taps *t)
{
	qn_tensor *index = qn_tensor_i64s(e->arena, t->index, (int)t->out);
	return qn_emit_temp(e, "picked", "tract_core_gather(%s, %s, axis=%d)", x,
		qn_emit_constant(e, qn_arena_printf(e->arena, "index%d", axis), index), axis);
}

/* Whether an axis of any size repeats each element `times` times; judged on a size of its own. */
static bool repeats(qn_emit *e, const qn_resize *r, int axis, int64_t *times)
{
	enum { PROBE = 11 };
	double s = r->scale[axis];
	qn_taps t;
	qn_dim want = qn_dim_mul(e->graph->dims, r->in[axis], qn_dim_const((int64_t)s));
	if (r->mode != QN_NEAREST || s < 1 || s != (double)(int64_t)s || !qn_dim_equal(want, r->out[axis]))
		return false;
	*times = (int64_t)s;
	qn_resize_taps(e->arena, r, axis, PROBE, PROBE * *times, &t);
	for (int64_t i = 0; i < t.out; i++)
		if (t.index[i] != i / *times || t.outside[i])
			return false;
	return true;
}

/* [.., d, ..] -> [.., d, 1, ..] -> repeated -> [.., d * times, ..] */
static const char *by_repetition(qn_emit *e, const char *x, const qn_shape *done, int axis, int64_t times)
{
	int64_t counts[QN_MAX_RANK + 1];
	for (int i = 0; i <= done->rank; i++)
		counts[i] = i == axis + 1 ? times : 1;
	x = qn_emit_temp(e, "apart", "unsqueeze(%s, axes=[%d])", x, axis + 1);
	x = qn_emit_temp(e, "repeated", "tile(%s, repeats=%s)", x, qn_emit_ints(e, counts, done->rank + 1));
	return qn_emit_temp(e, "joined", "reshape(%s, shape=%s)", x, qn_emit_shape(e, done));
}

/* Axes of symbolic size that are interpolated go through the engine's own operator, which knows fixed scales only. */
static const char *by_engine(qn_emit *e, const char *x, const qn_resize *r, int axis, qn_status *status)
{
	static const char *const coordinates[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
		"tf_half_pixel_for_nn", NULL};
	double s = r->scale[axis];
	const char *mode = r->mode == QN_LINEAR ? "interpolator='linear'" : NULL;
	if (r->mode == QN_NEAREST && r->rounding == QN_ROUND_FLOOR)
		mode = "interpolator='nearest', nearest_mode='floor'";
	if (r->mode == QN_NEAREST && r->rounding == QN_ROUND_PREFER_CEIL)
		mode = "interpolator='nearest', nearest_mode='round_prefer_ceil'";
	if (!mode || !coordinates[r->coordinates] || s < 1 || s != (double)(int64_t)s) {
		*status = qn_emit_fail(e, "this resampling of axis %d, whose size is a symbol, is not expressible: bind it with --set", axis);
		return x;
	}
	qn_text scales = {.arena = e->arena};
	for (int i = 0; i < r->rank; i++)
		qn_text_add(&scales, "%s%s", i ? ", " : "", i == axis ? qn_emit_float(e, s) : "1.0");
	return qn_emit_temp(e, "resampled", "tract_core_resize(%s, scales=[%s], coord_transformer='%s', %s)", x, scales.s,
		coordinates[r->coordinates], mode);
}

static const char *mask_outside(qn_emit *e, const char *y, const qn_resize *r, int axis, const qn_taps *t)
{
	int64_t dim[QN_MAX_RANK];
	for (int i = 0; i < r->rank; i++)
		dim[i] = i == axis ? t->out : 1;
	qn_tensor *keep = qn_tensor_new(e->arena, QN_BOOL, r->rank, dim);
	for (int64_t i = 0; i < t->out; i++)
		((uint8_t *)(uintptr_t)keep->data)[i] = !t->outside[i];
	return qn_emit_temp(e, "filled", "select(%s, %s, %s)", qn_emit_constant(e, qn_arena_printf(e->arena, "inside%d", axis), keep), y,
		qn_emit_float(e, r->extrapolation));
}

qn_status qn_resize_emit(qn_emit *e, int scales, int sizes, int roi)
{
	const qn_node *n = e->node;
	qn_fact *in = QN_NEW(e->arena, qn_fact, n->n_in);
	for (int i = 0; i < n->n_in; i++) {
		if (!n->in[i])
			continue;
		in[i] = n->in[i]->fact;
		if (i && !in[i].value && n->in[i]->is_const)
			QN_TRY(qn_graph_load(e->graph, n->in[i], e->arena, &in[i].value));
	}
	qn_resize r;
	const char *why = qn_resize_read(e->arena, e->graph->dims, n, in, scales, sizes, roi, &r);
	if (why)
		return qn_emit_fail(e, "%s", why);
	qn_dtype type = in[0].type;
	const char *y = qn_emit_ranked(e, n->in[0], r.rank);
	if (type != QN_F32 && r.mode != QN_NEAREST)
		y = qn_emit_temp(e, "wide", "tract_core_cast(%s, to='f32')", y);
	qn_taps taps[QN_MAX_RANK];
	qn_shape done = in[0].shape;
	for (int axis = 0; axis < r.rank; axis++) {
		int64_t times;
		qn_status status = QUERN_OK;
		taps[axis].any_outside = false;
		if (!qn_resize_active(&r, axis))
			continue;
		done.dim[axis] = r.out[axis];
		if (qn_dim_is_const(r.in[axis]) && qn_dim_is_const(r.out[axis])) {
			qn_resize_taps(e->arena, &r, axis, r.in[axis].k, r.out[axis].k, &taps[axis]);
			y = r.mode == QN_NEAREST ? by_index(e, y, axis, &taps[axis]) : by_matrix(e, y, r.rank, axis, r.in[axis].k, &taps[axis]);
		} else if (repeats(e, &r, axis, &times)) {
			y = by_repetition(e, y, &done, axis, times);
		} else {
			y = by_engine(e, y, &r, axis, &status);
		}
		QN_TRY(status);
	}
	for (int axis = 0; axis < r.rank; axis++)
		if (taps[axis].any_outside)
			y = mask_outside(e, y, &r, axis, &taps[axis]);
	if (type != QN_F32 && r.mode != QN_NEAREST)
		y = qn_arena_printf(e->arena, "tract_core_cast(%s, to='%s')",
			qn_dtype_is_int(type) ? qn_emit_temp(e, "whole", "tract_core_round_even(%s)", y) : y, qn_emit_dtype(type));
	qn_emit_output(e, 0, "%s", y);
	return QUERN_OK;
}
