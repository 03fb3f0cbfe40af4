/* slice.c - a strided range of some axes.
 *
 * Clamping. With sizes that are numbers, bounds are clamped as ONNX says. With symbols, a bound whose order is not decidable is taken
 * as it stands, which is what the exported program meant: `table[:S]` has the size S, and needs S <= the table's size to hold
 * when it runs. Only a constant end above 1 over a symbolic axis (`x[:512]`) gives a minimum. */
#include "graph/ops/_move.h"

/* Constants this large mean "as far as it goes": exporters write the largest i32 or i64. */
#define TO_THE_END ((int64_t)INT32_MAX)

typedef struct axis_range {
	bool whole;
	qn_dim start, end, len; /* elements start, start + step, ... before (step < 0: above) end; len of them */
	int64_t step;
} axis_range;

/* Whether a bound counts from the end. Symbols stand for sizes, which are 1 or more when a program runs: -S and 1 - S do, 64 - S leaves room for S
 * elements in front of the end. */
static bool from_end(qn_dims *t, qn_dim d)
{
	int64_t low, high;
	if (qn_dim_is_const(d))
		return d.k < 0;
	if (!qn_dim_upper(t, d, &high))
		return false;
	return high < 0 || (high <= 1 && !qn_dim_lower(t, d, &low));
}

/* min(d, limit) under the rule of this file. */
static qn_dim clamp_high(qn_call *c, qn_dim d, qn_dim limit, bool trust)
{
	qn_dims *t = c->dims;
	if (qn_dim_is_const(d) && d.k >= TO_THE_END && !qn_dim_is_const(limit))
		return limit;
	qn_tristate order = qn_dim_le(t, d, limit);
	if (order == QN_TRUE)
		return d;
	if (order == QN_FALSE)
		return limit;
	if (qn_dim_is_const(d) && d.k > 1 && !trust)
		return qn_dim_min(t, d, limit);
	qn_log(c->ctx, QUERN_LOG_DEBUG, "node '%s' (%s): %s is taken to be at most %s", c->node->name, c->node->op_type,
		qn_dim_text(c->scratch, d, NULL, NULL), qn_dim_text(c->scratch, limit, NULL, NULL));
	return d;
}

static qn_dim clamp_low(qn_dims *t, qn_dim d, int64_t limit)
{
	return qn_dim_lt(t, d, qn_dim_const(limit)) == QN_TRUE ? qn_dim_const(limit) : d;
}

static qn_dim count(qn_dims *t, qn_dim from, qn_dim to, int64_t step)
{
	if (qn_dim_le(t, to, from) == QN_TRUE)
		return qn_dim_const(0);
	return qn_dim_ceildiv(t, qn_dim_sub(t, to, from), qn_dim_const(step));
}

static void find_range(qn_call *c, qn_dim size, qn_dim start, qn_dim end, int64_t step, axis_range *r)
{
	qn_dims *t = c->dims;
	bool low_start = qn_dim_is_const(start) && start.k <= -TO_THE_END, low_end = qn_dim_is_const(end) && end.k <= -TO_THE_END;
	if (!low_start && from_end(t, start))
		start = qn_dim_add(t, start, size);
	if (!low_end && from_end(t, end))
		end = qn_dim_add(t, end, size);
	r->step = step;
	if (step > 0) {
		r->start = low_start ? qn_dim_const(0) : clamp_low(t, clamp_high(c, start, size, true), 0);
		r->end = low_end ? qn_dim_const(0) : clamp_low(t, clamp_high(c, end, size, false), 0);
		r->len = count(t, r->start, r->end, step);
	} else {
		qn_dim last = qn_dim_sub(t, size, qn_dim_const(1));
		r->start = low_start ? qn_dim_const(-1) : clamp_low(t, clamp_high(c, start, last, true), -1);
		r->end = low_end ? qn_dim_const(-1) : clamp_low(t, clamp_high(c, end, last, true), -1);
		r->len = count(t, r->end, r->start, -step);
	}
	r->whole = step == 1 && qn_dim_is(r->start, 0) && qn_dim_equal(r->len, size);
}

static qn_status read_bounds(qn_call *c, const char *attr, int input, const qn_dim **v, int *n)
{
	const qn_attr *a = qn_node_attr(c->node, attr);
	if (!a) {
		QN_TRY(qn_call_dims(c, input, v, n));
		return *n < 0 ? qn_call_data_dependent(c, input, attr) : QUERN_OK;
	}
	qn_dim *d = QN_NEW(c->scratch, qn_dim, a->n + 1);
	for (size_t i = 0; i < a->n; i++)
		d[i] = qn_dim_const(a->ints[i]);
	*v = d;
	*n = (int)a->n;
	return QUERN_OK;
}

