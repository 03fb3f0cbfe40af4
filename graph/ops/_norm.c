#include "graph/ops/_norm.h"
#include "graph/ops/_engine.h"

#define KERNEL(name, type)                                                                                             \
	QN_VECTOR static double name##_sum(const type *x, int64_t n)                                                   \
	{                                                                                                              \
		double lane[8] = {0}, sum = 0.0;                                                                       \
		int64_t i = 0;                                                                                         \
		for (; i + 8 <= n; i += 8)                                                                             \
			for (int l = 0; l < 8; l++)                                                                    \
				lane[l] += (double)x[i + l];                                                           \
		for (; i < n; i++)                                                                                     \
			sum += (double)x[i];                                                                           \
		return sum + ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7])); \
	}                                                                                                              \
	QN_VECTOR static double name##_squares(const type *x, int64_t n, double mean)                                  \
	{                                                                                                              \
		double lane[8] = {0}, sum = 0.0;                                                                       \
		int64_t i = 0;                                                                                         \
		for (; i + 8 <= n; i += 8)                                                                             \
			for (int l = 0; l < 8; l++) {                                                                  \
				double d = (double)x[i + l] - mean;                                                    \
				lane[l] += d * d;                                                                      \
			}                                                                                              \
		for (; i < n; i++)                                                                                     \
			sum += ((double)x[i] - mean) * ((double)x[i] - mean);                                          \
		return sum + ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7])); \
	}                                                                                                              \
	QN_VECTOR static void name##_each(const type *x, type *y, int64_t n, type mean, type by, const type *s, const type *b) \
	{                                                                                                              \
		if (s && b) {                                                                                          \
			QN_SIMD for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * by * s[i] + b[i];               \
		} else if (s) {                                                                                        \
			QN_SIMD for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * by * s[i];                      \
		} else {                                                                                               \
			QN_SIMD for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * by;                             \
		}                                                                                                      \
	}                                                                                                              \
	QN_VECTOR static void name##_affine(const type *x, type *y, int64_t n, type mean, type by, type add)           \
	{                                                                                                              \
		QN_SIMD for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * by + add;                               \
	}                                                                                                              \
	static void name##_row(const qn_norm *h, const type *x, type *y, int64_t row, const type *s, const type *b)    \
	{                                                                                                              \
		double mean = h->rms ? 0.0 : name##_sum(x, h->n) / (double)h->n;                                       \
		double by = 1.0 / sqrt(name##_squares(x, h->n, mean) / (double)h->n + h->epsilon);                     \
		if (h->mean)                                                                                           \
			h->mean[row] = (float)mean;                                                                    \
		if (h->inverse)                                                                                        \
			h->inverse[row] = (float)by;                                                                   \
		if (h->span == 1 || (!s && !b)) {                                                                      \
			name##_each(x, y, h->n, (type)mean, (type)by, s, b);                                           \
			return;                                                                                        \
		}                                                                                                      \
		int64_t parts = h->n / h->span;                                                                        \
		for (int64_t k = 0; k < parts; k++) {                                                                  \
			int64_t entry = (row * parts + k) % h->entries, at = k * h->span;                              \
			type scale = s ? s[entry] : 1, add = b ? b[entry] : 0;                                         \
			name##_affine(x + at, y + at, h->span, (type)mean, (type)by *scale, add);                      \
		}                                                                                                      \
	}
KERNEL(f32, float)
KERNEL(f64, double)

/* Step by step what is emitted. */
static void engine_row(const qn_norm *h, const float *x, float *y, int64_t row, const float *s, const float *b)
{
	float mean = h->rms ? 0.0f : qn_engine_sum(x, h->n, row * h->n) * (1.0f / (float)h->n);
	for (int64_t i = 0; i < h->n; i++)
		y[i] = x[i] - mean;
	qn_engine_rms(y, y, h->n, (float)h->epsilon);
	for (int64_t i = 0; s && i < h->n; i++)
		y[i] *= s[i];
	for (int64_t i = 0; b && i < h->n; i++)
		y[i] += b[i];
}

qn_status qn_norm_rows(qn_call *c, const qn_tensor *x, const qn_tensor *y, const qn_norm *h)
{
	if (!qn_dtype_is_float(x->type))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "elements of type %s: floats are needed", qn_dtype_name(x->type));
	int64_t count = h->rows * h->n;
	int threads = qn_span_threads(c, count);
	if (count == 0)
		return QUERN_OK;
	if (x->type == QN_F64) {
		const double *in = x->data, *s = h->scale ? h->scale->data : NULL, *b = h->bias ? h->bias->data : NULL;
		double *out = (double *)(uintptr_t)y->data;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
		for (int64_t r = 0; r < h->rows; r++)
			f64_row(h, in + r * h->n, out + r * h->n, r, s, b);
		return QUERN_OK;
	}
	const float *in = qn_tensor_f32(c->scratch, x);
	const float *s = h->scale ? qn_tensor_f32(c->scratch, h->scale) : NULL, *b = h->bias ? qn_tensor_f32(c->scratch, h->bias) : NULL;
	float *out = y->type == QN_F32 ? (float *)(uintptr_t)y->data : QN_NEW(c->scratch, float, count);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
	for (int64_t r = 0; r < h->rows; r++)
		(h->as_engine ? engine_row : f32_row)(h, in + r * h->n, out + r * h->n, r, s, b);
	if (y->type != QN_F32)
		qn_convert(out, QN_F32, (void *)(uintptr_t)y->data, y->type, count);
	return QUERN_OK;
}

