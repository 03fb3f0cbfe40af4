/* dat.c - the 128-byte header of an NNEF tensor file: written and checked. */
#include "passes/nnef/dat.h"

/* Byte offsets of the header's fields; whatever is not named is zero. */
enum { AT_MAGIC = 0, AT_VERSION = 2, AT_BYTES = 4, AT_RANK = 8, AT_DIMS = 12, AT_BITS = 44, AT_ITEM = 48, AT_VENDOR = 50, FIELDS = 52 };
_Static_assert(AT_DIMS + 4 * QN_MAX_RANK == AT_BITS, "a header has room for eight dims");
_Static_assert(FIELDS + 32 + 44 == QN_DAT_HEADER, "fields, item parameters and padding make 128 bytes");

enum { VENDOR_TRACT = 'T' << 8 | 'R', ITEM_Q4_0 = 0x3040, ITEM_Q4_0_LEGACY = 0x2040, ITEM_Q8_1 = 0x3080 };
#define NO_BITS UINT32_MAX /* bits of an item that is part of a block */

/* What each element type is called in a header. */
static const struct row {
	qn_dtype type;
	uint32_t bits;
	uint16_t item, vendor;
} rows[] = {
	{QN_F32, 32, 0, 0}, {QN_F16, 16, 0, 0}, {QN_F64, 64, 0, 0},
	{QN_I8, 8, 4, 0}, {QN_I16, 16, 4, 0}, {QN_I32, 32, 4, 0}, {QN_I64, 64, 4, 0},
	{QN_U8, 8, 1, 0}, {QN_U16, 16, 1, 0}, {QN_U32, 32, 1, 0}, {QN_U64, 64, 1, 0},
	{QN_BOOL, 8, 5, 0},
	{QN_Q4_0, NO_BITS, ITEM_Q4_0, VENDOR_TRACT}, {QN_Q8_1, NO_BITS, ITEM_Q8_1, VENDOR_TRACT},
	/* read, never written: "quantized" spellings, packed bools, the old nibble order */
	{QN_U8, 8, 2, 0}, {QN_U16, 16, 2, 0}, {QN_U32, 32, 2, 0}, {QN_U64, 64, 2, 0},
	{QN_I8, 8, 3, 0}, {QN_I16, 16, 3, 0}, {QN_I32, 32, 3, 0}, {QN_I64, 64, 3, 0},
	{QN_BOOL, 1, 5, 0}, {QN_Q4_0, NO_BITS, ITEM_Q4_0_LEGACY, VENDOR_TRACT},
};

static bool is_block(qn_dtype t) { return t == QN_Q4_0 || t == QN_Q8_1; }

/* Blocks of 32 lie along the flattened axes after the first. */
static bool block_shape_fits(int rank, const int64_t *dim)
{
	int64_t row = 1;
	for (int i = 1; i < rank; i++)
		row = row * (dim[i] % 32) % 32;
	return rank >= 2 && row == 0;
}

qn_status qn_dat_encode(qn_ctx *ctx, const char *label, const qn_tensor *t, uint8_t header[QN_DAT_HEADER])
{
	const struct row *r = NULL;
	for (size_t i = 0; i < QN_LEN(rows) && !r; i++)
		if (rows[i].type == t->type)
			r = &rows[i];
	if (!r)
		QN_FAIL(ctx, QUERN_ERR_UNSUPPORTED, "variable '%s': no NNEF item type holds %s, convert it to f32 or f16 first", label,
			qn_dtype_name(t->type));
	if (is_block(t->type) && !block_shape_fits(t->rank, t->dim))
		QN_FAIL(ctx, QUERN_ERR_SHAPE, "variable '%s': %s needs rank 2 or more and a multiple of 32 after the first axis",
			label, qn_dtype_name(t->type));
	size_t bytes = qn_tensor_bytes(t);
	if (bytes > UINT32_MAX)
		QN_FAIL(ctx, QUERN_ERR_UNSUPPORTED,
			"variable '%s' has %zu bytes, an NNEF variable holds at most 4294967295; give it fewer bits", label, bytes);
	memset(header, 0, QN_DAT_HEADER);
	qn_put_u16(header + AT_MAGIC, 0xEF4E);
	header[AT_VERSION] = 1;
	qn_put_u32(header + AT_BYTES, (uint32_t)bytes);
	qn_put_u32(header + AT_RANK, (uint32_t)t->rank);
	for (int i = 0; i < t->rank; i++) {
		if (t->dim[i] > UINT32_MAX)
			QN_FAIL(ctx, QUERN_ERR_UNSUPPORTED, "variable '%s': axis %d has %lld items, too many for NNEF", label, i,
				(long long)t->dim[i]);
		qn_put_u32(header + AT_DIMS + 4 * i, (uint32_t)t->dim[i]);
	}
	qn_put_u32(header + AT_BITS, r->bits);
	qn_put_u16(header + AT_ITEM, r->item);
	qn_put_u16(header + AT_VENDOR, r->vendor);
	return QUERN_OK;
}

