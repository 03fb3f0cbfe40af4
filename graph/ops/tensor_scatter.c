/* tensor_scatter.c - writes an update into a cache along a sequence axis, for each batch entry from its own position on. Circular
 * positions go on at the front. */
#include "graph/ops/_move.h"

typedef struct plan {
	int axis;
	bool circular;
} plan;

static qn_status find_plan(qn_call *c, plan *p)
{
	QN_TRY(qn_move_need_rank(c, 0));
	QN_TRY(qn_call_axis(c, qn_node_int(c->node, "axis", -2), c->in[0].shape.rank, &p->axis));
	const char *mode = qn_node_string(c->node, "mode", "linear");
	p->circular = !strcmp(mode, "circular");
	if (!p->circular && strcmp(mode, "linear"))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "mode '%s' is not known", mode);
	if (p->axis == 0)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the sequence axis is the batch axis");
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	const qn_shape *x = &c->in[0].shape, *u = &c->in[1].shape;
	plan p;
	QN_TRY(find_plan(c, &p));
	if (u->rank != x->rank)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the cache has rank %d, the update has rank %d", x->rank, u->rank);
	for (int i = 0; i < x->rank; i++)
		if (i != p.axis)
			QN_TRY(qn_call_equate(c, x->dim[i], u->dim[i], "cache and update must agree beside the sequence axis"));
	if (qn_dim_lt(c->dims, x->dim[p.axis], u->dim[p.axis]) == QN_TRUE)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the update is longer than the cache");
	if (qn_call_has(c, 2))
		QN_TRY(qn_call_equate(c, c->in[2].shape.dim[0], x->dim[0], "there must be one position for each batch entry"));
	return qn_infer_same(c);
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *u = c->x[1];
	plan p;
	QN_TRY(find_plan(c, &p));
	const int64_t *start = qn_call_has(c, 2) ? qn_move_i64(c, 2) : NULL;
	size_t elem = qn_dtype_size(x->type);
	int64_t xs[QN_MAX_RANK], us[QN_MAX_RANK], dim[QN_MAX_RANK], size = x->dim[p.axis];
	qn_move_strides(x->rank, x->dim, xs);
	qn_move_strides(x->rank, u->dim, us);
	memcpy(dim, u->dim, sizeof dim);
	dim[0] = 1;
	char *y = QN_OUT(c, 0, char);
	qn_move_bytes(y, x->data, qn_tensor_bytes(x), c->threads);
	for (int64_t b = 0; b < x->dim[0]; b++) {
		int64_t at = start ? start[b] : 0, n = u->dim[p.axis], first;
		if (at < 0 || (p.circular ? size == 0 : at > size - n))
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "position %lld of batch entry %lld leaves no room for %lld steps in a cache of %lld",
				(long long)at, (long long)b, (long long)n, (long long)size);
		at = p.circular ? at % size : at;
		first = n < size - at ? n : size - at;
		const char *from = (const char *)u->data + (size_t)(b * us[0]) * elem;
		dim[p.axis] = first;
		qn_move_box(x->rank, dim, from, us, y + (size_t)(b * xs[0] + at * xs[p.axis]) * elem, xs, elem, c->threads);
		dim[p.axis] = n - first;
		qn_move_box(
			x->rank, dim, from + (size_t)(first * us[p.axis]) * elem, us, y + (size_t)(b * xs[0]) * elem, xs, elem, c->threads);
	}
	return QUERN_OK;
}

/* Every position of the cache looks where in the update it is: there a gather, elsewhere the old content. */
static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	plan p;
	QN_TRY(find_plan(&c, &p));
	const qn_shape *x = &c.in[0].shape;
	qn_dim size = x->dim[p.axis], n = c.in[1].shape.dim[p.axis];
	const char *cache = qn_emit_ref(e, e->node->in[0]), *update = qn_emit_ref(e, e->node->in[1]);
	if (!qn_call_has(&c, 2)) {
		if (qn_dim_equal(n, size))
			qn_move_emit_alias(e, 0, 1);
		else
			qn_emit_output(e, 0, "concat([%s, %s], axis=%d)", update, qn_move_emit_slice(e, cache, p.axis, n, size), p.axis);
		return QUERN_OK;
	}
	int64_t axes[QN_MAX_RANK];
	for (int i = 1; i < x->rank; i++)
		axes[i - 1] = i;
	const char *steps = qn_move_emit_steps(e, size, p.axis, x->rank);
	const char *start =
		qn_emit_temp(e, "start", "unsqueeze(%s, axes=%s)", qn_emit_ref(e, e->node->in[2]), qn_emit_ints(e, axes, x->rank - 1));
	const char *end = qn_emit_temp(e, "length", "tract_core_cast(%s, to='i64')", qn_emit_dim(e, n));
	const char *at;
	if (p.circular) {
		const char *whole = qn_emit_temp(e, "size", "tract_core_cast(%s, to='i64')", qn_emit_dim(e, size));
		start = qn_emit_temp(e, "start", "%s - (%s / %s) * %s", start, start, whole, whole);
		at = qn_emit_temp(e, "at", "%s - %s", steps, start);
		at = qn_emit_temp(e, "at", "select(lt(%s, 0.0), %s + %s, %s)", at, at, whole, at);
	} else {
		at = qn_emit_temp(e, "at", "%s - %s", steps, start);
	}
	const char *inside = qn_emit_temp(e, "inside", "and(ge(%s, 0.0), lt(%s - %s, 0.0))", at, at, end);
	const char *zero = qn_emit_temp(e, "zero", "tract_core_cast(0.0, to='i64')");
	const char *safe = qn_emit_temp(e, "safe", "select(%s, %s, %s)", inside, at, zero);
	const char *found = qn_emit_temp(e, "found", "tract_core_gather_elements(%s, tract_core_broadcast(%s, shape=%s), axis=%d)", update,
		safe, qn_emit_shape(e, x), p.axis);
	qn_emit_output(e, 0, "select(%s, %s, %s)", inside, found, cache);
	return QUERN_OK;
}

const qn_op qn_op_tensor_scatter = {
	.name = "TensorScatter", .since = 24, .min_in = 2, .max_in = 3, .infer = infer, .eval = eval, .emit = emit};
