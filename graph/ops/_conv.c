#include "graph/ops/_conv.h"
#include <omp.h>

/* Output positions that are computed at once: their columns stay in the cache. */
enum { COLUMN_ELEMENTS = 1 << 19 };

qn_status qn_conv_shape(qn_call *c, const qn_shape *x, const qn_shape *w, qn_shape *out)
{
	qn_window win;
	QN_TRY(qn_window_of(c, x, w, &win));
	int64_t groups = qn_node_int(c->node, "group", 1);
	if (groups < 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "group is %lld, it must be at least 1", (long long)groups);
	if (qn_dim_is_const(w->dim[0]) && w->dim[0].k % groups)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%lld output channels do not divide into %lld groups", (long long)w->dim[0].k, (long long)groups);
	QN_TRY(qn_call_equate(c, x->dim[1], qn_dim_mul(c->dims, w->dim[1], qn_dim_const(groups)), "the channels of input and weight"));
	*out = *x;
	out->dim[1] = w->dim[0];
	for (int i = 0; i < win.n; i++)
		QN_TRY(qn_window_out(c, &win, i, x->dim[i + 2], &out->dim[i + 2]));
	return QUERN_OK;
}

qn_status qn_conv_plan(qn_call *c, const qn_tensor *x, const qn_tensor *w, const qn_tensor *y, qn_conv *v)
{
	qn_shape sx = qn_shape_of(x), sw = qn_shape_of(w);
	QN_TRY(qn_window_of(c, &sx, &sw, &v->window));
	v->batch = x->dim[0];
	v->groups = qn_node_int(c->node, "group", 1);
	v->c_in = w->dim[1];
	v->c_out = w->dim[0] / v->groups;
	v->in_size = v->out_size = v->kernel_size = 1;
	for (int i = 0; i < v->window.n; i++) {
		int64_t after;
		v->in[i] = x->dim[i + 2], v->out[i] = y->dim[i + 2];
		qn_window_pads(&v->window, i, v->in[i], &v->before[i], &after);
		v->in_size *= v->in[i], v->out_size *= v->out[i], v->kernel_size *= v->window.kernel[i];
	}
	return QUERN_OK;
}

/* Where a row of output positions (all but the last axis decoded from `line`) reads in a channel for a kernel offset; -1: in the
 * padding. */
static int64_t line_start(const qn_conv *v, int64_t line, const int64_t *offset)
{
	int64_t at = 0, step = v->in[v->window.n - 1];
	for (int d = v->window.n - 2; d >= 0; d--) {
		int64_t i = line % v->out[d] * v->window.stride[d] + offset[d] * v->window.dilation[d] - v->before[d];
		line /= v->out[d];
		if (i < 0 || i >= v->in[d])
			return -1;
		at += i * step;
		step *= v->in[d];
	}
	return at;
}

/* One row of the column matrix for positions [from, to): a channel's elements at one kernel offset. */
#define FILL_ROW(type)                                                                                                   \
	static void fill_row_##type(const qn_conv *v, const type *x, int64_t from, int64_t to, const int64_t *offset, type *row) \
	{                                                                                                                \
		int last = v->window.n - 1;                                                                              \
		int64_t width = v->out[last], stride = v->window.stride[last];                                           \
		int64_t shift = offset[last] * v->window.dilation[last] - v->before[last];                               \
		for (int64_t p = from; p < to;) {                                                                        \
			int64_t o = p % width, end = o + (to - p) < width ? o + (to - p) : width;                        \
			int64_t start = line_start(v, p / width, offset);                                                \
			p += end - o;                                                                                    \
			for (; o < end; o++, row++) {                                                                    \
				int64_t i = o * stride + shift;                                                          \
				*row = start >= 0 && i >= 0 && i < v->in[last] ? x[start + i] : 0;                       \
			}                                                                                                \
		}                                                                                                        \
	}
FILL_ROW(uint32_t)
FILL_ROW(uint64_t)

static void fill_columns(const qn_conv *v, const void *x, int64_t from, int64_t to, void *col)
{
	for (int64_t r = 0; r < v->c_in * v->kernel_size; r++) {
		int64_t offset[QN_MAX_SPATIAL], rest = r % v->kernel_size, at = r / v->kernel_size * v->in_size;
		for (int d = v->window.n - 1; d >= 0; d--) {
			offset[d] = rest % v->window.kernel[d];
			rest /= v->window.kernel[d];
		}
		if (v->type == QN_F64)
			fill_row_uint64_t(v, (const uint64_t *)x + at, from, to, offset, (uint64_t *)col + r * (to - from));
		else
			fill_row_uint32_t(v, (const uint32_t *)x + at, from, to, offset, (uint32_t *)col + r * (to - from));
	}
}

/* A 1x1 kernel at stride 1 without pads reads the input as it lies. */
static bool is_plain(const qn_conv *v)
{
	for (int i = 0; i < v->window.n; i++)
		if (v->window.kernel[i] != 1 || v->window.stride[i] != 1 || v->before[i] || v->in[i] != v->out[i])
			return false;
	return true;
}

void qn_conv_run(qn_call *c, const qn_conv *v, const void *x, const void *w, void *y)
{
	int64_t rows = v->c_in * v->kernel_size, chunk = COLUMN_ELEMENTS / (rows ? rows : 1);
	chunk = chunk < 64 ? 64 : chunk > 4096 ? 4096 : chunk;
	chunk = chunk < v->out_size ? chunk : v->out_size;
	if (v->batch * v->groups * v->c_out * v->out_size == 0)
		return;
	int64_t chunks = (v->out_size + chunk - 1) / chunk, tasks = v->batch * v->groups * chunks;
	int threads = qn_threads_for(c->threads, (double)tasks * (double)v->c_out * (double)rows * (double)chunk);
	threads = tasks < threads ? (int)tasks : threads;
	size_t size = qn_dtype_size(v->type);
	bool plain = is_plain(v), ints = v->type == QN_I32;
	char *cols = plain ? NULL : qn_arena_array(c->scratch, (size_t)(threads * rows * chunk), size);
	float *parts = ints ? QN_NEW(c->scratch, float, threads * v->c_out * chunk) : NULL;
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
	for (int64_t task = 0; task < tasks; task++) {
		int64_t from = task % chunks * chunk, to = from + chunk < v->out_size ? from + chunk : v->out_size;
		int64_t group = task / chunks; /* over batch and groups */
		const char *in = (const char *)x + (size_t)(group * v->c_in * v->in_size) * size;
		char *col = plain ? NULL : cols + (size_t)(omp_get_thread_num() * rows * chunk) * size;
		if (!plain)
			fill_columns(v, in, from, to, col);
		qn_gemm g = {.type = ints ? QN_F32 : v->type, .m = v->c_out, .n = to - from, .k = rows, .lda = rows,
			.ldb = plain ? v->out_size : to - from, .ldc = v->out_size, .batch = 1, .chained = c->ctx->engine_math && !ints};
		const char *weight = (const char *)w + (size_t)(group % v->groups * v->c_out * rows) * size;
		const char *right = plain ? in + (size_t)from * size : col;
		char *out = (char *)y + (size_t)(group * v->c_out * v->out_size + from) * size;
		if (ints)
			qn_gemm_small_ints(&g, 1, (const float *)(const void *)weight, v->w_max, (const float *)(const void *)right, v->x_max,
				parts + omp_get_thread_num() * v->c_out * chunk, (int32_t *)(void *)out);
		else
			qn_gemm_run(&g, 1, weight, right, out);
	}
}