qn_status qn_norm_channels(qn_call *c, int i, qn_dim channels)
{
	const qn_shape *s = &c->in[i].shape;
	if (s->rank != 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "input %d ('%s') has rank %d: one number a channel is needed", i, c->node->in[i]->name, s->rank);
	return qn_call_equate(c, s->dim[0], channels, qn_arena_printf(c->scratch, "input %d and channels", i));
}

const char *qn_norm_channel_param(qn_emit *e, int i, int rank)
{
	const qn_value *v = e->node->in[i];
	const char *text = qn_emit_ref(e, e->node->in[i]);
	int64_t axes[QN_MAX_RANK];
	int n = 0;
	for (int a = 0; a < rank; a++)
		if (a != 1)
			axes[n++] = a;
	if (v->is_const && qn_dim_is(v->fact.shape.dim[0], 1)) /* a literal, of any rank */
		return text;
	return qn_arena_printf(e->arena, "unsqueeze(%s, axes=%s)", text, qn_emit_ints(e, axes, n));
}

const char *qn_norm_emit_rows(qn_emit *e, const char *x, const char *axes, double epsilon)
{
	qn_emit_fragment(e, "layer_norm",
		"fragment layer_norm( x: tensor<scalar>, axes: integer[], eps: scalar ) -> ( y: tensor<scalar> )\n"
		"{\n"
		"    centred = x - mean_reduce(x, axes = axes);\n"
		"    y = centred * rsqrt(mean_reduce(centred * centred, axes = axes) + eps);\n"
		"}\n");
	return qn_arena_printf(e->arena, "layer_norm(%s, axes=%s, eps=%s)", x, axes, qn_emit_float(e, epsilon));
}

const char *qn_norm_emit_wide(qn_emit *e, const char *x)
{
	qn_dtype type = e->node->in[0]->fact.type;
	return type == QN_F32 || type == QN_F64 ? x : qn_emit_temp(e, "wide", "tract_core_cast(%s, to='f32')", x);
}

const char *qn_norm_emit_narrow(qn_emit *e, const char *y)
{
	qn_dtype type = e->node->out[0]->fact.type;
	return type == QN_F32 || type == QN_F64 ? y : qn_arena_printf(e->arena, "tract_core_cast(%s, to='%s')", y, qn_emit_dtype(type));
}
