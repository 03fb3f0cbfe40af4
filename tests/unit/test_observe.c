/* test_observe.c - range estimators against plain computations over all values; nothing depends on the order of samples. */
#include "tests/unit/observe_fixture.h"

#include "passes/observe/observe.h"
#include "passes/scales.h"
#include "passes/stats.h"

#include <math.h>

enum { SAMPLES = 9, LONGEST = 700 };

/* Samples of different lengths, with a few large values. */
static float *sample(int i, int64_t *n)
{
	*n = 50 + 70 * i;
	float *v = QN_NEW(&arena, float, *n);
	for (int64_t k = 0; k < *n; k++)
		v[k] = (float)draw(-100000, 100000) * 1e-5f * (draw(0, 40) ? 1 : 7);
	return v;
}

typedef struct data {
	float *v[SAMPLES];
	int64_t n[SAMPLES];
} data;

static data draw_samples(void)
{
	data d;
	for (int i = 0; i < SAMPLES; i++)
		d.v[i] = sample(i, &d.n[i]);
	return d;
}

static qn_ranges *observed(const qn_calibration_config *c, const data *d, const int *order)
{
	qn_ranges *r = qn_ranges_new(c, &arena);
	for (int i = 0; i < SAMPLES; i++) {
		qn_arena scratch;
		qn_arena_init(&scratch, &ctx);
		qn_ranges_add(r, d->v[order[i]], d->n[order[i]], &scratch);
		qn_arena_release(&scratch);
	}
	return r;
}

static const int forward[SAMPLES] = {0, 1, 2, 3, 4, 5, 6, 7, 8}, shuffled[SAMPLES] = {8, 3, 0, 5, 7, 1, 6, 2, 4};

static int rising(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return x < y ? -1 : x > y;
}

/* All magnitudes, sorted. */
static float *all_sorted(const data *d, int64_t *n)
{
	float *all = QN_NEW(&arena, float, SAMPLES *LONGEST);
	*n = 0;
	for (int i = 0; i < SAMPLES; i++)
		for (int64_t k = 0; k < d->n[i]; k++)
			all[(*n)++] = fabsf(d->v[i][k]);
	qsort(all, (size_t)*n, sizeof *all, rising);
	return all;
}

static float range_of(const qn_ranges *r, int bits)
{
	float low, high;
	qn_ranges_get(r, bits, -1, &arena, &low, &high);
	assert_true(low == -high || r->low);
	return high;
}

static void maximum(void **state)
{
	(void)state;
	qn_calibration_config c = defaults();
	data d = draw_samples();
	int64_t n;
	float *all = all_sorted(&d, &n);
	c.mode = QN_CALIB_MAX;
	c.method = 0;
	assert_true(range_of(observed(&c, &d, forward), 8) == all[n - 1]);
	/* the maximum rules at 16 bits */
	for (int mode = 0; mode < 3; mode++) {
		c.mode = mode;
		c.percentile = c.hist_percentile = 0.5;
		assert_true(range_of(observed(&c, &d, forward), 16) == all[n - 1]);
		assert_true(mode == QN_CALIB_MAX || range_of(observed(&c, &d, forward), 8) < all[n - 1]);
	}
}

static void percentile_of_pool(void **state)
{
	(void)state;
	qn_calibration_config c = defaults();
	data d = draw_samples();
	/* everything goes to the pool: the quantile of all values */
	c.topk_ratio = 1;
	c.max_each = 100000;
	int64_t n;
	float *all = all_sorted(&d, &n);
	static const double at[] = {0, 0.25, 0.999, 1};
	for (size_t i = 0; i < QN_LEN(at); i++) {
		c.percentile = at[i];
		double place = at[i] * (double)(n - 1), below = floor(place);
		double want =
			(double)all[(int64_t)below] + (place - below) * ((double)all[(int64_t)ceil(place)] - (double)all[(int64_t)below]);
		assert_true(fabs((double)range_of(observed(&c, &d, forward), 8) - want) <= 1e-6 * want);
	}
	/* a small pool keeps the largest */
	c.max_total = 5;
	c.percentile = 0;
	assert_true(range_of(observed(&c, &d, forward), 8) == all[n - 5]);
	/* nothing goes to the pool: the maximum */
	c.max_each = 0;
	assert_true(range_of(observed(&c, &d, forward), 8) == all[n - 1]);
}

static void strided_from_the_largest(void **state)
{
	(void)state;
	qn_calibration_config c = defaults();
	float v[100];
	for (int i = 0; i < 100; i++)
		v[i] = (float)(i * 37 % 100) + 1; /* 1..100 */
	c.topk_ratio = 0.0999;                    /* the 10 largest, of which 5: 100 98 96 94 92 */
	c.max_each = 5;
	static const float want[] = {92, 94, 96, 98, 100};
	for (int i = 0; i < 5; i++) {
		c.percentile = i / 4.0;
		qn_ranges *r = qn_ranges_new(&c, &arena);
		qn_ranges_add(r, v, 100, &arena);
		assert_true(range_of(r, 8) == want[i]);
	}
}

