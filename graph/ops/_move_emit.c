/* _move_emit.c - text that several movers write. */
#include "graph/ops/_move.h"

qn_call qn_move_call(qn_emit *e)
{
	const qn_node *n = e->node;
	qn_fact *in = QN_NEW(e->arena, qn_fact, n->n_in + 1), *out = QN_NEW(e->arena, qn_fact, n->n_out + 1);
	for (int i = 0; i < n->n_in; i++)
		if (n->in[i])
			in[i] = n->in[i]->fact;
	for (int i = 0; i < n->n_out; i++)
		if (n->out[i])
			out[i] = n->out[i]->fact;
	return (qn_call){.ctx = e->ctx, .node = n, .dims = e->graph->dims, .scratch = e->arena, .threads = 1, .in = in, .out = out};
}

qn_status qn_move_const(qn_emit *e, int i, const qn_tensor **out)
{
	qn_value *v = i < e->node->n_in ? e->node->in[i] : NULL;
	*out = NULL;
	if (!v || !v->is_const)
		return QUERN_OK;
	return qn_graph_load(e->graph, v, e->arena, out);
}

void qn_move_emit_alias(qn_emit *e, int o, int i)
{
	qn_emit_output(e, o, "%s", qn_emit_ref(e, e->node->in[i]));
}

const char *qn_move_emit_slice(qn_emit *e, const char *x, int axis, qn_dim begin, qn_dim end)
{
	return qn_arena_printf(e->arena, "slice(%s, axes=[%d], begin=[%s], end=[%s])", x, axis, qn_emit_dim(e, begin), qn_emit_dim(e, end));
}

qn_status qn_move_emit_volume(qn_emit *e, const qn_shape *from, const qn_shape *to)
{
	qn_dims *t = e->graph->dims;
	qn_dim a = qn_shape_count(t, from), b = qn_shape_count(t, to);
	if (qn_dim_equal(a, b))
		return QUERN_OK;
	return qn_emit_fail(e,
		"%s becomes %s, and the engine wants to see that the sizes agree for every value of the symbols; bind one with --set",
		qn_shape_text(e->arena, from), qn_shape_text(e->arena, to));
}

qn_status qn_move_emit_reshape(qn_emit *e)
{
	const qn_shape *from = &e->node->in[0]->fact.shape, *to = &e->node->out[0]->fact.shape;
	QN_TRY(qn_move_emit_volume(e, from, to));
	if (qn_shape_equal(from, to)) {
		qn_move_emit_alias(e, 0, 0);
	} else if (to->rank == 0) { /* the engine's reshape cannot make rank 0 */
		int64_t axes[QN_MAX_RANK];
		for (int i = 0; i < from->rank; i++)
			axes[i] = i;
		qn_emit_output(e, 0, "squeeze(%s, axes=%s)", qn_emit_ref(e, e->node->in[0]), qn_emit_ints(e, axes, from->rank));
	} else {
		qn_emit_output(e, 0, "reshape(%s, shape=%s)", qn_emit_ref(e, e->node->in[0]), qn_emit_shape(e, to));
	}
	return QUERN_OK;
}

/* The limit of index item k, whose position along the last axis picks the limit. */
static qn_status wrap_constant(qn_emit *e, qn_tensor *t, const qn_dim *limit, int n, bool *changed)
{
	int64_t *v = (int64_t *)(uintptr_t)t->data, count = qn_tensor_count(t);
	for (int64_t k = 0; k < count; k++) {
		qn_dim d = limit[k % n];
		if (v[k] >= 0 && !qn_dim_is_const(d))
			continue;
		int64_t before = v[k];
		if (qn_dim_is_const(d) && !qn_move_wrap(&v[k], d.k))
			return qn_emit_fail(e, "index %lld is out of range for a size of %lld", (long long)v[k], (long long)d.k);
		*changed |= before < 0;
	}
	return QUERN_OK;
}

static bool any_negative(const qn_tensor *t)
{
	int64_t n = qn_tensor_count(t);
	for (int64_t k = 0; k < n; k++)
		if (qn_tensor_get_i64(t, k) < 0)
			return true;
	return false;
}

