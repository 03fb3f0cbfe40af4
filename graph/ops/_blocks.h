/* _blocks.h - block-quantized weights of ONNX Runtime's operators, as DequantizeBlocks over the constants in the file. */
#ifndef QN_OPS_BLOCKS_H
#define QN_OPS_BLOCKS_H

#include "graph/ops/_build.h"

typedef struct qn_blocks {
	qn_value *data, *scales, *zeros; /* zeros may be NULL */
	int bits, zero_bits;             /* 8 where data, or zeros, are not packed */
	int64_t zero;                    /* without zeros */
	int64_t block;
	int axis, rank;
	int64_t dim[QN_MAX_RANK]; /* of the result */
} qn_blocks;

/* Fails where one of them is not a constant. */
qn_status qn_blocks_apply(const qn_build *b, const qn_blocks *k, qn_value **out);

#endif