static void largest_values(void **state)
{
	(void)state;
	for (int round = 0; round < 40; round++) {
		int64_t n = draw(1, round % 4 ? 300 : 5000), k = draw(0, 310);
		float *v = QN_NEW(&arena, float, n), *out = QN_NEW(&arena, float, k + 1), *sorted = QN_NEW(&arena, float, n);
		for (int64_t i = 0; i < n; i++)
			v[i] = sorted[i] = round % 2 ? (float)draw(0, 5) : (float)draw(0, 1000000) * 1e-3f;
		qsort(sorted, (size_t)n, sizeof *sorted, rising);
		qn_largest(v, n, k, out, &arena);
		for (int64_t i = 0; i < k && i < n; i++)
			assert_true(out[i] == sorted[n - 1 - i]);
	}
}

static void histogram_quantile(void **state)
{
	(void)state;
	qn_calibration_config c = defaults();
	data d = draw_samples();
	int64_t n;
	float *all = all_sorted(&d, &n);
	c.mode = QN_CALIB_HISTOGRAM;
	static const double at[] = {0.1, 0.5, 0.99, 1};
	for (size_t i = 0; i < QN_LEN(at); i++) {
		c.hist_percentile = at[i];
		float got = range_of(observed(&c, &d, forward), 8), want = all[(int64_t)ceil(at[i] * (double)n) - 1];
		qn_ranges *r = observed(&c, &d, forward);
		assert_true(fabsf(got - want) <= (float)qn_histogram_width(r->high));
		assert_true(got <= all[n - 1]);
	}
	/* bins that merged are the bins of the wider width */
	float v[] = {0.00005f, 0.00015f, 0.0102f, 100};
	c.hist_num_bins = 16;
	qn_ranges *r = qn_ranges_new(&c, &arena);
	for (size_t i = 0; i < QN_LEN(v); i++)
		qn_ranges_add(r, v + i, 1, &arena);
	qn_ranges *back = qn_ranges_new(&c, &arena);
	for (size_t i = QN_LEN(v); i-- > 0;)
		qn_ranges_add(back, v + i, 1, &arena);
	const qn_histogram *h = r->high, *g = back->high;
	assert_int_equal(h->doublings, g->doublings);
	assert_memory_equal(h->count, g->count, 16 * sizeof *h->count);
	assert_true(100 < 16 * qn_histogram_width(h) && 100 >= 8 * qn_histogram_width(h));
}

/* Searched ranges lie within their percentiles; squared error clips less as bits grow. */
static void histogram_search(void **state)
{
	(void)state;
	qn_calibration_config c = defaults();
	c.mode = QN_CALIB_HISTOGRAM;
	c.hist_search_percentile_min = 0.9;
	c.hist_search_percentile_max = 1;
	qn_ranges *r = qn_ranges_new(&c, &arena);
	float *v = QN_NEW(&arena, float, 20000);
	for (int i = 0; i < 20000; i++) { /* a bell with a long tail */
		double s = 0;
		for (int k = 0; k < 12; k++)
			s += (double)draw(0, 1000) / 1000;
		v[i] = (float)(s - 6) * (i % 2000 ? 1 : 12);
	}
	qn_ranges_add(r, v, 20000, &arena);
	for (int type = 1; type <= 2; type++) {
		c.hist_search_type = type;
		float narrow = range_of(r, 3), wide = range_of(r, 8);
		assert_true(narrow > 0 && wide <= r->most_high);
		assert_true(narrow < wide);
	}
	c.hist_search_type = 1;
	int points = c.hist_num_samples;
	c.hist_num_samples = INT32_MAX; /* as many as there are bins */
	float finest = range_of(r, 4);
	c.hist_num_samples = c.hist_num_bins;
	assert_true(range_of(r, 4) == finest);
	c.hist_num_samples = points;
	float best = range_of(r, 4);
	/* no range on a grid does better by more than the grain of the histogram */
	double least = INFINITY, got = 0;
	for (int pass = 0; pass <= 60; pass++) {
		double range = pass ? 1 + pass * 0.25 : (double)best, step = range / 7, error = 0;
		for (int i = 0; i < 20000; i++) {
			double m = fabs((double)v[i]), code = fmin(nearbyint(m / step), 7);
			error += (m - code * step) * (m - code * step);
		}
		if (!pass)
			got = error;
		least = fmin(least, error);
	}
	assert_true(got <= least * 1.05);
}

static void order_does_not_matter(void **state)
{
	(void)state;
	qn_calibration_config c = defaults();
	data d = draw_samples();
	c.max_total = 40;
	for (int mode = 0; mode < 3; mode++)
		for (int type = 0; type < 3; type++)
			for (int method = 0; method < 3; method += 2) {
				c.mode = mode;
				c.hist_search_type = type;
				c.method = method;
				float low[2], high[2];
				qn_ranges_get(observed(&c, &d, forward), 8, -1, &arena, &low[0], &high[0]);
				qn_ranges_get(observed(&c, &d, shuffled), 8, -1, &arena, &low[1], &high[1]);
				assert_true(low[0] == low[1] && high[0] == high[1]);
			}
}

