/* payload.c - a TensorProto becomes a tensor: types, dims, raw and typed elements. */
#include "graph/onnx/loader.h"

typedef enum { NO_DATA, FLOAT_DATA, INT32_DATA, INT64_DATA, DOUBLE_DATA, UINT64_DATA, N_FIELDS } data_field;

typedef struct type_row {
	const char *name;
	qn_dtype type; /* QN_NONE: known to ONNX, not to us */
	int bits;      /* of a stored element */
	data_field field;
	int64_t low, high; /* of an entry of int32_data or uint64_data */
} type_row;

static const type_row types[] = {
	[1] = {"float32", QN_F32, 32, FLOAT_DATA, 0, 0},
	[2] = {"uint8", QN_U8, 8, INT32_DATA, 0, UINT8_MAX},
	[3] = {"int8", QN_I8, 8, INT32_DATA, INT8_MIN, INT8_MAX},
	[4] = {"uint16", QN_U16, 16, INT32_DATA, 0, UINT16_MAX},
	[5] = {"int16", QN_I16, 16, INT32_DATA, INT16_MIN, INT16_MAX},
	[6] = {"int32", QN_I32, 32, INT32_DATA, INT32_MIN, INT32_MAX},
	[7] = {"int64", QN_I64, 64, INT64_DATA, 0, 0},
	[8] = {"string", QN_NONE, 0, NO_DATA, 0, 0},
	[9] = {"bool", QN_BOOL, 8, INT32_DATA, 0, 1},
	[10] = {"float16", QN_F16, 16, INT32_DATA, 0, UINT16_MAX},
	[11] = {"float64", QN_F64, 64, DOUBLE_DATA, 0, 0},
	[12] = {"uint32", QN_U32, 32, UINT64_DATA, 0, UINT32_MAX},
	[13] = {"uint64", QN_U64, 64, UINT64_DATA, 0, 0},
	[14] = {"complex64", QN_NONE, 0, NO_DATA, 0, 0},
	[15] = {"complex128", QN_NONE, 0, NO_DATA, 0, 0},
	[16] = {"bfloat16", QN_BF16, 16, INT32_DATA, 0, UINT16_MAX},
	[17] = {"float8e4m3fn", QN_F8E4M3FN, 8, INT32_DATA, 0, UINT8_MAX},
	[18] = {"float8e4m3fnuz", QN_F8E4M3FNUZ, 8, INT32_DATA, 0, UINT8_MAX},
	[19] = {"float8e5m2", QN_F8E5M2, 8, INT32_DATA, 0, UINT8_MAX},
	[20] = {"float8e5m2fnuz", QN_F8E5M2FNUZ, 8, INT32_DATA, 0, UINT8_MAX},
	[21] = {"uint4", QN_U4, 4, INT32_DATA, INT8_MIN, UINT8_MAX},
	[22] = {"int4", QN_I4, 4, INT32_DATA, INT8_MIN, UINT8_MAX},
	[23] = {"float4e2m1", QN_F4E2M1, 4, INT32_DATA, INT8_MIN, UINT8_MAX},
	[24] = {"float8e8m0", QN_F8E8M0, 8, INT32_DATA, 0, UINT8_MAX},
	[25] = {"uint2", QN_U2, 2, INT32_DATA, INT8_MIN, UINT8_MAX},
	[26] = {"int2", QN_I2, 2, INT32_DATA, INT8_MIN, UINT8_MAX},
	[27] = {"float6e2m3", QN_NONE, 0, NO_DATA, 0, 0},
	[28] = {"float6e3m2", QN_NONE, 0, NO_DATA, 0, 0},
};

