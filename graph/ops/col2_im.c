#include "graph/ops/_window.h"

/* inputs: x [N, C * block, columns], image_shape, block_shape */

typedef struct columns {
	qn_window w;
	int64_t image[QN_MAX_SPATIAL], steps[QN_MAX_SPATIAL]; /* steps: windows along an axis */
	int64_t block, count;                                 /* products of the kernel and of the steps */
} columns;

static const char *read_geometry(qn_arena *a, const qn_node *n, const int64_t *image, const int64_t *kernel, int axes, columns *v)
{
	const char *why = qn_window_read(a, n, axes, &v->w);
	v->block = v->count = 1;
	for (int i = 0; i < axes && !why; i++) {
		if (kernel[i] < 1 || image[i] < 1)
			return "image_shape and block_shape must be positive";
		v->w.kernel[i] = kernel[i];
		v->image[i] = image[i];
		int64_t room = image[i] + v->w.before[i] + v->w.after[i] - qn_window_span(&v->w, i);
		v->steps[i] = room < 0 ? 0 : room / v->w.stride[i] + 1;
		v->block *= kernel[i];
		v->count *= v->steps[i];
	}
	return why;
}

static qn_status read_call(qn_call *c, columns *v)
{
	const int64_t *image, *kernel;
	int n, m;
	QN_TRY(qn_call_ints(c, 1, &image, &n));
	QN_TRY(qn_call_ints(c, 2, &kernel, &m));
	if (n != m || n < 1 || n > QN_MAX_SPATIAL)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "image_shape has %d entries and block_shape %d", n, m);
	const char *why = read_geometry(c->scratch, c->node, image, kernel, n, v);
	if (why)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%s", why);
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	const qn_shape *x = &c->in[0].shape;
	columns v;
	QN_TRY(read_call(c, &v));
	if (x->rank != 3)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "input of rank %d, it must have rank 3", x->rank);
	QN_TRY(qn_call_equate(c, x->dim[2], qn_dim_const(v.count), "the columns and the windows of the image"));
	qn_dim channels;
	if (!qn_dim_exact_div(c->dims, x->dim[1], qn_dim_const(v.block), &channels))
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%s rows do not divide into blocks of %lld", qn_dim_text(c->scratch, x->dim[1], NULL, NULL),
			(long long)v.block);
	c->out[0].type = c->in[0].type;
	c->out[0].shape = (qn_shape){.rank = v.w.n + 2, .dim = {x->dim[0], channels}};
	for (int i = 0; i < v.w.n; i++)
		c->out[0].shape.dim[i + 2] = qn_dim_const(v.image[i]);
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	columns v;
	QN_TRY(read_call(c, &v));
	const qn_tensor *x = c->x[0];
	int64_t size = 1, n = qn_tensor_count(x);
	for (int i = 0; i < v.w.n; i++)
		size *= v.image[i];
	double *sum = QN_NEW(c->scratch, double, qn_tensor_count(&c->y[0]));
	for (int64_t i = 0; i < n; i++) {
		int64_t column = i % v.count, offset = i / v.count % v.block, at = 0, step = 1;
		bool inside = true;
		for (int d = v.w.n - 1; d >= 0; d--) {
			int64_t o = column % v.steps[d] * v.w.stride[d] + offset % v.w.kernel[d] * v.w.dilation[d] - v.w.before[d];
			column /= v.steps[d];
			offset /= v.w.kernel[d];
			inside = inside && o >= 0 && o < v.image[d];
			at += o * step;
			step *= v.image[d];
		}
		if (inside)
			sum[i / v.count / v.block * size + at] += qn_tensor_get(x, i);
	}
	for (int64_t i = 0; i < qn_tensor_count(&c->y[0]); i++)
		qn_tensor_set(QN_OUT(c, 0, void), x->type, i, sum[i]);
	return QUERN_OK;
}

/* A transposed convolution whose filters each set one element of the window. */
static qn_status emit(qn_emit *e)
{
	const qn_node *n = e->node;
	const qn_shape *y = &n->out[0]->fact.shape;
	const qn_tensor *kernel;
	columns v;
	int64_t image[QN_MAX_SPATIAL], block[QN_MAX_SPATIAL], dim[QN_MAX_RANK];
	if (!n->in[2]->is_const || n->in[0]->fact.type != QN_F32 || !qn_dim_is_const(y->dim[1]))
		return qn_emit_fail(e, "a block_shape that is not constant, or an input that is not f32, is not expressible");
	QN_TRY(qn_graph_load(e->graph, n->in[2], e->arena, &kernel));
	for (int i = 0; i + 2 < y->rank; i++)
		image[i] = y->dim[i + 2].k, block[i] = qn_tensor_get_i64(kernel, i);
	const char *why = read_geometry(e->arena, n, image, block, y->rank - 2, &v);
	if (why)
		return qn_emit_fail(e, "%s", why);
	dim[0] = y->dim[1].k, dim[1] = v.block;
	qn_shape in = {.rank = y->rank, .dim = {y->dim[0], qn_dim_const(dim[0] * v.block)}};
	qn_text pads = {.arena = e->arena};
	for (int i = 0; i < v.w.n; i++) {
		dim[i + 2] = v.w.kernel[i];
		in.dim[i + 2] = qn_dim_const(v.steps[i]);
		int64_t reach = (v.steps[i] - 1) * v.w.stride[i] + qn_window_span(&v.w, i);
		if (reach - v.w.before[i] - v.image[i] < 0)
			return qn_emit_fail(e, "windows that do not reach the end of axis %d are not expressible", i);
		qn_text_add(&pads, "%s(%lld, %lld)", i ? ", " : "", (long long)v.w.before[i], (long long)(reach - v.w.before[i] - v.image[i]));
	}
	qn_tensor *filter = qn_tensor_new(e->arena, QN_F32, y->rank, dim);
	for (int64_t i = 0; i < dim[0] * v.block; i++)
		((float *)(uintptr_t)filter->data)[i * v.block + i % v.block] = 1;
	const char *x = qn_emit_temp(e, "windows", "reshape(%s, shape=%s)", qn_emit_ranked(e, n->in[0], 3), qn_emit_shape(e, &in));
	qn_emit_output(e, 0, "deconv(%s, %s, 0.0, stride=%s, dilation=%s, padding=[%s], border='constant', groups=%lld)", x,
		qn_emit_constant(e, "filter", filter), qn_emit_ints(e, v.w.stride, v.w.n), qn_emit_ints(e, v.w.dilation, v.w.n), pads.s,
		(long long)dim[0]);
	return QUERN_OK;
}

const qn_op qn_op_col2_im = {.name = "Col2Im", .since = 18, .min_in = 3, .max_in = 3, .infer = infer, .eval = eval, .emit = emit};
