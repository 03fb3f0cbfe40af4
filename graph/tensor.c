/* tensor.c - sizes, element access and conversion of dense tensors. */
#include "graph/convert.h"
#include "graph/tensor.h"

#include "graph/dim.h"

#include <assert.h>
#include <math.h>
#include <stdalign.h>

enum { BLOCK = 32, Q4_0_BYTES = 2 + BLOCK / 2, Q8_1_BYTES = 4 + BLOCK };

static const struct {
	const char *name;
	uint8_t size, align;
} types[QN_DTYPE_COUNT] = {
	[QN_NONE] = {"none", 0, 1},
	[QN_F32] = {"f32", 4, alignof(float)},
	[QN_F16] = {"f16", 2, alignof(uint16_t)},
	[QN_BF16] = {"bf16", 2, alignof(uint16_t)},
	[QN_F64] = {"f64", 8, alignof(double)},
	[QN_I8] = {"i8", 1, 1},
	[QN_I16] = {"i16", 2, alignof(int16_t)},
	[QN_I32] = {"i32", 4, alignof(int32_t)},
	[QN_I64] = {"i64", 8, alignof(int64_t)},
	[QN_U8] = {"u8", 1, 1},
	[QN_U16] = {"u16", 2, alignof(uint16_t)},
	[QN_U32] = {"u32", 4, alignof(uint32_t)},
	[QN_U64] = {"u64", 8, alignof(uint64_t)},
	[QN_BOOL] = {"bool", 1, 1},
	[QN_Q4_0] = {"q4_0", 0, 1},
	[QN_Q8_1] = {"q8_1", 0, 1},
	[QN_DIM] = {"dim", sizeof(qn_dim), alignof(qn_dim)},
	[QN_I4] = {"int4", 1, 1},
	[QN_I2] = {"int2", 1, 1},
	[QN_U4] = {"uint4", 1, 1},
	[QN_U2] = {"uint2", 1, 1},
	[QN_F8E4M3FN] = {"float8e4m3fn", 1, 1},
	[QN_F8E4M3FNUZ] = {"float8e4m3fnuz", 1, 1},
	[QN_F8E5M2] = {"float8e5m2", 1, 1},
	[QN_F8E5M2FNUZ] = {"float8e5m2fnuz", 1, 1},
	[QN_F8E8M0] = {"float8e8m0", 1, 1},
	[QN_F4E2M1] = {"float4e2m1", 1, 1},
};

static bool known_type(qn_dtype t)
{
	return (unsigned)t < QN_DTYPE_COUNT;
}
const char *qn_dtype_name(qn_dtype t)
{
	return known_type(t) ? types[t].name : "unknown";
}
size_t qn_dtype_size(qn_dtype t)
{
	return known_type(t) ? types[t].size : 0;
}

int64_t qn_tensor_count(const qn_tensor *t)
{
	int64_t n = 1;
	bool overflow = false;
	for (int i = 0; i < t->rank; i++) {
		if (t->dim[i] == 0)
			return 0;
		overflow |= __builtin_mul_overflow(n, t->dim[i], &n);
	}
	return overflow ? INT64_MAX : n;
}

bool qn_dtype_bytes(qn_dtype t, int64_t count, size_t *bytes)
{
	if (count < 0)
		return false;
	if (t == QN_Q4_0 || t == QN_Q8_1) {
		uint64_t blocks = ((uint64_t)count + BLOCK - 1) / BLOCK;
		return blocks <= SIZE_MAX && qn_mul_size((size_t)blocks, t == QN_Q4_0 ? Q4_0_BYTES : Q8_1_BYTES, bytes);
	}
	return (uint64_t)count <= SIZE_MAX && qn_mul_size((size_t)count, qn_dtype_size(t), bytes);
}

size_t qn_tensor_bytes(const qn_tensor *t)
{
	size_t bytes;
	return qn_dtype_bytes(t->type, qn_tensor_count(t), &bytes) ? bytes : SIZE_MAX;
}

qn_tensor *qn_tensor_new(qn_arena *a, qn_dtype type, int rank, const int64_t *dim)
{
	assert(rank >= 0 && rank <= QN_MAX_RANK);
	qn_tensor *t = QN_NEW(a, qn_tensor, 1);
	t->type = type;
	t->rank = rank;
	for (int i = 0; i < rank; i++)
		t->dim[i] = dim[i];
	size_t bytes = qn_tensor_bytes(t);
	t->data = bytes ? qn_arena_alloc(a, bytes) : NULL;
	return t;
}

qn_tensor *qn_tensor_i64s(qn_arena *a, const int64_t *v, int n)
{
	qn_tensor *t = QN_NEW(a, qn_tensor, 1);
	*t = (qn_tensor){.type = QN_I64, .rank = 1, .dim = {n}};
	if (n > 0) {
		int64_t *data = QN_NEW(a, int64_t, n);
		memcpy(data, v, (size_t)n * sizeof *v);
		t->data = data;
	}
	return t;
}