static const char *const field_names[N_FIELDS] = {"", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"};

static const type_row *row_of(int onnx_type)
{
	return onnx_type > 0 && onnx_type < (int)QN_LEN(types) ? &types[onnx_type] : NULL;
}

qn_dtype qn_payload_type(int onnx_type, const char **name)
{
	const type_row *row = row_of(onnx_type);
	*name = row ? row->name : "unknown";
	return row ? row->type : QN_NONE;
}

const char *qn_payload_refusal(qn_loader *ld, const char *subject, const Qn__TensorProto *t)
{
	const type_row *row = row_of(t->data_type);
	if (!row || row->type != QN_NONE)
		return NULL;
	return qn_arena_printf(
		ld->tmp, "%s is of type %s, which is not supported; export it as float32, float16 or an integer type", subject, row->name);
}

qn_status qn_payload_dims(qn_loader *ld, const char *subject, const int64_t *dims, size_t n, qn_tensor *out, int64_t *count)
{
	if (n > QN_MAX_RANK)
		QN_FAIL(ld->ctx, QUERN_ERR_UNSUPPORTED, "%s has rank %zu; the largest supported rank is %d", subject, n, QN_MAX_RANK);
	/* zeros are left out at first: a product that overflows is damage even where a later 0 makes the tensor empty */
	int64_t product = 1;
	bool empty = false;
	for (size_t i = 0; i < n; i++) {
		if (dims[i] < 0)
			QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s has the dimension %lld at axis %zu", subject, (long long)dims[i], i);
		empty |= dims[i] == 0;
		if (dims[i] && (__builtin_mul_overflow(product, dims[i], &product) || product > INT64_MAX / 64))
			QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s has dimensions whose product overflows (%lld at axis %zu)", subject,
				(long long)dims[i], i);
		out->dim[i] = dims[i];
	}
	out->rank = (int)n;
	*count = empty ? 0 : product;
	return QUERN_OK;
}

/* Elements of 2 or 4 bits, the first in the lowest bits, to one byte each. */
static void unpack_bits(const uint8_t *src, int bits, bool is_signed, int64_t count, uint8_t *dst)
{
	int per = 8 / bits, mask = (1 << bits) - 1, sign = 1 << (bits - 1);
	for (int64_t i = 0; i < count; i++) {
		int v = src[i / per] >> (bits * (int)(i % per)) & mask;
		dst[i] = (uint8_t)(is_signed && (v & sign) ? v - mask - 1 : v);
	}
}

/* A view of stored bytes, or a copy where elements are packed or a bool is neither 0 nor 1. */
static const void *from_bytes(qn_loader *ld, const type_row *row, const uint8_t *src, int64_t count)
{
	if (row->bits < 8) {
		uint8_t *data = qn_arena_array(ld->a, (size_t)count, 1);
		unpack_bits(src, row->bits, row->type == QN_I4 || row->type == QN_I2, count, data);
		return data;
	}
	bool clean = true;
	for (int64_t i = 0; row->type == QN_BOOL && i < count; i++)
		clean &= src[i] <= 1;
	if (clean)
		return src;
	uint8_t *data = qn_arena_array(ld->a, (size_t)count, 1);
	for (int64_t i = 0; i < count; i++)
		data[i] = src[i] != 0;
	return data;
}

static size_t entries(const Qn__TensorProto *t, data_field f)
{
	switch (f) {
	case FLOAT_DATA:
		return t->n_float_data;
	case INT32_DATA:
		return t->n_int32_data;
	case INT64_DATA:
		return t->n_int64_data;
	case DOUBLE_DATA:
		return t->n_double_data;
	case UINT64_DATA:
		return t->n_uint64_data;
	default:
		return 0;
	}
}

static void store(void *dst, int bits, size_t i, int64_t v)
{
	if (bits == 32)
		memcpy((uint8_t *)dst + 4 * i, &(uint32_t){(uint32_t)v}, 4);
	else if (bits == 16)
		memcpy((uint8_t *)dst + 2 * i, &(uint16_t){(uint16_t)v}, 2);
	else
		((uint8_t *)dst)[i] = (uint8_t)v;
}

/* int32_data, and uint64_data of uint32: entries wider than the type, each checked. */
static qn_status narrow(qn_loader *ld, const char *subject, const Qn__TensorProto *t, const type_row *row, size_t n, void *dst)
{
	for (size_t i = 0; i < n; i++) {
		int64_t v = row->field == INT32_DATA        ? t->int32_data[i]
			    : t->uint64_data[i] > INT64_MAX ? INT64_MAX
							    : (int64_t)t->uint64_data[i];
		if (v < row->low || v > row->high)
			QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s: entry %zu of %s is %lld, which is out of range for %s", subject, i,
				field_names[row->field], (long long)v, row->name);
		store(dst, row->bits < 8 ? 8 : row->bits, i, v);
	}
	return QUERN_OK;
}

