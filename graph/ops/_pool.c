#include "graph/ops/_pool.h"
#include "graph/ops/_gemm.h"
#include <math.h>

qn_status qn_pool_infer(qn_call *c)
{
	const qn_shape *x = &c->in[0].shape;
	qn_window w;
	QN_TRY(qn_window_of(c, x, NULL, &w));
	c->out[0].type = c->in[0].type;
	c->out[0].shape = *x;
	for (int i = 0; i < w.n; i++)
		QN_TRY(qn_window_out(c, &w, i, x->dim[i + 2], &c->out[0].shape.dim[i + 2]));
	return QUERN_OK;
}

typedef struct pool {
	qn_window w;
	qn_pool_kind kind;
	int64_t in[QN_MAX_SPATIAL], out[QN_MAX_SPATIAL], before[QN_MAX_SPATIAL], after[QN_MAX_SPATIAL];
	int64_t in_size, out_size, kernel_size;
	bool count_pads, column_major;
	double p;
	int64_t *shift; /* for each kernel offset and axis: where it reads, relative to the window's start */
} pool;

/* Input position of kernel offset k in the window of output position `o`; -1 where it reads padding. *counted: it lies in the
 * padded input. */
static int64_t position(const pool *v, const int64_t *o, int64_t k, bool *counted)
{
	int64_t at = 0;
	bool inside = true;
	*counted = true;
	for (int d = 0; d < v->w.n; d++) {
		int64_t i = o[d] * v->w.stride[d] - v->before[d] + v->shift[k * v->w.n + d];
		inside = inside && i >= 0 && i < v->in[d];
		*counted = *counted && i < v->in[d] + v->after[d];
		at = at * v->in[d] + i;
	}
	return inside ? at : -1;
}

static int64_t index_of(const pool *v, int64_t at)
{
	if (!v->column_major)
		return at;
	int64_t index = 0, coordinate[QN_MAX_SPATIAL];
	for (int d = v->w.n - 1; d >= 0; d--) {
		coordinate[d] = at % v->in[d];
		at /= v->in[d];
	}
	for (int d = v->w.n - 1; d >= 0; d--)
		index = index * v->in[d] + coordinate[d];
	return index;
}

#define POOL_PLANE(type)                                                                                                 \
	static void pool_##type(const pool *v, const type *x, type *y, int64_t *index, int64_t base)                     \
	{                                                                                                                \
		for (int64_t p = 0; p < v->out_size; p++) {                                                              \
			int64_t o[QN_MAX_SPATIAL], rest = p, best = -1, count = 0;                                       \
			double sum = 0;                                                                                  \
			for (int d = v->w.n - 1; d >= 0; d--) {                                                          \
				o[d] = rest % v->out[d];                                                                 \
				rest /= v->out[d];                                                                       \
			}                                                                                                \
			for (int64_t k = 0; k < v->kernel_size; k++) {                                                   \
				bool counted;                                                                            \
				int64_t at = position(v, o, k, &counted);                                                \
				count += v->count_pads ? counted : at >= 0;                                              \
				if (at < 0)                                                                              \
					continue;                                                                        \
				if (v->kind == QN_POOL_MAX)                                                              \
					best = best < 0 || x[at] > x[best] || (x[at] != x[at] && x[best] == x[best]) ? at : best; \
				else                                                                                     \
					sum += v->kind == QN_POOL_LP ? pow(fabs((double)x[at]), v->p) : (double)x[at];   \
			}                                                                                                \
			if (v->kind == QN_POOL_MAX)                                                                      \
				y[p] = best >= 0 ? x[best] : -(type)INFINITY;                                            \
			else                                                                                             \
				y[p] = (type)(v->kind == QN_POOL_LP ? pow(sum, 1 / v->p) : count ? sum / (double)count : 0); \
			if (index)                                                                                       \
				index[p] = base + (best >= 0 ? index_of(v, best) : 0);                                   \
		}                                                                                                        \
	}
POOL_PLANE(float)
POOL_PLANE(double)

static void fill_shifts(qn_call *c, pool *v)
{
	v->shift = QN_NEW(c->scratch, int64_t, v->kernel_size * v->w.n);
	for (int64_t k = 0; k < v->kernel_size; k++) {
		int64_t rest = k;
		for (int d = v->w.n - 1; d >= 0; d--) {
			v->shift[k * v->w.n + d] = rest % v->w.kernel[d] * v->w.dilation[d];
			rest /= v->w.kernel[d];
		}
	}
}

static void run(qn_call *c, pool *v)
{
	const qn_tensor *x = c->x[0];
	int64_t planes = x->dim[0] * x->dim[1];
	fill_shifts(c, v);
	bool wide = x->type == QN_F64 || x->type == QN_I32 || x->type == QN_U32 || x->type == QN_I64 || x->type == QN_U64;
	qn_dtype type = wide ? QN_F64 : QN_F32;
	const void *in = x->data;
	if (x->type != type) {
		void *copy = qn_arena_array(c->scratch, (size_t)(planes * v->in_size), qn_dtype_size(type));
		qn_convert(x->data, x->type, copy, type, planes * v->in_size);
		in = copy;
	}
	void *out = QN_OUT(c, 0, void);
	if (x->type != type)
		out = qn_arena_array(c->scratch, (size_t)(planes * v->out_size), qn_dtype_size(type));
	int64_t *index = v->kind == QN_POOL_MAX && qn_call_wants(c, 1) ? QN_OUT(c, 1, int64_t) : NULL;
	int threads = qn_threads_for(c->threads, (double)(planes * v->out_size * v->kernel_size));
#pragma omp parallel for num_threads(threads) if (threads > 1)
	for (int64_t i = 0; i < planes; i++) {
		int64_t *to = index ? index + i * v->out_size : NULL, from = i * v->in_size, at = i * v->out_size;
		if (wide)
			pool_double(v, (const double *)in + from, (double *)out + at, to, from);
		else
			pool_float(v, (const float *)in + from, (float *)out + at, to, from);
	}
	if (x->type != type)
		qn_convert(out, type, QN_OUT(c, 0, void), x->type, planes * v->out_size);
}