static qn_status find_ranges(qn_call *c, axis_range *r)
{
	const qn_shape *s = &c->in[0].shape;
	const qn_dim *start = NULL, *end = NULL;
	const int64_t *axes = NULL, *steps = NULL;
	int n, n_end, n_axes = -1, n_steps = -1;
	QN_TRY(read_bounds(c, "starts", 1, &start, &n));
	QN_TRY(read_bounds(c, "ends", 2, &end, &n_end));
	QN_TRY(qn_call_ints_attr_or_in(c, "axes", 3, &axes, &n_axes));
	if (qn_call_has(c, 4))
		QN_TRY(qn_call_ints(c, 4, &steps, &n_steps));
	if (n != n_end || (n_axes >= 0 && n_axes != n) || (n_steps >= 0 && n_steps != n))
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "starts, ends, axes and steps have different lengths");
	for (int i = 0; i < s->rank; i++)
		r[i] = (axis_range){true, qn_dim_const(0), s->dim[i], s->dim[i], 1};
	for (int i = 0; i < n; i++) {
		int a;
		QN_TRY(qn_call_axis(c, axes ? axes[i] : i, s->rank, &a));
		int64_t step = steps ? steps[i] : 1;
		if (step == 0)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the step of axis %d is 0", a);
		if (step < -TO_THE_END || step > TO_THE_END) /* one element whatever the size */
			step = step < 0 ? -TO_THE_END : TO_THE_END;
		find_range(c, s->dim[a], start[i], end[i], step, &r[a]);
	}
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	axis_range r[QN_MAX_RANK];
	QN_TRY(find_ranges(c, r));
	c->out[0].type = c->in[0].type;
	c->out[0].shape.rank = c->in[0].shape.rank;
	for (int i = 0; i < c->in[0].shape.rank; i++)
		c->out[0].shape.dim[i] = r[i].len;
	qn_move_know_empty(c, 0);
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0];
	axis_range r[QN_MAX_RANK];
	QN_TRY(find_ranges(c, r));
	size_t elem = qn_dtype_size(x->type);
	int64_t in[QN_MAX_RANK], ss[QN_MAX_RANK], ds[QN_MAX_RANK], at = 0;
	if (qn_tensor_count(&c->y[0]) == 0)
		return QUERN_OK;
	qn_move_strides(x->rank, x->dim, in);
	qn_move_strides(x->rank, c->y[0].dim, ds);
	for (int i = 0; i < x->rank; i++) {
		ss[i] = in[i] * r[i].step;
		at += in[i] * r[i].start.k;
	}
	qn_move_box(x->rank, c->y[0].dim, (const char *)x->data + (size_t)at * elem, ss, QN_OUT(c, 0, void), ds, elem, c->threads);
	return QUERN_OK;
}

/* The engine's strides over a window that begins at its lowest element; a negative one starts from the window's last. */
static void window(qn_dims *t, const axis_range *r, qn_dim *begin, qn_dim *end)
{
	*begin = r->start;
	*end = r->end;
	if (r->step > 0)
		return;
	qn_dim span = qn_dim_mul(t, qn_dim_sub(t, r->len, qn_dim_const(1)), qn_dim_const(-r->step));
	*begin = qn_dim_sub(t, r->start, span);
	*end = qn_dim_add(t, r->start, qn_dim_const(1));
}

/* The engine pulls a stride through the views in front of it, and fails where one made or merged the axis: gathered instead. */
static const char *strides_gathered(qn_emit *e, axis_range *r, const char *x)
{
	for (int i = 0; i < e->node->in[0]->fact.shape.rank; i++) {
		if (r[i].whole || r[i].step == 1 || !qn_dim_is_const(r[i].start) || !qn_dim_is_const(r[i].len) || r[i].len.k < 1)
			continue;
		if (r[i].len.k == 1) {
			r[i] = (axis_range){false, r[i].start, qn_dim_const(r[i].start.k + 1), r[i].len, 1};
			continue;
		}
		qn_tensor *at = qn_tensor_new(e->arena, QN_I64, 1, &r[i].len.k);
		for (int64_t k = 0; k < r[i].len.k; k++)
			((int64_t *)(uintptr_t)at->data)[k] = r[i].start.k + k * r[i].step;
		x = qn_emit_temp(e, "stride", "tract_core_gather(%s, %s, axis=%d)", x, qn_emit_constant(e, "at", at), i);
		r[i].whole = true;
	}
	return x;
}

static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	axis_range r[QN_MAX_RANK];
	QN_TRY(find_ranges(&c, r));
	const char *x = qn_emit_ref(e, e->node->in[0]), *from = x;
	if (e->target == QN_TARGET_TRACT)
		x = strides_gathered(e, r, x);
	qn_text axes = {.arena = e->arena}, begin = axes, end = axes, stride = axes;
	bool strided = false;
	for (int i = 0, n = 0; i < c.in[0].shape.rank; i++) {
		if (r[i].whole)
			continue;
		qn_dim b, f;
		bool empty = qn_dim_is(r[i].len, 0);
		if (empty)
			b = f = qn_dim_const(0);
		else
			window(c.dims, &r[i], &b, &f);
		const char *comma = n++ ? ", " : "";
		qn_text_add(&axes, "%s%d", comma, i);
		qn_text_add(&begin, "%s%s", comma, qn_emit_dim(e, b));
		qn_text_add(&end, "%s%s", comma, qn_emit_dim(e, f));
		qn_text_add(&stride, "%s%lld", comma, empty ? 1LL : (long long)r[i].step);
		strided |= !empty && r[i].step != 1;
	}
	if (!axes.s && x == from)
		qn_move_emit_alias(e, 0, 0);
	else if (!axes.s)
		qn_emit_output(e, 0, "%s", x);
	else if (strided)
		qn_emit_output(e, 0, "slice(%s, axes=[%s], begin=[%s], end=[%s], stride=[%s])", x, axes.s, begin.s, end.s, stride.s);
	else
		qn_emit_output(e, 0, "slice(%s, axes=[%s], begin=[%s], end=[%s])", x, axes.s, begin.s, end.s);
	return QUERN_OK;
}

const qn_op qn_op_slice = {
	.name = "Slice", .min_in = 1, .max_in = 5, .traits = QN_SMALL, .dims_in = 1, .infer = infer, .eval = eval, .emit = emit};