qn_tensor *qn_tensor_scalar_f32(qn_arena *a, float v)
{
	qn_tensor *t = QN_NEW(a, qn_tensor, 1);
	float *data = QN_NEW(a, float, 1);
	*data = v;
	*t = (qn_tensor){.type = QN_F32, .data = data};
	return t;
}

qn_tensor *qn_tensor_scalar_i64(qn_arena *a, int64_t v)
{
	qn_tensor *t = QN_NEW(a, qn_tensor, 1);
	int64_t *data = QN_NEW(a, int64_t, 1);
	*data = v;
	*t = (qn_tensor){.type = QN_I64, .data = data};
	return t;
}

static bool is_aligned(const qn_tensor *t)
{
	return (uintptr_t)t->data % types[t->type].align == 0;
}

const qn_tensor *qn_tensor_aligned(qn_arena *a, const qn_tensor *t)
{
	if (is_aligned(t))
		return t;
	qn_tensor *copy = qn_tensor_new(a, t->type, t->rank, t->dim);
	size_t bytes = qn_tensor_bytes(t);
	if (bytes) {
		void *data = qn_arena_alloc(a, bytes);
		copy->data = memcpy(data, t->data, bytes);
	}
	return copy;
}

/* --- one element ----------------------------------------------------------------------------------------- */
/* A number in the widest form that holds it exactly. */
typedef struct number {
	enum { REAL, SIGNED, UNSIGNED } kind;
	double f;
	int64_t i;
	uint64_t u;
} number;

#define LOAD(type, member)                                                                                                                 \
	do {                                                                                                                               \
		type v_;                                                                                                                   \
		memcpy(&v_, (const char *)data + (size_t)i * sizeof v_, sizeof v_);                                                        \
		n.member = v_;                                                                                                             \
	} while (0)

static float block_value(const uint8_t *data, qn_dtype type, int64_t i)
{
	size_t block = (size_t)(i / BLOCK), at = (size_t)(i % BLOCK);
	if (type == QN_Q4_0) {
		const uint8_t *b = data + block * Q4_0_BYTES;
		int code = at < BLOCK / 2 ? b[2 + at] & 15 : b[2 + at - BLOCK / 2] >> 4;
		return (float)(code - 8) * qn_f16_to_f32(qn_get_u16(b));
	}
	const uint8_t *b = data + block * Q8_1_BYTES;
	return (float)(int8_t)b[4 + at] * qn_f16_to_f32(qn_get_u16(b));
}

static number load(const void *data, qn_dtype type, int64_t i)
{
	number n = {REAL, 0, 0, 0};
	if (qn_dtype_is_small_float(type)) {
		n.f = qn_small_value(type, ((const uint8_t *)data)[i]);
		return n;
	}
	switch (qn_dtype_plain(type)) {
	case QN_F32:
		LOAD(float, f);
		return n;
	case QN_F64:
		LOAD(double, f);
		return n;
	case QN_F16:
		n.f = qn_f16_to_f32(qn_get_u16((const char *)data + i * 2));
		return n;
	case QN_BF16:
		n.f = qn_bf16_to_f32(qn_get_u16((const char *)data + i * 2));
		return n;
	case QN_Q4_0:
	case QN_Q8_1:
		n.f = block_value(data, type, i);
		return n;
	case QN_U64:
		n.kind = UNSIGNED;
		LOAD(uint64_t, u);
		return n;
	default:
		break;
	}
	n.kind = SIGNED;
	switch (qn_dtype_plain(type)) {
	case QN_I8:
		LOAD(int8_t, i);
		break;
	case QN_I16:
		LOAD(int16_t, i);
		break;
	case QN_I32:
		LOAD(int32_t, i);
		break;
	case QN_I64:
		LOAD(int64_t, i);
		break;
	case QN_U8:
	case QN_BOOL:
		LOAD(uint8_t, i);
		break;
	case QN_U16:
		LOAD(uint16_t, i);
		break;
	case QN_U32:
		LOAD(uint32_t, i);
		break;
	case QN_DIM: {
		qn_dim d;
		memcpy(&d, (const char *)data + (size_t)i * sizeof d, sizeof d);
		n.i = d.expr ? 0 : d.k;
		break;
	}
	default:
		assert(!"a tensor without a type has no elements");
		break;
	}
	return n;
}

static double as_real(number n)
{
	return n.kind == REAL ? n.f : n.kind == SIGNED ? (double)n.i : (double)n.u;
}

static int64_t saturated(double v, double low, double high, int64_t lowest, int64_t highest)
{
	if (isnan(v))
		return 0;
	return v <= low ? lowest : v >= high ? highest : (int64_t)v;
}

