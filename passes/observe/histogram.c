/* histogram.c - magnitudes in bins of one width. When a value does not fit, the width doubles and pairs of bins merge: the bins are then
 * what they would have been with that width from the start, so nothing depends on the order of the values. */
#include "passes/observe/observe.h"

#include <math.h>

/* First width where the configuration sets no bound: below any activation that matters. */
static const double SMALLEST_WIDTH = 1e-12;

static void *start(const qn_calibration_config *c, qn_arena *a)
{
	qn_histogram *h = QN_NEW(a, qn_histogram, 1);
	*h = (qn_histogram){.config = c, .count = QN_NEW(a, uint64_t, c->hist_num_bins)};
	h->first_width = c->hist_min_bin_width > 0 ? c->hist_min_bin_width : SMALLEST_WIDTH;
	return h;
}

double qn_histogram_width(const qn_histogram *h)
{
	return ldexp(h->first_width, h->doublings);
}

static void make_room(qn_histogram *h, float largest)
{
	int bins = h->config->hist_num_bins, more = 0;
	while (floor(ldexp((double)largest / h->first_width, -(h->doublings + more))) >= bins)
		more++;
	if (!more)
		return;
	for (int i = 0; i < bins; i++) {
		int to = more < 31 ? i >> more : 0;
		uint64_t n = h->count[i];
		h->count[i] = 0;
		h->count[to] += n;
	}
	h->doublings += more;
}

static uint64_t *bin_of(const qn_histogram *h, float v, double shrink)
{
	return &h->count[(int64_t)((double)v / h->first_width * shrink)];
}

/* A power of two, so that floors agree with those of merged bins. */
static double shrink_of(const qn_histogram *h) { return ldexp(1, -h->doublings); }

static void add(void *state, const float *v, int64_t n, qn_arena *scratch)
{
	(void)scratch;
	qn_histogram *h = state;
	int64_t step = h->config->hist_buffer_size;
	for (int64_t at = 0; at < n; at += step) {
		int64_t end = n - at < step ? n : at + step;
		float largest = 0;
		for (int64_t i = at; i < end; i++)
			largest = v[i] > largest ? v[i] : largest;
		make_room(h, largest);
		double shrink = shrink_of(h);
		for (int64_t i = at; i < end; i++)
			++*bin_of(h, v[i], shrink);
	}
	h->total += (uint64_t)n;
}

static void add_summary(void *state, const qn_summary *s, size_t samples, qn_arena *scratch)
{
	(void)samples;
	qn_histogram *h = state;
	double stands_for = (double)s->n_rest / (double)s->n_body;
	add(h, s->body, s->n_body, scratch);
	if (s->n_tail)
		make_room(h, s->tail[0].v);
	for (int i = 0; i < h->config->hist_num_bins; i++)
		h->count[i] = (uint64_t)nearbyint((double)h->count[i] * stands_for);
	for (int64_t i = 0; i < s->n_tail; i++)
		*bin_of(h, s->tail[i].v, shrink_of(h)) += (uint64_t)s->tail[i].n;
	h->total = 0;
	for (int i = 0; i < h->config->hist_num_bins; i++)
		h->total += h->count[i];
}

float qn_histogram_quantile(const qn_histogram *h, double p, float largest)
{
	double target = p * (double)h->total, below = 0;
	for (int i = 0; i < h->config->hist_num_bins; i++) {
		double here = (double)h->count[i];
		if (here > 0 && below + here >= target) {
			double edge = ((double)i + (target - below) / here) * qn_histogram_width(h);
			return edge < (double)largest ? (float)edge : largest;
		}
		below += here;
	}
	return largest;
}

static float range(const void *state, float largest, int bits, qn_arena *scratch)
{
	const qn_histogram *h = state;
	switch (h->config->hist_search_type) {
	case 1:
		return qn_histogram_least_error(h, largest, bits, scratch);
	case 2:
		return qn_histogram_least_divergence(h, largest, bits, scratch);
	default:
		return qn_histogram_quantile(h, h->config->hist_percentile, largest);
	}
}

const qn_observer_kind qn_observe_histogram = {start, add, add_summary, range};
