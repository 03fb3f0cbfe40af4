/* stats.h - what calibration saw of the tensors that layers read. Streamed: the memory does not grow with the number of samples, and nothing
 * depends on the order of the samples or on threads. */
#ifndef QN_STATS_H
#define QN_STATS_H

#include "passes/plan.h"

enum { QN_STATS_ROWS = 512 }; /* rows kept of a tensor, to measure output errors on */

/* Of one tensor, along its last axis (the contraction axis of the layers that read it). */
typedef struct qn_stats {
	qn_value *value;
	int64_t channels;
	int64_t count;        /* values that entered */
	int64_t masked;       /* values left out because a mask produced them */
	int64_t rows_seen;
	float low, high;      /* smallest and largest value */
	float *channel_low, *channel_high; /* by channel */
	double *channel_sum, *channel_square; /* sums over rows, by channel */
	float *rows;          /* n_rows x channels: a deterministic selection that does not depend on the order of the samples */
	int64_t n_rows;
	float range;          /* magnitude chosen by the range estimator of the configuration */
	float range_low, range_high; /* the same for each end (methods 2 and 3) */
} qn_stats;

typedef struct qn_calibration {
	qn_stats *stats; /* one a tensor that some layer reads; n of them */
	size_t n;
	size_t samples;
} qn_calibration;

qn_stats *qn_calibration_find(const qn_calibration *c, const qn_value *v); /* NULL when v was not observed */

#endif