/* Reals saturate to the type; integers keep their low bits. */
static uint64_t as_bits(number n, qn_dtype to)
{
	if (n.kind != REAL)
		return n.kind == SIGNED ? (uint64_t)n.i : n.u;
	if (to == QN_U64)
		return n.f >= 0x1p64 ? UINT64_MAX : n.f >= 0x1p63 ? (uint64_t)n.f : (uint64_t)saturated(n.f, 0, 0x1p63, 0, INT64_MAX);
	if (to == QN_I64 || to == QN_DIM)
		return (uint64_t)saturated(n.f, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX);
	int width = types[to].size * 8;
	bool is_signed = to >= QN_I8 && to <= QN_I64;
	int64_t lowest = is_signed ? -((int64_t)1 << (width - 1)) : 0;
	int64_t highest = is_signed ? -lowest - 1 : ((int64_t)1 << width) - 1;
	return (uint64_t)saturated(n.f, (double)lowest, (double)highest, lowest, highest);
}

/* To f32 so that a second rounding, to 16 bits, gives what one rounding would: an inexact result is made odd. */
static float round_to_odd(double v)
{
	float f = (float)v;
	if ((double)f == v || isnan(v) || isinf(f))
		return f;
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	if (u & 1)
		return f;
	/* the odd neighbour on the side of v; bits of one sign are ordered as magnitudes */
	u = fabs((double)f) < fabs(v) ? u + 1 : u - 1;
	memcpy(&f, &u, sizeof f);
	return f;
}

static void store_small(uint8_t *at, qn_dtype type, number n)
{
	if (qn_dtype_is_small_float(type))
		*at = qn_small_code(type, as_real(n), true, QN_ROUND_UP);
	else
		*at = n.kind == REAL && !isfinite(n.f) ? 0 : qn_small_int(type, as_bits(n, QN_I64));
}

static void store(void *data, qn_dtype type, int64_t i, number n)
{
	char *at = (char *)data + (size_t)i * types[type].size;
	if (qn_dtype_is_small(type)) {
		store_small((uint8_t *)at, type, n);
		return;
	}
	switch (type) {
	case QN_F64: {
		double v = as_real(n);
		memcpy(at, &v, sizeof v);
		return;
	}
	case QN_F32: {
		float v = n.kind == REAL ? (float)n.f : n.kind == SIGNED ? (float)n.i : (float)n.u;
		memcpy(at, &v, sizeof v);
		return;
	}
	case QN_F16: {
		uint16_t v = qn_f32_to_f16(round_to_odd(as_real(n)));
		memcpy(at, &v, sizeof v);
		return;
	}
	case QN_BF16: {
		uint16_t v = qn_f32_to_bf16(round_to_odd(as_real(n)));
		memcpy(at, &v, sizeof v);
		return;
	}
	case QN_BOOL:
		*at = n.kind == REAL ? n.f != 0 : n.kind == SIGNED ? n.i != 0 : n.u != 0;
		return;
	case QN_DIM: {
		qn_dim v = qn_dim_const((int64_t)as_bits(n, type));
		memcpy(at, &v, sizeof v);
		return;
	}
	default:
		break;
	}
	uint64_t bits = as_bits(n, type);
	uint8_t b1 = (uint8_t)bits;
	uint16_t b2 = (uint16_t)bits;
	uint32_t b4 = (uint32_t)bits;
	switch (types[type].size) {
	case 1:
		memcpy(at, &b1, 1);
		break;
	case 2:
		memcpy(at, &b2, 2);
		break;
	case 4:
		memcpy(at, &b4, 4);
		break;
	case 8:
		memcpy(at, &bits, 8);
		break;
	default:
		assert(!"block types are written by passes/quant");
		break;
	}
}

double qn_tensor_get(const qn_tensor *t, int64_t i)
{
	return as_real(load(t->data, t->type, i));
}

int64_t qn_tensor_get_i64(const qn_tensor *t, int64_t i)
{
	number n = load(t->data, t->type, i);
	return n.kind == UNSIGNED && n.u > INT64_MAX ? INT64_MAX : (int64_t)as_bits(n, QN_I64);
}

void qn_tensor_set(void *data, qn_dtype type, int64_t i, double v)
{
	store(data, type, i, (number){REAL, v, 0, 0});
}

/* --- whole tensors --------------------------------------------------------------------------------------- */
void qn_convert(const void *src, qn_dtype from, void *dst, qn_dtype to, int64_t n)
{
	if (n <= 0 || qn_convert_fast(src, from, dst, to, n))
		return;
	for (int64_t i = 0; i < n; i++)
		store(dst, to, i, load(src, from, i));
}

const float *qn_tensor_f32(qn_arena *a, const qn_tensor *t)
{
	if (t->type == QN_F32 && is_aligned(t))
		return t->data;
	int64_t n = qn_tensor_count(t);
	float *out = QN_NEW(a, float, n);
	qn_convert(t->data, t->type, out, QN_F32, n);
	return out;
}
