#include "graph/ops/_span.h"
#include <omp.h>

qn_compute qn_compute_of(qn_dtype t)
{
	if (t == QN_F64)
		return QN_AS_F64;
	return qn_dtype_is_float(t) ? QN_AS_F32 : QN_AS_I64;
}

#define LOAD(code, type, out_type)                                                                                     \
	case code: {                                                                                                   \
		const type *s = (const type *)data + from;                                                             \
		for (int64_t i = 0; i < n; i++)                                                                        \
			((out_type *)to)[i] = (out_type)s[i];                                                          \
		break;                                                                                                 \
	}
#define STORE(code, type, in_type)                                                                                     \
	case code: {                                                                                                   \
		type *d = (type *)data + at;                                                                           \
		for (int64_t i = 0; i < n; i++)                                                                        \
			d[i] = (type)((const in_type *)from_buffer)[i];                                                \
		break;                                                                                                 \
	}

static void load_halves(const void *data, qn_dtype t, int64_t from, int64_t n, float *to)
{
	const uint16_t *s = (const uint16_t *)data + from;
	for (int64_t i = 0; i < n; i++)
		to[i] = t == QN_F16 ? qn_f16_to_f32(s[i]) : qn_bf16_to_f32(s[i]);
}

static void store_halves(const float *from, void *data, qn_dtype t, int64_t at, int64_t n)
{
	uint16_t *d = (uint16_t *)data + at;
	for (int64_t i = 0; i < n; i++)
		d[i] = t == QN_F16 ? qn_f32_to_f16(from[i]) : qn_f32_to_bf16(from[i]);
}

void qn_span_load(const void *data, qn_dtype t, int64_t from, int64_t n, void *to)
{
	switch (t) {
	LOAD(QN_F32, float, float)
	LOAD(QN_F64, double, double)
	LOAD(QN_I8, int8_t, int64_t)
	LOAD(QN_I16, int16_t, int64_t)
	LOAD(QN_I32, int32_t, int64_t)
	LOAD(QN_I64, int64_t, int64_t)
	LOAD(QN_U8, uint8_t, int64_t)
	LOAD(QN_U16, uint16_t, int64_t)
	LOAD(QN_U32, uint32_t, int64_t)
	LOAD(QN_U64, uint64_t, int64_t)
	LOAD(QN_BOOL, uint8_t, int64_t)
	default: load_halves(data, t, from, n, to); break;
	}
}

void qn_span_store(const void *from_buffer, void *data, qn_dtype t, int64_t at, int64_t n)
{
	switch (t) {
	STORE(QN_F32, float, float)
	STORE(QN_F64, double, double)
	STORE(QN_I8, int8_t, int64_t)
	STORE(QN_I16, int16_t, int64_t)
	STORE(QN_I32, int32_t, int64_t)
	STORE(QN_I64, int64_t, int64_t)
	STORE(QN_U8, uint8_t, int64_t)
	STORE(QN_U16, uint16_t, int64_t)
	STORE(QN_U32, uint32_t, int64_t)
	STORE(QN_U64, uint64_t, int64_t)
	STORE(QN_BOOL, bool, int64_t)
	default: store_halves(from_buffer, data, t, at, n); break;
	}
}

void qn_span_load_f64(const void *data, qn_dtype t, int64_t from, int64_t n, double *to)
{
	float part[QN_SPAN];
	switch (t) {
	LOAD(QN_F32, float, double)
	LOAD(QN_F64, double, double)
	case QN_F16:
	case QN_BF16:
		for (int64_t i = 0; i < n; i += QN_SPAN) {
			int64_t m = n - i < QN_SPAN ? n - i : QN_SPAN;
			load_halves(data, t, from + i, m, part);
			for (int64_t k = 0; k < m; k++)
				to[i + k] = (double)part[k];
		}
		break;
	default: qn_convert((const char *)data + (size_t)from * qn_dtype_size(t), t, to, QN_F64, n); break;
	}
}

void qn_span_store_f64(const double *from_buffer, void *data, qn_dtype t, int64_t at, int64_t n)
{
	float part[QN_SPAN];
	switch (t) {
	STORE(QN_F32, float, double)
	STORE(QN_F64, double, double)
	case QN_F16:
	case QN_BF16:
		for (int64_t i = 0; i < n; i += QN_SPAN) {
			int64_t m = n - i < QN_SPAN ? n - i : QN_SPAN;
			for (int64_t k = 0; k < m; k++)
				part[k] = (float)from_buffer[i + k];
			store_halves(part, data, t, at + i, m);
		}
		break;
	default: qn_convert(from_buffer, QN_F64, (char *)data + (size_t)at * qn_dtype_size(t), t, n); break;
	}
}

int qn_span_threads(const qn_call *c, int64_t work)
{
	if (work < 2 * QN_SPAN_TASK)
		return 1;
	int64_t most = c->threads > 0 ? c->threads : omp_get_max_threads();
	int64_t tasks = work / QN_SPAN_TASK;
	return (int)(tasks < most ? tasks : most);
}

bool qn_tensor_dim(const qn_tensor *t, int64_t i, qn_dim *out)
{
	if (t->type == QN_DIM) {
		*out = ((const qn_dim *)t->data)[i];
		return true;
	}
	if (!qn_dtype_is_float(t->type)) {
		*out = qn_dim_const(qn_tensor_get_i64(t, i));
		return true;
	}
	double v = qn_tensor_get(t, i);
	if (!(v == floor(v)) || fabs(v) > 9e15)
		return false;
	*out = qn_dim_const((int64_t)v);
	return true;
}