static qn_status read_shape(qn_ctx *ctx, const char *label, const uint8_t *h, qn_dat *d)
{
	uint32_t rank = qn_get_u32(h + AT_RANK);
	if (rank > QN_MAX_RANK)
		QN_FAIL(ctx, QUERN_ERR_FORMAT, "'%s.dat': rank %u, at most %d is possible", label, rank, QN_MAX_RANK);
	d->rank = (int)rank;
	int64_t count = 1;
	for (int i = 0; i < d->rank; i++) {
		d->dim[i] = qn_get_u32(h + AT_DIMS + 4 * i);
		if (__builtin_mul_overflow(count, d->dim[i], &count))
			QN_FAIL(ctx, QUERN_ERR_FORMAT, "'%s.dat': the product of its dims overflows at axis %d", label, i);
	}
	size_t bytes;
	bool fits = d->packed ? (bytes = (size_t)(count / 8 + (count % 8 != 0)), true) : qn_dtype_bytes(d->type, count, &bytes);
	if (!fits || bytes != d->bytes)
		QN_FAIL(ctx, QUERN_ERR_FORMAT, "'%s.dat': its header says %llu bytes of data, its type and dims do not", label,
			(unsigned long long)d->bytes);
	if (is_block(d->type) && !block_shape_fits(d->rank, d->dim))
		QN_FAIL(ctx, QUERN_ERR_FORMAT, "'%s.dat': %s with dims that are no whole blocks of 32", label, qn_dtype_name(d->type));
	return QUERN_OK;
}

qn_status qn_dat_header(qn_ctx *ctx, const char *label, const void *file, size_t n, uint64_t file_bytes, qn_dat *out)
{
	const uint8_t *h = file;
	if (n < QN_DAT_HEADER)
		QN_FAIL(ctx, QUERN_ERR_FORMAT, "'%s.dat': %zu bytes, a header alone has %d", label, n, QN_DAT_HEADER);
	if (qn_get_u16(h + AT_MAGIC) != 0xEF4E)
		QN_FAIL(ctx, QUERN_ERR_FORMAT, "'%s.dat' is no NNEF tensor: it starts with %02x %02x", label, h[0], h[1]);
	if (h[AT_VERSION] != 1)
		QN_FAIL(ctx, QUERN_ERR_FORMAT, "'%s.dat': NNEF version %u.%u, only 1.x is known", label, h[AT_VERSION], h[AT_VERSION + 1]);
	uint32_t bits = qn_get_u32(h + AT_BITS);
	uint16_t item = qn_get_u16(h + AT_ITEM), vendor = qn_get_u16(h + AT_VENDOR);
	const struct row *r = NULL;
	for (size_t i = 0; i < QN_LEN(rows) && !r; i++)
		if (rows[i].item == item && rows[i].vendor == vendor && rows[i].bits == bits)
			r = &rows[i];
	if (!r)
		QN_FAIL(ctx, QUERN_ERR_FORMAT, "'%s.dat': unknown item type 0x%04x of vendor 0x%04x with %u bits", label, item, vendor,
			bits);
	*out = (qn_dat){.type = r->type, .packed = bits == 1, .legacy = item == ITEM_Q4_0_LEGACY, .bytes = qn_get_u32(h + AT_BYTES)};
	QN_TRY(read_shape(ctx, label, h, out));
	if (file_bytes != out->bytes + QN_DAT_HEADER)
		QN_FAIL(ctx, QUERN_ERR_FORMAT, "'%s.dat': the header says %llu bytes of data, the file holds %llu", label,
			(unsigned long long)out->bytes, (unsigned long long)(file_bytes - QN_DAT_HEADER));
	return QUERN_OK;
}

qn_status qn_dat_decode(qn_ctx *ctx, const char *label, const void *file, size_t n, qn_tensor *out)
{
	qn_dat d;
	QN_TRY(qn_dat_header(ctx, label, file, n, n, &d));
	if (d.packed || d.legacy)
		QN_FAIL(ctx, QUERN_ERR_UNSUPPORTED, "'%s.dat': %s cannot be read here", label,
			d.packed ? "bools of one bit" : "the Q4_0 nibble order of older engines");
	*out = (qn_tensor){.type = d.type, .rank = d.rank, .data = (const uint8_t *)file + QN_DAT_HEADER};
	memcpy(out->dim, d.dim, sizeof out->dim);
	return QUERN_OK;
}