static void ends_and_clip_ratio(void **state)
{
	(void)state;
	qn_calibration_config c = defaults();
	float v[] = {-1, 0.5f, 3, 2, -0.25f}, low, high;
	c.mode = QN_CALIB_MAX;
	c.method = 2;
	qn_ranges *r = qn_ranges_new(&c, &arena);
	qn_ranges_add(r, v, 5, &arena);
	qn_ranges_get(r, 8, -1, &arena, &low, &high);
	assert_true(low == -1 && high == 3);
	float positive[] = {2, 4};
	r = qn_ranges_new(&c, &arena);
	qn_ranges_add(r, positive, 2, &arena);
	qn_ranges_get(r, 8, -1, &arena, &low, &high);
	assert_true(low == 0 && high == 4);
	c.method = 0;
	c.mode = QN_CALIB_PERCENTILE;
	c.percentile = 0;
	c.topk_ratio = 1;
	r = qn_ranges_new(&c, &arena);
	qn_ranges_add(r, v, 5, &arena);
	qn_ranges_get(r, 8, -1, &arena, &low, &high);
	assert_true(high == 0.25f);
	qn_ranges_get(r, 8, 0.5f, &arena, &low, &high);
	assert_true(high == 1.5f && low == -1.5f);
}

static void codes(void **state)
{
	(void)state;
	qn_act_codes c = qn_act_codes_for(8, false, -2.54f, 2.54f, 0);
	assert_true(fabsf(c.scale - 0.02f) < 1e-8f && !c.zero_point && c.most == 127);
	c = qn_act_codes_for(8, true, -1, 4.1f, 0);
	assert_true(fabsf(c.scale - 0.02f) < 1e-8f && c.zero_point == -78);
	c = qn_act_codes_for(16, false, -3.2639f, 1, 0);
	assert_true(fabsf(c.scale - 1e-4f) < 1e-9f && c.most == 32639);
	assert_true(qn_act_codes_for(8, false, -1, 1, 0.5f).scale == 0.5f);
	for (int bits = 1; bits <= 16; bits++)
		for (int asymmetric = 0; asymmetric < 2; asymmetric++) {
			float low = -(float)draw(0, 1000) * 1e-2f, high = (float)draw(0, 1000) * 1e-2f;
			c = qn_act_codes_for(bits, asymmetric, low, high, 0);
			assert_true(c.scale > 0 && c.zero_point >= c.least && c.zero_point <= c.most);
			float bottom = (float)(c.least - c.zero_point) * c.scale, top = (float)(c.most - c.zero_point) * c.scale;
			assert_true(bottom <= low + c.scale * 0.51f && top >= high - c.scale * 0.51f);
			assert_true(qn_act_codes_for(bits, asymmetric, 0, 0, 0).scale > 0);
		}
}

static void kept_rows(void **state)
{
	(void)state;
	enum { ROWS = 2000, WIDTH = 5 };
	float *x = QN_NEW(&arena, float, ROWS *WIDTH);
	for (int i = 0; i < ROWS * WIDTH; i++)
		x[i] = (float)draw(0, 50);
	qn_stats s[2];
	for (int turn = 0; turn < 2; turn++) {
		s[turn] = (qn_stats){.channels = WIDTH,
			.rows = QN_NEW(&arena, float, QN_STATS_ROWS *WIDTH),
			.row_hash = QN_NEW(&arena, uint64_t, QN_STATS_ROWS),
			.row_half = QN_NEW(&arena, uint8_t, QN_STATS_ROWS)};
		for (int part = 0; part < 10; part++)
			qn_stats_keep_rows(&s[turn], x + (turn ? 9 - part : part) * (ROWS / 10) * WIDTH, ROWS / 10, 0);
		qn_stats_keep_rows(&s[turn], x, ROWS / 2, 0); /* seen again: each row is kept once */
		qn_stats_sort_rows(&s[turn], &arena);
	}
	assert_int_equal(s[0].n_rows, QN_STATS_ROWS);
	assert_int_equal(s[1].n_rows, QN_STATS_ROWS);
	assert_memory_equal(s[0].row_hash, s[1].row_hash, QN_STATS_ROWS * sizeof *s[0].row_hash);
	assert_memory_equal(s[0].rows, s[1].rows, QN_STATS_ROWS * WIDTH * sizeof *s[0].rows);
	for (int64_t i = 1; i < s[0].n_rows; i++)
		assert_true(s[0].row_hash[i] > s[0].row_hash[i - 1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(maximum, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(percentile_of_pool, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(strided_from_the_largest, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(largest_values, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(histogram_quantile, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(histogram_search, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(order_does_not_matter, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(ends_and_clip_ratio, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(codes, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(kept_rows, op_setup, op_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
