/* moments.h - sums of what samples send through tensors, channel by channel of the last axis. */
#ifndef QN_PASSES_MOMENTS_H
#define QN_PASSES_MOMENTS_H

#include "graph/samples.h"

typedef struct qn_moments {
	double *sum, *square; /* over all rows; NULL for tensors that nobody asks about */
	int64_t rows;
} qn_moments;

/* Runs the graph over the samples, with progress of that stage, and adds to m, by value id. */
qn_status qn_moments_read(qn_graph *g, qn_samples *samples, const char *stage, qn_moments *m);

#endif