qn_status qn_pool_eval(qn_call *c, qn_pool_kind kind)
{
	const qn_tensor *x = c->x[0];
	pool v = {.kind = kind, .in_size = 1, .out_size = 1, .kernel_size = 1, .p = (double)qn_node_int(c->node, "p", 2),
		.count_pads = qn_node_int(c->node, "count_include_pad", 0) != 0, .column_major = qn_node_int(c->node, "storage_order", 0) != 0};
	qn_shape s = qn_shape_of(x);
	QN_TRY(qn_window_of(c, &s, NULL, &v.w));
	for (int i = 0; i < v.w.n; i++) {
		v.in[i] = x->dim[i + 2], v.out[i] = c->y[0].dim[i + 2];
		qn_window_pads(&v.w, i, v.in[i], &v.before[i], &v.after[i]);
		v.in_size *= v.in[i], v.out_size *= v.out[i], v.kernel_size *= v.w.kernel[i];
	}
	run(c, &v);
	return QUERN_OK;
}

qn_status qn_global_pool_infer(qn_call *c)
{
	if (c->in[0].shape.rank < 3)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "input of rank %d, it needs batch, channels and spatial axes", c->in[0].shape.rank);
	c->out[0].type = c->in[0].type;
	c->out[0].shape = c->in[0].shape;
	for (int i = 2; i < c->out[0].shape.rank; i++)
		c->out[0].shape.dim[i] = qn_dim_const(1);
	return QUERN_OK;
}

qn_status qn_global_pool_eval(qn_call *c, qn_pool_kind kind)
{
	const qn_tensor *x = c->x[0];
	pool v = {.kind = kind, .in_size = 1, .out_size = 1, .p = (double)qn_node_int(c->node, "p", 2), .w = {.n = 1}};
	for (int i = 2; i < x->rank; i++)
		v.in_size *= x->dim[i];
	v.w.kernel[0] = v.in[0] = v.kernel_size = v.in_size;
	v.w.stride[0] = v.w.dilation[0] = v.out[0] = 1;
	run(c, &v);
	return QUERN_OK;
}

const char *qn_spatial_axes(qn_emit *e, int rank)
{
	int64_t axes[QN_MAX_RANK];
	for (int i = 2; i < rank; i++)
		axes[i - 2] = i;
	return qn_emit_ints(e, axes, rank - 2);
}

/* What ceil_mode asks for beyond the pads at the end of an axis; the engine rounds down. */
static qn_status room_for_ceil(qn_emit *e, const qn_window *w, int axis, qn_dim in, qn_dim out, int64_t *more)
{
	int64_t before, after, span = qn_window_span(w, axis), stride = w->stride[axis];
	*more = 0;
	if (!w->ceil || stride == 1 || w->padding == QN_PAD_SAME_UPPER || w->padding == QN_PAD_SAME_LOWER)
		return QUERN_OK;
	qn_window_pads(w, axis, 0, &before, &after);
	if (qn_dim_is_const(in) && qn_dim_is_const(out)) {
		*more = (out.k - 1) * stride + span - in.k - before - after;
		*more = *more < -after ? -after : *more;
		return QUERN_OK;
	}
	qn_dims *t = e->graph->dims;
	qn_dim room = qn_dim_add(t, in, qn_dim_const(before + after - span));
	qn_dim all = qn_dim_add(t, qn_dim_ceildiv(t, room, qn_dim_const(stride)), qn_dim_const(1));
	if (qn_dim_eq(t, all, out) != QN_TRUE)
		return qn_emit_fail(e, "with ceil_mode the number of windows on spatial axis %d is not known: bind the symbol with --set", axis);
	*more = stride - 1;
	return QUERN_OK;
}

qn_status qn_pool_window(qn_emit *e, const char **out)
{
	const qn_node *n = e->node;
	const qn_shape *x = &n->in[0]->fact.shape;
	const qn_value *y = n->out[0] ? n->out[0] : n->out[1];
	qn_window w;
	const char *why = qn_window_read(e->arena, n, x->rank - 2, &w), *window;
	if (why)
		return qn_emit_fail(e, "%s", why);
	int64_t more[QN_MAX_SPATIAL], size[QN_MAX_RANK] = {1, 1};
	bool any = false;
	for (int i = 0; i < w.n; i++) {
		size[i + 2] = w.kernel[i];
		QN_TRY(room_for_ceil(e, &w, i, x->dim[i + 2], y->fact.shape.dim[i + 2], &more[i]));
		any = any || more[i];
	}
	if (!qn_window_emit(e, &w, x, 2, any ? more : NULL, &window))
		return qn_emit_fail(e, "pads by auto_pad depend on a symbol at a stride over 1: bind the size with --set");
	*out = qn_arena_printf(e->arena, "size=%s, %s", qn_emit_ints(e, size, x->rank), window);
	return QUERN_OK;
}
