/* _quant.h - scales and zero points of the ONNX quantization operators. */
#ifndef QN_OPS_QUANT_H
#define QN_OPS_QUANT_H

#include "graph/emit.h"

/* The integer range of a quantized type; false for a type that holds no quantized values. */
bool qn_quant_range(qn_dtype t, int64_t *low, int64_t *high);
/* All elements of a quantized tensor minus its zero point, as f32. `zero` (NULL: none) is a scalar or has one element an index of
 * `axis`. Sets the bound of the magnitudes. */
const float *qn_quant_centered(qn_call *c, const qn_tensor *t, const qn_tensor *zero, int axis, int *bound);
/* round-half-even(v / scale) + zero, saturated to the type's range. */
int64_t qn_quantize(float v, float scale, int64_t zero, int64_t low, int64_t high);
/* A scalar in a value of rank 0 or with one element. */
bool qn_is_single(const qn_shape *s);
/* Fails unless the scale or zero point in input i is a scalar, or, where `dim` is not NULL, has one element for each of `dim`. */
qn_status qn_call_quant_check(qn_call *c, int i, const qn_dim *dim);

/* How scales and zero points of QuantizeLinear and DequantizeLinear lie on a tensor. */
typedef struct qn_blocks {
	int64_t inner, dim; /* elements behind the axis, elements of the axis */
	bool per_index;     /* one for each index of the axis; else: */
	int64_t block;      /* 0: one for the whole tensor; else one for each block of that many and each inner index */
	int64_t count;      /* blocks along the axis */
} qn_blocks;

/* Checks scale (input 1) and zero point (input 2) against input 0. */
qn_status qn_blocks_infer(qn_call *c);
void qn_blocks_of(const qn_node *n, const qn_tensor *x, const qn_tensor *scale, qn_blocks *b);
/* Which scale belongs to element i. */
static inline int64_t qn_blocks_at(const qn_blocks *b, int64_t i)
{
	int64_t at = i / b->inner % b->dim;
	if (b->per_index || b->block == 0)
		return b->per_index ? at : 0;
	return (i / b->inner / b->dim * b->count + at / b->block) * b->inner + i % b->inner;
}

/* A scale or zero point as an f32 expression that broadcasts against rank `rank` with its elements on `axis`. Constants become variables
 * of that shape. */
const char *qn_quant_param(qn_emit *e, qn_value *v, const char *label, int rank, int axis);
/* The quantized type that an ONNX type number of the output_dtype attribute stands for; QN_NONE when unknown or absent (0). */
qn_dtype qn_quant_output_type(int64_t onnx_type);
/* A small float that holds quantized values: rounded and not shifted, as its zero point is 0. */
bool qn_quant_is_float(qn_dtype t);
/* Inputs 0, 1 and 2 of a quantization as f32 expressions that broadcast (zero is NULL where absent). Where scales belong to blocks, the
 * axis is cut in two, and the result must be reshaped back (`blocked`); uneven blocks fail. */
typedef struct qn_quant_parts {
	const char *x, *scale, *zero;
	bool blocked;
} qn_quant_parts;
qn_status qn_quant_emit(qn_emit *e, qn_quant_parts *p);

#endif
