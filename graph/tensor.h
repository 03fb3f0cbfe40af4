/* tensor.h - a dense block of typed values, always contiguous and row-major.
 *
 * Ownership, once for the whole header: a qn_tensor never owns its data. Data lives in an arena, in a mapped file
 * (kept by the graph's arena) or in the executor's buffers; whoever makes the tensor says which. Data of a mapped file may be
 * unaligned: read it with qn_tensor_f32 / memcpy, or take an aligned view with qn_tensor_aligned. */
#ifndef QN_TENSOR_H
#define QN_TENSOR_H

#include "graph/base.h"

#define QN_MAX_RANK 8

typedef enum qn_dtype {
	QN_NONE, /* not known yet */
	QN_F32, QN_F16, QN_BF16, QN_F64,
	QN_I8, QN_I16, QN_I32, QN_I64,
	QN_U8, QN_U16, QN_U32, QN_U64,
	QN_BOOL, /* one byte, 0 or 1 */
	QN_Q4_0, /* blocks of 32 along the flattened last axes; see passes/quant */
	QN_Q8_1,
	QN_DIM,  /* integers known only as expressions of the symbolic dims: elements are qn_dim (graph/dim.h) */
	/* the small types, a byte an element whatever their bits: operators that compute do not take them (QN_SMALL in graph/op.h) */
	QN_I4, QN_I2, QN_U4, QN_U2, /* the byte is the number, as i8 or u8 */
	QN_F8E4M3FN, QN_F8E4M3FNUZ, QN_F8E5M2, QN_F8E5M2FNUZ, QN_F8E8M0, QN_F4E2M1, /* the byte is the code */
	QN_DTYPE_COUNT
} qn_dtype;

typedef struct qn_tensor {
	qn_dtype type;
	int rank;
	int64_t dim[QN_MAX_RANK];
	const void *data; /* may be unaligned; NULL only where the count is 0 */
} qn_tensor;

const char *qn_dtype_name(qn_dtype t);           /* "f32", "i64", "q4_0", ... */
size_t qn_dtype_size(qn_dtype t);                /* bytes of an element; 0 for block types and QN_NONE */
static inline bool qn_dtype_is_float(qn_dtype t) { return t >= QN_F32 && t <= QN_F64; }
static inline bool qn_dtype_is_int(qn_dtype t) { return t >= QN_I8 && t <= QN_U64; }
static inline bool qn_dtype_is_small(qn_dtype t) { return t >= QN_I4 && t <= QN_F4E2M1; }
static inline bool qn_dtype_is_small_float(qn_dtype t) { return t >= QN_F8E4M3FN && t <= QN_F4E2M1; }
/* What holds all values of a small type: i8, u8 or f32; any other type itself. */
static inline qn_dtype qn_dtype_plain(qn_dtype t)
{
	return !qn_dtype_is_small(t) ? t : qn_dtype_is_small_float(t) ? QN_F32 : t <= QN_I2 ? QN_I8 : QN_U8;
}

int64_t qn_tensor_count(const qn_tensor *t);     /* product of the dims; 1 for rank 0 */
/* Bytes that `count` elements of a type take, block types included. False when it overflows. */
bool qn_dtype_bytes(qn_dtype t, int64_t count, size_t *bytes);
size_t qn_tensor_bytes(const qn_tensor *t);

/* A tensor with zeroed data in the arena. */
qn_tensor *qn_tensor_new(qn_arena *a, qn_dtype type, int rank, const int64_t *dim);
qn_tensor *qn_tensor_i64s(qn_arena *a, const int64_t *v, int n); /* rank 1 */
qn_tensor *qn_tensor_scalar_f32(qn_arena *a, float v);           /* rank 0 */
qn_tensor *qn_tensor_scalar_i64(qn_arena *a, int64_t v);

/* `t` itself when its data is aligned for its type, else a copy in the arena. */
const qn_tensor *qn_tensor_aligned(qn_arena *a, const qn_tensor *t);
/* Element i as a number; QN_DIM elements give their constant (0 when symbolic: check first). */
double qn_tensor_get(const qn_tensor *t, int64_t i);
int64_t qn_tensor_get_i64(const qn_tensor *t, int64_t i);
void qn_tensor_set(void *data, qn_dtype type, int64_t i, double v); /* as qn_convert */
/* The same values in the plain type: `t` itself, or a copy in the arena. */
const qn_tensor *qn_tensor_plain(qn_arena *a, const qn_tensor *t);
/* All elements as f32: the data itself when already aligned f32, else a converted copy in the arena (Q4_0 and Q8_1 dequantized). */
const float *qn_tensor_f32(qn_arena *a, const qn_tensor *t);
/* Converts `n` elements between numeric types (not block types): float to int truncates toward zero and saturates, int to int keeps the
 * low bits, bool is v != 0. Integers of 4 and 2 bits keep the low bits of floats too (of what is not finite, 0); small floats are rounded as
 * by qn_convert_rounded with saturation, upwards. */
void qn_convert(const void *src, qn_dtype from, void *dst, qn_dtype to, int64_t n);
/* To a small float, to the nearest with halves to even. Beyond the largest: that one with `saturate`, else inf or NaN, whichever the type
 * has. `round` is for float8e8m0 alone. */
typedef enum qn_small_round { QN_ROUND_UP, QN_ROUND_DOWN, QN_ROUND_NEAREST } qn_small_round;
void qn_convert_rounded(const void *src, qn_dtype from, void *dst, qn_dtype to, int64_t n, bool saturate, qn_small_round round);

#endif
