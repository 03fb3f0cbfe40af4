/* ranges.c - the ends of a tensor's range from the estimators of a configuration. */
#include "graph/ops/_math.h"
#include "passes/observe/observe.h"

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

/* The magnitudes of one end, 0 for values of the other; sign 0: of both. Returns the largest. */
QN_VECTOR static float magnitudes(const float *restrict v, int64_t n, float sign, float *restrict out)
{
	float most = 0;
	if (sign == 0) {
#pragma omp simd reduction(max : most)
		for (int64_t i = 0; i < n; i++) {
			out[i] = fabsf(v[i]);
			most = out[i] > most ? out[i] : most;
		}
		return most;
	}
#pragma omp simd reduction(max : most)
	for (int64_t i = 0; i < n; i++) {
		float x = v[i] * sign;
		out[i] = x > 0 ? x : 0;
		most = out[i] > most ? out[i] : most;
	}
	return most;
}

static void add_end(const qn_ranges *r, void *state, float *most, const float *v, int64_t n, float sign, qn_arena *scratch)
{
	float *m = QN_NEW(scratch, float, n + 1), largest = magnitudes(v, n, sign, m);
	*most = largest > *most ? largest : *most;
	r->kind->add(state, m, n, scratch);
}

void qn_ranges_add(qn_ranges *r, const float *v, int64_t n, qn_arena *scratch)
{
	bool ends = qn_method_asymmetric(r->config->method);
	add_end(r, r->high, &r->most_high, v, n, ends ? 1 : 0, scratch);
	if (ends)
		add_end(r, r->low, &r->most_low, v, n, -1, scratch);
}

void qn_ranges_add_summary(qn_ranges *r, const qn_summary end[2], size_t samples, qn_arena *scratch)
{
	void *const state[] = {r->high, r->low};
	float *const most[] = {&r->most_high, &r->most_low};
	for (int e = 0; e < (qn_method_asymmetric(r->config->method) ? 2 : 1); e++) {
		const qn_summary *s = &end[e];
		*most[e] = s->n_tail ? s->tail[0].v : s->body[0];
		r->kind->add_summary(state[e], s, samples, scratch);
	}
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
