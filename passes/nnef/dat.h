/* dat.h - what a .dat header says, beyond the tensor that archive.h reads from it. */
#ifndef QN_DAT_H
#define QN_DAT_H

#include "passes/nnef/archive.h"

typedef struct qn_dat {
	qn_dtype type;
	bool packed; /* bools of one bit, most significant first */
	bool legacy; /* Q4_0 with the nibble order of engines before 0.21.11 */
	int rank;
	int64_t dim[QN_MAX_RANK];
	uint64_t bytes; /* of data, after the header */
} qn_dat;

/* Reads the header from the first `n` bytes of a file of `file_bytes`, and checks type, dims and sizes against each other. */
qn_status qn_dat_header(qn_ctx *ctx, const char *label, const void *file, size_t n, uint64_t file_bytes, qn_dat *out);

#endif