qn_status qn_move_emit_indices(qn_emit *e, int i, const qn_dim *limit, int n, const char **out)
{
	qn_value *v = e->node->in[i];
	const qn_tensor *t = NULL;
	*out = NULL;
	if (v->is_const)
		QN_TRY(qn_graph_load(e->graph, v, e->arena, &t));
	if (t && t->type != QN_DIM) {
		qn_tensor *copy = qn_tensor_new(e->arena, QN_I64, t->rank, t->dim);
		qn_convert(t->data, t->type, (void *)(uintptr_t)copy->data, QN_I64, qn_tensor_count(t));
		bool changed = false;
		QN_TRY(wrap_constant(e, copy, limit, n, &changed));
		if (!any_negative(copy)) {
			*out = changed ? qn_emit_constant(e, "indices", copy) : qn_emit_ref(e, v);
			return QUERN_OK;
		}
	}
	const char *x = qn_emit_ref(e, v);
	qn_text sizes = {.arena = e->arena};
	int rank = v->fact.shape.rank;
	for (int k = 0; k < rank; k++)
		qn_text_add(&sizes, "[");
	for (int k = 0; k < n; k++)
		qn_text_add(&sizes, "%s%s", k ? ", " : "", qn_emit_dim(e, limit[k]));
	for (int k = 0; k < rank; k++)
		qn_text_add(&sizes, "]");
	if (v->fact.type != QN_I64)
		x = qn_emit_temp(e, "index", "tract_core_cast(%s, to='i64')", x);
	const char *size = qn_emit_temp(e, "size", "tract_core_cast(%s, to='i64')", sizes.s);
	*out = qn_emit_temp(e, "index", "select(lt(%s, 0.0), %s + %s, %s)", x, x, size, x);
	return QUERN_OK;
}

const char *qn_move_emit_scalar(qn_emit *e, const char *label, qn_dtype type, const void *value, int rank)
{
	int64_t dim[QN_MAX_RANK];
	for (int i = 0; i < QN_MAX_RANK; i++)
		dim[i] = 1;
	qn_tensor *t = qn_tensor_new(e->arena, type, rank, dim);
	memcpy((void *)(uintptr_t)t->data, value, qn_dtype_size(type));
	double v = qn_tensor_get(t, 0);
	bool exact = qn_dtype_is_float(type) ? type != QN_F64 || (double)(float)v == v : v >= -16777216.0 && v <= 16777216.0;
	if (v != v || !exact)
		return qn_emit_constant(e, label, t);
	qn_text s = {.arena = e->arena};
	for (int i = 0; i < rank; i++)
		qn_text_add(&s, "[");
	qn_text_add(&s, "%s", qn_emit_float(e, v));
	for (int i = 0; i < rank; i++)
		qn_text_add(&s, "]");
	return type == QN_F32 ? s.s : qn_arena_printf(e->arena, "tract_core_cast(%s, to='%s')", s.s, qn_emit_dtype(type));
}

const char *qn_move_emit_full(qn_emit *e, const char *label, qn_dtype type, const void *value, const qn_shape *shape)
{
	const char *one = qn_move_emit_scalar(e, label, type, value, shape->rank);
	return shape->rank ? qn_arena_printf(e->arena, "tract_core_broadcast(%s, shape=%s)", one, qn_emit_shape(e, shape)) : one;
}

const char *qn_move_emit_steps(qn_emit *e, qn_dim n, int axis, int rank)
{
	const char *r = qn_arena_printf(e->arena, "tract_core_cast(tract_core_range(0, %s, 1), to='i64')", qn_emit_dim(e, n));
	int64_t axes[QN_MAX_RANK];
	int count = 0;
	for (int i = 0; i < rank; i++)
		if (i != axis)
			axes[count++] = i;
	if (count)
		r = qn_arena_printf(e->arena, "unsqueeze(%s, axes=%s)", r, qn_emit_ints(e, axes, count));
	return qn_emit_temp(e, "steps", "%s", r);
}