static qn_status from_typed(
	qn_loader *ld, const char *subject, const Qn__TensorProto *t, const type_row *row, int64_t count, const void **out)
{
	for (data_field f = FLOAT_DATA; f < N_FIELDS; f++)
		if (f != row->field && entries(t, f))
			QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s has elements in %s, but its type %s keeps them in %s", subject,
				field_names[f], row->name, field_names[row->field]);
	int64_t need = row->bits < 8 ? (count * row->bits + 7) / 8 : count;
	size_t n = entries(t, row->field);
	if (n != (uint64_t)need)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s has %zu entries in %s, its shape needs %lld", subject, n, field_names[row->field],
			(long long)need);
	size_t bytes = n * (size_t)(row->bits < 8 ? 8 : row->bits) / 8;
	void *data = qn_arena_alloc(row->bits < 8 ? ld->tmp : ld->a, bytes);
	if (row->field == INT32_DATA || row->type == QN_U32) {
		QN_TRY(narrow(ld, subject, t, row, n, data));
	} else if (n) {
		const void *src = row->field == FLOAT_DATA    ? (const void *)t->float_data
				  : row->field == INT64_DATA  ? (const void *)t->int64_data
				  : row->field == DOUBLE_DATA ? (const void *)t->double_data
							      : (const void *)t->uint64_data;
		memcpy(data, src, bytes);
	}
	*out = row->bits < 8 ? from_bytes(ld, row, data, count) : data;
	return QUERN_OK;
}

static bool has_typed(const Qn__TensorProto *t)
{
	bool any = false;
	for (data_field f = FLOAT_DATA; f < N_FIELDS; f++)
		any |= entries(t, f) > 0;
	return any;
}

static qn_status get_data(
	qn_loader *ld, const char *subject, const Qn__TensorProto *t, const type_row *row, int64_t count, const void **out)
{
	size_t need = (size_t)(count * row->bits + 7) / 8;
	bool typed = has_typed(t);
	qn_bytes raw = t->has_raw_data ? qn_lifted_raw(&ld->lifted, t) : (qn_bytes){NULL, 0};
	if (t->data_location != QN__TENSOR_PROTO__DATA_LOCATION__DEFAULT) {
		if (t->data_location != QN__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
			QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s has the unknown data location %d", subject, (int)t->data_location);
		if (typed || raw.n)
			QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s has elements both in the model and in an external file", subject);
		QN_TRY(qn_external_bytes(ld, subject, t, need, &raw));
	} else if (typed && raw.n) {
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s has elements both in raw_data and in a typed field", subject);
	} else if (!raw.n) {
		return from_typed(ld, subject, t, row, count, out); /* empty raw data, or none */
	} else if (raw.n != need) {
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s has %zu bytes of raw data, its shape and type (%s) need %zu", subject, raw.n,
			row->name, need);
	}
	*out = from_bytes(ld, row, raw.data, count);
	return QUERN_OK;
}

qn_status qn_payload_tensor(qn_loader *ld, const char *subject, const Qn__TensorProto *t, const qn_tensor **out)
{
	const type_row *row = row_of(t->data_type);
	if (!row)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s has the unknown data type %d", subject, (int)t->data_type);
	const char *refusal = qn_payload_refusal(ld, subject, t);
	if (refusal)
		QN_FAIL(ld->ctx, QUERN_ERR_UNSUPPORTED, "%s", refusal);
	if (t->segment)
		QN_FAIL(ld->ctx, QUERN_ERR_UNSUPPORTED, "%s is split into segments", subject);
	qn_tensor *y = QN_NEW(ld->a, qn_tensor, 1);
	int64_t count;
	QN_TRY(qn_payload_dims(ld, subject, t->dims, t->n_dims, y, &count));
	y->type = row->type;
	QN_TRY(get_data(ld, subject, t, row, count, &y->data));
	if (!count)
		y->data = NULL;
	*out = y;
	return QUERN_OK;
}
