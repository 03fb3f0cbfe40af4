/* DequantizeBlocks (quern): what a block-quantized weight of ONNX Runtime stands for, as a constant that is computed when needed.
 *
 * (data, scales, zero_points or absent) -> a tensor of the shape `dims`, of the type of the scales:
 *   y = (data - zero) * scale, one scale and one zero for each `block_size` elements along `axis`.
 * Data of fewer than 8 bits is packed along the last axis, low bits first, each row starting at a byte; packed integer zero points
 * likewise. The columns of a row past its dim (padding of the last block) are dropped. Without zero points, `zero` is taken. */
#include "graph/op.h"
#include <omp.h>

enum { DATA, SCALES, ZEROS };

typedef struct layout {
	const qn_tensor *data, *scales, *zeros;
	int bits, zero_bits;
	int64_t zero, block;
	bool last;           /* the quantized axis is the last */
	int64_t rows, width; /* of y, width being its last dim */
	int64_t row_bytes;
	int64_t length, inner;                       /* y is [outer, length, inner] around the quantized axis */
	int64_t blocks, scale_width, zero_row_bytes; /* blocks along the axis; last dim of the scales */
} layout;

static qn_status infer(qn_call *c)
{
	const qn_attr *dims = qn_node_attr(c->node, "dims");
	c->out[0].type = c->in[SCALES].type;
	c->out[0].shape.rank = (int)dims->n;
	for (size_t i = 0; i < dims->n; i++)
		c->out[0].shape.dim[i] = qn_dim_const(dims->ints[i]);
	return QUERN_OK;
}

static int64_t after(const qn_tensor *t, int axis)
{
	int64_t n = 1;
	for (int i = axis; i < t->rank; i++)
		n *= t->dim[i];
	return n;
}

/* Element `at` of a row of numbers of so many bits. */
static inline unsigned unpack(const uint8_t *row, int64_t at, int bits)
{
	if (bits == 8)
		return row[at];
	int64_t bit = at * bits;
	unsigned two = row[bit / 8];
	if (bit % 8 + bits > 8)
		two |= (unsigned)row[bit / 8 + 1] << 8;
	return two >> (bit % 8) & ((1u << bits) - 1);
}

static double zero_of(const layout *l, int64_t scale)
{
	if (!l->zeros)
		return (double)l->zero;
	if (l->zeros->type != QN_U8)
		return qn_tensor_get(l->zeros, scale);
	const uint8_t *row = (const uint8_t *)l->zeros->data + scale / l->scale_width * l->zero_row_bytes;
	return unpack(row, scale % l->scale_width, l->zero_bits);
}

/* Elements [from, to) of a row that share the scale and the zero at `at`. */
static void dequantize_run(const layout *l, int64_t r, int64_t from, int64_t to, int64_t at, void *out, qn_dtype type)
{
	const uint8_t *data = (const uint8_t *)l->data->data + r * l->row_bytes;
	float scale = (float)qn_tensor_get(l->scales, at), zero = (float)zero_of(l, at);
	for (int64_t i = from; i < to; i++) {
		float q = qn_dtype_plain(l->data->type) == QN_I8 ? (float)((const int8_t *)data)[i] : (float)unpack(data, i, l->bits);
		float y = (q - zero) * scale;
		if (type == QN_F32)
			((float *)out)[r * l->width + i] = y;
		else
			qn_convert(&y, QN_F32, (char *)out + (size_t)(r * l->width + i) * qn_dtype_size(type), type, 1);
	}
}

static void dequantize_row(const layout *l, int64_t r, void *out, qn_dtype type)
{
	if (l->last) {
		for (int64_t k = 0; k < l->blocks; k++) {
			int64_t end = (k + 1) * l->block;
			dequantize_run(l, r, k * l->block, end < l->width ? end : l->width, r * l->blocks + k, out, type);
		}
		return;
	}
	int64_t rows = l->inner / l->width, outer = r / (l->length * rows), k = r / rows % l->length;
	int64_t at = (outer * l->blocks + k / l->block) * l->inner + r % rows * l->width;
	for (int64_t i = 0; i < l->width; i++)
		dequantize_run(l, r, i, i + 1, at + i, out, type);
}

static qn_status fill_layout(qn_call *c, layout *l)
{
	const qn_tensor *y = &c->y[0];
	int axis = (int)qn_node_int(c->node, "axis", 0);
	l->bits = (int)qn_node_int(c->node, "bits", 8);
	l->zero_bits = (int)qn_node_int(c->node, "zero_bits", l->bits);
	l->zero = qn_node_int(c->node, "zero", 0);
	l->block = qn_node_int(c->node, "block_size", 32);
	l->data = c->x[DATA];
	l->scales = c->x[SCALES];
	l->zeros = qn_call_has(c, ZEROS) ? c->x[ZEROS] : NULL;
	l->width = y->dim[y->rank - 1];
	l->rows = l->width ? qn_tensor_count(y) / l->width : 0;
	l->row_bytes = l->rows ? qn_tensor_count(l->data) / l->rows : 0;
	l->length = y->dim[axis];
	l->inner = after(y, axis + 1);
	l->blocks = (l->length + l->block - 1) / l->block;
	l->last = axis == y->rank - 1;
	l->scale_width = l->last ? l->blocks : l->width;
	int64_t outer = l->rows ? qn_tensor_count(y) / (l->length * l->inner) : 0, n_scales = outer * l->blocks * l->inner;
	int64_t zero_rows = n_scales && l->scale_width ? n_scales / l->scale_width : 0;
	l->zero_row_bytes = (l->scale_width * l->zero_bits + 7) / 8;
	if (l->row_bytes < (l->width * l->bits + 7) / 8)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%lld bytes of data are too few for %lld rows of %lld numbers of %d bits",
			(long long)qn_tensor_count(l->data), (long long)l->rows, (long long)l->width, l->bits);
	if (qn_tensor_count(l->scales) != n_scales)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%lld scales where blocks of %lld need %lld", (long long)qn_tensor_count(l->scales),
			(long long)l->block, (long long)n_scales);
	int64_t n_zeros = l->zeros && l->zeros->type == QN_U8 ? zero_rows * l->zero_row_bytes : n_scales;
	if (l->zeros && qn_tensor_count(l->zeros) != n_zeros)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%lld zero points where %lld are needed", (long long)qn_tensor_count(l->zeros),
			(long long)n_zeros);
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	layout l;
	QN_TRY(fill_layout(c, &l));
	void *out = QN_OUT(c, 0, void);
	qn_dtype type = c->y[0].type;
	int threads = l.rows * l.width < 65536 ? 1 : c->threads > 0 ? c->threads : omp_get_max_threads();
#pragma omp parallel for num_threads(threads) if (threads > 1)
	for (int64_t r = 0; r < l.rows; r++)
		dequantize_row(&l, r, out, type);
	return QUERN_OK;
}

const qn_op qn_op_dequantize_blocks = {
	.name = "DequantizeBlocks",
	.domain = "quern",
	.min_in = 2,
	.max_in = 3,
	.traits = QN_KEEPS_WEIGHT | QN_SMALL,
	.infer = infer,
	.eval = eval,
};
