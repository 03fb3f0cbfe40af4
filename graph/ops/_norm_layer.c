/* _norm_layer.c - LayerNormalization and its variant without mean and bias. */
#include "graph/ops/_move.h"
#include "graph/ops/_norm.h"
#include "graph/ops/_zip.h"

static qn_status first_axis(qn_call *c, int *axis) { return qn_call_axis(c, qn_node_int(c->node, "axis", -1), c->in[0].shape.rank, axis); }

qn_status qn_norm_layer_infer(qn_call *c)
{
	int axis;
	qn_shape y;
	QN_TRY(qn_move_need_rank(c, 0));
	QN_TRY(first_axis(c, &axis));
	QN_TRY(qn_infer_same(c));
	const qn_shape *x = &c->in[0].shape;
	for (int i = 1; i < 3; i++) {
		if (!qn_call_has(c, i))
			continue;
		QN_TRY(qn_call_broadcast(c, x, &c->in[i].shape, &y));
		if (y.rank != x->rank)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "input %d ('%s') has rank %d, more than the data's %d", i, c->node->in[i]->name,
				c->in[i].shape.rank, x->rank);
	}
	y = *x;
	for (int a = axis; a < x->rank; a++)
		y.dim[a] = qn_dim_const(1);
	for (int o = 1; o < 3; o++)
		if (qn_call_wants(c, o))
			c->out[o] = (qn_fact){.type = QN_F32, .shape = y};
	return QUERN_OK;
}

/* A scale that has exactly the shape of a row is applied with it. */
static bool fits_row(const qn_tensor *t, const qn_tensor *x, int axis)
{
	int64_t n = 1;
	for (int a = axis; a < x->rank; a++)
		n *= x->dim[a];
	return t->type == x->type && qn_tensor_count(t) == n && (t->rank <= x->rank - axis || n == 1);
}

static qn_status apply(qn_call *c, int i, const qn_zip *how)
{
	const qn_tensor *t = c->x[i], *y = &c->y[0];
	if (t->type != y->type) {
		qn_tensor *same = qn_tensor_new(c->scratch, y->type, t->rank, t->dim);
		qn_convert(t->data, t->type, (void *)(uintptr_t)same->data, y->type, qn_tensor_count(t));
		t = same;
	}
	return qn_zip_tensors(c, how, y, t, y);
}

QN_ZIP_KERNEL(mul_f32, float, float, a *b)
QN_ZIP_KERNEL(mul_f64, double, double, a *b)
QN_ZIP_KERNEL(add_f32, float, float, a + b)
QN_ZIP_KERNEL(add_f64, double, double, a + b)

qn_status qn_norm_layer_eval(qn_call *c, bool rms)
{
	const qn_tensor *x = c->x[0];
	int axis;
	QN_TRY(first_axis(c, &axis));
	bool has_scale = qn_call_has(c, 1), has_bias = !rms && qn_call_has(c, 2);
	bool direct = (!has_scale || fits_row(c->x[1], x, axis)) && (!has_bias || (has_scale && fits_row(c->x[2], x, axis)));
	qn_norm h = {.rows = 1, .n = 1, .rms = rms, .span = 1};
	for (int a = 0; a < x->rank; a++)
		*(a < axis ? &h.rows : &h.n) *= x->dim[a];
	h.epsilon = (double)qn_node_float(c->node, "epsilon", 1e-5f);
	h.entries = h.n;
	h.scale = direct && has_scale ? c->x[1] : NULL;
	h.bias = direct && has_bias ? c->x[2] : NULL;
	/* outputs 1 and 2 are mean and inverse deviation; the RMS form has the latter alone */
	h.mean = !rms && qn_call_wants(c, 1) ? QN_OUT(c, 1, float) : NULL;
	h.inverse = qn_call_wants(c, 2) ? QN_OUT(c, 2, float) : rms && qn_call_wants(c, 1) ? QN_OUT(c, 1, float) : NULL;
	h.as_engine = c->ctx->engine_math && x->type == QN_F32 && axis == x->rank - 1 && !h.mean && !h.inverse;
	QN_TRY(qn_norm_rows(c, x, &c->y[0], &h));
	if (!direct && has_scale)
		QN_TRY(apply(c, 1, &(qn_zip){.kernel = {mul_f32, mul_f64, NULL}}));
	if (!direct && has_bias)
		QN_TRY(apply(c, 2, &(qn_zip){.kernel = {add_f32, add_f64, NULL}}));
	return QUERN_OK;
}

/* Statistics that are outputs of their own are written step by step; returns the normalized rows. */
static const char *with_statistics(qn_emit *e, const char *x, const char *axes, const char *eps, bool rms)
{
	const char *centred = x;
	if (!rms) {
		const char *mean = qn_emit_temp(e, "mean", "mean_reduce(%s, axes=%s)", x, axes);
		if (qn_node_has_out(e->node, 1))
			qn_emit_output(e, 1, "copy(%s)", mean);
		centred = qn_emit_temp(e, "centred", "sub(%s, %s)", x, mean);
	}
	const char *by = qn_emit_temp(e, "inverse", "rsqrt(add(mean_reduce(mul(%s, %s), axes=%s), %s))", centred, centred, axes, eps);
	int o = rms && !qn_node_has_out(e->node, 2) ? 1 : 2;
	if (qn_node_has_out(e->node, o))
		qn_emit_output(e, o, "copy(%s)", by);
	return qn_arena_printf(e->arena, "mul(%s, %s)", centred, by);
}

qn_status qn_norm_layer_emit(qn_emit *e, bool rms)
{
	qn_call c = qn_move_call(e);
	int axis, rank = c.in[0].shape.rank, n = 0;
	int64_t list[QN_MAX_RANK];
	QN_TRY(first_axis(&c, &axis));
	for (int a = axis; a < rank; a++)
		list[n++] = a;
	const char *axes = qn_emit_ints(e, list, n);
	double epsilon = (double)qn_node_float(e->node, "epsilon", 1e-5f);
	const char *x = qn_norm_emit_wide(e, qn_emit_ref(e, e->node->in[0])), *y;
	if (qn_node_has_out(e->node, 1) || qn_node_has_out(e->node, 2))
		y = with_statistics(e, x, axes, qn_emit_float(e, epsilon), rms);
	else if (rms && n == 1 && e->target == QN_TARGET_TRACT)
		y = qn_arena_printf(e->arena, "tract_core_rms_norm(%s, axis=%d, eps=%s)", x, axis, qn_emit_float(e, epsilon));
	else if (rms)
		y = qn_arena_printf(e->arena, "mul(%s, rsqrt(add(mean_reduce(mul(%s, %s), axes=%s), %s)))", x, x, x, axes, qn_emit_float(e, epsilon));
	else
		y = qn_norm_emit_rows(e, x, axes, epsilon);
	y = qn_norm_emit_narrow(e, y);
	if (qn_call_has(&c, 1))
		y = qn_arena_printf(e->arena, "mul(%s, %s)", y, qn_emit_ranked(e, e->node->in[1], rank));
	if (!rms && qn_call_has(&c, 2))
		y = qn_arena_printf(e->arena, "add(%s, %s)", y, qn_emit_ranked(e, e->node->in[2], rank));
	qn_emit_output(e, 0, "%s", y);
	return QUERN_OK;
}
