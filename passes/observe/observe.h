/* observe.h - estimators of the range of a tensor from a stream of values, sample by sample.
 *
 * An estimator sees magnitudes, finite and not negative. Its memory does not grow with what it sees, and its answer does not depend on the
 * order in which it saw the samples. One file an estimator. */
#ifndef QN_OBSERVE_H
#define QN_OBSERVE_H

#include "passes/config.h"

typedef struct qn_observer qn_observer;

typedef struct qn_observer_kind {
	/* State in `a`. */
	void *(*start)(const qn_calibration_config *c, qn_arena *a);
	/* All magnitudes of one sample. */
	void (*add)(void *state, const float *v, int64_t n, qn_arena *scratch);
	/* The range for codes of that many bits; `largest` is the largest magnitude of all, which is > 0. */
	float (*range)(const void *state, float largest, int bits, qn_arena *scratch);
} qn_observer_kind;

extern const qn_observer_kind qn_observe_max, qn_observe_max_percentile, qn_observe_histogram;

/* --- estimators of one tensor: of its magnitudes, or of each end where there are zero points ------------------------ */
typedef struct qn_ranges {
	const qn_calibration_config *config;
	const qn_observer_kind *kind;
	void *high, *low;          /* low is NULL for symmetric methods, and high then sees magnitudes */
	float most_high, most_low; /* the largest magnitude of each end */
	int64_t count;
} qn_ranges;

qn_ranges *qn_ranges_new(const qn_calibration_config *c, qn_arena *a);
/* The values of one sample; all finite. */
void qn_ranges_add(qn_ranges *r, const float *v, int64_t n, qn_arena *scratch);
/* low <= 0 <= high. 16 bits take the maximum whatever the mode. A range is never below min_clip_ratio x the seen maximum. */
void qn_ranges_get(const qn_ranges *r, int bits, float min_clip_ratio, qn_arena *scratch, float *low, float *high);

/* The n largest of v, in falling order, to out[min(n, count)]. */
void qn_largest(const float *v, int64_t count, int64_t n, float *out, qn_arena *scratch);

/* --- a histogram of magnitudes ---------------------------------------------------------------------------------------- */
typedef struct qn_histogram {
	const qn_calibration_config *config;
	double first_width; /* of a bin before any doubling */
	int doublings;
	uint64_t *count; /* [hist_num_bins] */
	uint64_t total;
} qn_histogram;

double qn_histogram_width(const qn_histogram *h);
/* The magnitude below which a fraction p of all values lies, linear within a bin; at most `largest`. */
float qn_histogram_quantile(const qn_histogram *h, double p, float largest);
/* The range of least squared rounding error, and of least divergence of the rounded distribution, over the searched percentiles. */
float qn_histogram_least_error(const qn_histogram *h, float largest, int bits, qn_arena *scratch);
float qn_histogram_least_divergence(const qn_histogram *h, float largest, int bits, qn_arena *scratch);

#endif
