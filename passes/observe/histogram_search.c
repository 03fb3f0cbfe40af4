/* histogram_search.c - which of many percentiles makes the best range: by squared error, or by divergence of distributions. */
#include "passes/observe/observe.h"

#include <math.h>

/* Neighbouring bins as one value each: the centre of their mass. At most hist_num_samples of them, in rising order. */
typedef struct points {
	double *value, *weight;
	int n;
} points;

static points represent(const qn_histogram *h, qn_arena *a)
{
	int bins = h->config->hist_num_bins, together = (bins - 1) / h->config->hist_num_samples + 1;
	points p = {QN_NEW(a, double, bins), QN_NEW(a, double, bins), 0};
	double width = qn_histogram_width(h);
	for (int i = 0; i < bins; i += together) {
		double mass = 0, sum = 0;
		for (int k = i; k < i + together && k < bins; k++) {
			mass += (double)h->count[k];
			sum += (double)h->count[k] * (k + 0.5) * width;
		}
		if (mass == 0)
			continue;
		p.value[p.n] = sum / mass;
		p.weight[p.n++] = mass;
	}
	return p;
}

static double squared_error(const points *p, double range, double levels, double *unused)
{
	(void)unused;
	double step = range / levels, error = 0;
	for (int i = 0; i < p->n; i++) {
		double code = nearbyint(p->value[i] / step), d = p->value[i] - step * (code > levels ? levels : code);
		error += p->weight[i] * d * d;
	}
	return error;
}

/* sum P log(P / Q): P is the clipped distribution with what was clipped in its last point, Q the same mass spread evenly over the points of
 * each code. */
static double divergence(const points *p, double range, double levels, double *code)
{
	double step = range / levels, total = 0, clipped = 0, result = 0;
	int n = 0;
	for (int i = 0; i < p->n; i++) {
		total += p->weight[i];
		if (p->value[i] > range) {
			clipped += p->weight[i];
			continue;
		}
		code[n++] = fmin(nearbyint(p->value[i] / step), levels);
	}
	if (!n)
		return INFINITY;
	for (int i = 0, end; i < n; i = end) {
		double mass = 0;
		for (end = i; end < n && code[end] == code[i]; end++)
			mass += p->weight[end];
		double q = mass / (end - i) / (total - clipped);
		for (int k = i; k < end; k++) {
			double w = (p->weight[k] + (k == n - 1 ? clipped : 0)) / total;
			result += w * log(w / q);
		}
	}
	return result;
}

static float search(
	const qn_histogram *h, float largest, int bits, qn_arena *scratch, double (*cost)(const points *, double, double, double *))
{
	const qn_calibration_config *c = h->config;
	points p = represent(h, scratch);
	double *work = QN_NEW(scratch, double, p.n + 1), least = INFINITY, levels = bits > 1 ? ldexp(1, bits - 1) - 1 : 1;
	float best = largest, last = -1;
	for (int i = 0; i < c->hist_num_search; i++) {
		double part = c->hist_num_search > 1 ? (double)i / (c->hist_num_search - 1) : 1;
		double percentile = c->hist_search_percentile_min + part * (c->hist_search_percentile_max - c->hist_search_percentile_min);
		float range = qn_histogram_quantile(h, percentile, largest);
		if (range == last || !(range > 0))
			continue;
		last = range;
		double now = cost(&p, (double)range, levels, work);
		if (now < least) {
			least = now;
			best = range;
		}
	}
	return best;
}

float qn_histogram_least_error(const qn_histogram *h, float largest, int bits, qn_arena *scratch)
{
	return search(h, largest, bits, scratch, squared_error);
}

float qn_histogram_least_divergence(const qn_histogram *h, float largest, int bits, qn_arena *scratch)
{
	return search(h, largest, bits, scratch, divergence);
}
