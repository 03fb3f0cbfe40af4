/* ranges.c - the ends of a tensor's range from the estimators of a configuration. */
#include "passes/observe/observe.h"

#include <math.h>
#include <stdlib.h>

qn_ranges *qn_ranges_new(const qn_calibration_config *c, qn_arena *a)
{
	static const qn_observer_kind *const kinds[] = {[QN_CALIB_MAX] = &qn_observe_max,
		[QN_CALIB_PERCENTILE] = &qn_observe_max_percentile,
		[QN_CALIB_HISTOGRAM] = &qn_observe_histogram};
	qn_ranges *r = QN_NEW(a, qn_ranges, 1);
	*r = (qn_ranges){.config = c, .kind = kinds[c->mode]};
	r->high = r->kind->start(c, a);
	r->low = qn_method_asymmetric(c->method) ? r->kind->start(c, a) : NULL;
	return r;
}

static float largest_of(const float *v, int64_t n)
{
	float most = 0;
	for (int64_t i = 0; i < n; i++)
		most = v[i] > most ? v[i] : most;
	return most;
}

void qn_ranges_add(qn_ranges *r, const float *v, int64_t n, qn_arena *scratch)
{
	float *m = QN_NEW(scratch, float, n + 1);
	bool ends = qn_method_asymmetric(r->config->method);
	for (int64_t i = 0; i < n; i++)
		m[i] = ends ? (v[i] > 0 ? v[i] : 0) : fabsf(v[i]);
	float most = largest_of(m, n);
	r->most_high = most > r->most_high ? most : r->most_high;
	r->kind->add(r->high, m, n, scratch);
	r->count += n;
	if (!ends)
		return;
	for (int64_t i = 0; i < n; i++)
		m[i] = v[i] < 0 ? -v[i] : 0;
	most = largest_of(m, n);
	r->most_low = most > r->most_low ? most : r->most_low;
	r->kind->add(r->low, m, n, scratch);
}

static float end_range(const qn_ranges *r, const void *state, float most, int bits, float min_clip_ratio, qn_arena *scratch)
{
	if (!(most > 0))
		return 0;
	float range = bits >= 16 ? most : r->kind->range(state, most, bits, scratch);
	float least = min_clip_ratio * most;
	return range < least ? least : range;
}

void qn_ranges_get(const qn_ranges *r, int bits, float min_clip_ratio, qn_arena *scratch, float *low, float *high)
{
	*high = end_range(r, r->high, r->most_high, bits, min_clip_ratio, scratch);
	*low = -*high;
	if (qn_method_asymmetric(r->config->method))
		*low = -end_range(r, r->low, r->most_low, bits, min_clip_ratio, scratch);
}

/* --- the largest values ---------------------------------------------------------------------------------------------- */
enum { BUCKETS = 2048, BUCKET_SHIFT = 20 }; /* exponent and three bits of fraction: floats that are not negative order as their bits do */

static uint32_t bits_of(float v)
{
	uint32_t u;
	memcpy(&u, &v, sizeof u);
	return u;
}

static int falling(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return x > y ? -1 : x < y;
}

void qn_largest(const float *v, int64_t count, int64_t n, float *out, qn_arena *scratch)
{
	int64_t *bucket = QN_NEW(scratch, int64_t, BUCKETS), above = 0;
	for (int64_t i = 0; i < count; i++)
		bucket[bits_of(v[i]) >> BUCKET_SHIFT & (BUCKETS - 1)]++;
	int from = BUCKETS;
	while (from > 0 && above < n)
		above += bucket[--from];
	float *taken = QN_NEW(scratch, float, above + 1);
	int64_t k = 0;
	for (int64_t i = 0; i < count; i++)
		if ((int)(bits_of(v[i]) >> BUCKET_SHIFT & (BUCKETS - 1)) >= from)
			taken[k++] = v[i];
	qsort(taken, (size_t)k, sizeof *taken, falling);
	memcpy(out, taken, (size_t)(n < k ? n : k) * sizeof *out);
}
