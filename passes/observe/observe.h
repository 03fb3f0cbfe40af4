/* observe.h - estimators of the range of a tensor from a stream of values, sample by sample.
 *
 * An estimator sees magnitudes, finite and not negative. Its memory does not grow with what it sees, and its answer does not depend on the
 * order in which it saw the samples. One file an estimator. */
#ifndef QN_OBSERVE_H
#define QN_OBSERVE_H

#include "passes/config.h"

/* A magnitude, and how often it was seen. */
typedef struct qn_repeated {
	float v;
	int64_t n;
} qn_repeated;

/* Magnitudes of a tensor without the tensor: the largest of all, falling, n_tail of them that differ or are of other channels; and n_body
 * others, which stand evenly for the n_rest that are left. */
typedef struct qn_summary {
	const qn_repeated *tail;
	const float *body;
	int64_t n_tail, n_body, n_rest;
} qn_summary;

typedef struct qn_observer_kind {
	/* State in `a`. */
	void *(*start)(const qn_calibration_config *c, qn_arena *a);
	/* All magnitudes of one sample. */
	void (*add)(void *state, const float *v, int64_t n, qn_arena *scratch);
	/* Magnitudes of so many samples that are known by a summary, to an estimator that has seen nothing yet. */
	void (*add_summary)(void *state, const qn_summary *s, size_t samples, qn_arena *scratch);
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
} qn_ranges;

qn_ranges *qn_ranges_new(const qn_calibration_config *c, qn_arena *a);
/* The values of one sample; all finite. */
void qn_ranges_add(qn_ranges *r, const float *v, int64_t n, qn_arena *scratch);
/* The same of all samples at once, by summaries of the high end (of the magnitudes where there is no zero point) and of the low one. */
void qn_ranges_add_summary(qn_ranges *r, const qn_summary end[2], size_t samples, qn_arena *scratch);
/* low <= 0 <= high. 16 bits take the maximum whatever the mode. A range is never below min_clip_ratio x the seen maximum. */
void qn_ranges_get(const qn_ranges *r, int bits, float min_clip_ratio, qn_arena *scratch, float *low, float *high);

/* The n largest of v, in falling order, to out[min(n, count)]. */
void qn_largest(const float *v, int64_t count, int64_t n, float *out, qn_arena *scratch);

/* --- the largest magnitudes of each channel --------------------------------------------------------------------------- */
enum { QN_TAIL = 16 }; /* how many of a channel: more than the default quantiles reach into a full pool */

typedef struct qn_tails {
	int64_t channels;
	int n_ends;        /* 2 where there are zero points: the high end, then the low one; else 1, of magnitudes */
	float *list[2];    /* [channels, QN_TAIL], in no order; places that are free hold 0 */
	int64_t *times[2]; /* how often each was seen */
	float *least[2];   /* [channels]: the least of a list, which larger ones replace */
	int64_t *hit;      /* room for one row's work */
} qn_tails;

qn_tails *qn_tails_new(int64_t channels, bool asymmetric, qn_arena *a);
/* rows x channels values. */
void qn_tails_add(qn_tails *t, const float *x, int64_t rows);
/* Of an end of the tensor with each channel divided by by[channel] > 0. What the lists cannot tell is told by n_rows of the tensor's rows;
 * `count` are all its values. */
qn_summary qn_tails_summary(const qn_tails *t, int end, const float *by, const float *rows, int64_t n_rows, int64_t count, qn_arena *a);

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
