/* rows.h - rows of one width that lie in several pieces, as the batches of a stream leave them. */
#ifndef QN_ROWS_H
#define QN_ROWS_H

#include "graph/base.h"

typedef struct qn_rows {
	const float **piece; /* borrowed */
	int64_t *count;      /* rows of each piece */
	size_t n;
	int64_t rows, width; /* of all */
} qn_rows;

/* The one piece x [rows, width]. */
qn_rows qn_rows_of(qn_arena *a, const float *x, int64_t rows, int64_t width);
/* Rows from, ..., from + n - 1 less `mean` [width] (NULL: nothing) to out [n, width]. */
void qn_rows_copy(const qn_rows *r, int64_t from, int64_t n, const float *mean, float *out);
/* Mean of the rows of a, less that of b where b is not NULL, [width]; summed in f64 in `scratch`. */
void qn_rows_mean(qn_arena *scratch, const qn_rows *a, const qn_rows *b, float *mean);

#endif
