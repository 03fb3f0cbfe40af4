/* test_tails.c - ranges of channels that are divided by factors, from what is kept of a tensor, against those of all quotients. */
#include "tests/unit/observe_fixture.h"

#include "passes/stats.h"

#include <math.h>

enum { CHANNELS = 19, FACTORS_ROWS = 3000 };

typedef struct channels {
	float *x, *quotients; /* [FACTORS_ROWS, CHANNELS] */
	float by[CHANNELS];
	qn_stats s;
	qn_tails *t;
} channels;

/* Channels of different sizes, seen in `parts` samples, the whole `times` times. */
static channels see_channels(bool asymmetric, int rows, int parts, int times)
{
	channels c = {QN_NEW(&arena, float, rows *CHANNELS), QN_NEW(&arena, float, rows *CHANNELS), .t = qn_tails_new(CHANNELS, asymmetric, &arena)};
	for (int k = 0; k < CHANNELS; k++)
		c.by[k] = (float)draw(1, 100) * 0.1f;
	for (int i = 0; i < rows * CHANNELS; i++) {
		c.x[i] = (float)draw(-100000, 100000) * 1e-5f * (draw(0, 40) ? 1 : 7) * (float)(1 + i % CHANNELS);
		c.quotients[i] = c.x[i] / c.by[i % CHANNELS];
	}
	c.s = (qn_stats){.channels = CHANNELS,
		.rows = QN_NEW(&arena, float, QN_STATS_ROWS *CHANNELS),
		.row_hash = QN_NEW(&arena, uint64_t, QN_STATS_ROWS),
		.row_half = QN_NEW(&arena, uint8_t, QN_STATS_ROWS)};
	for (int i = 0; i < parts * times; i++) {
		float *part = c.x + (i % parts) * (rows / parts) * CHANNELS;
		qn_tails_add(c.t, part, rows / parts);
		qn_stats_keep_rows(&c.s, part, rows / parts, 0);
	}
	qn_stats_sort_rows(&c.s, &arena);
	return c;
}

/* What is estimated from tails and rows, over what is estimated from all quotients, of the end that is further off. */
static float over_exact(const qn_calibration_config *k, const channels *c, int rows, int parts, int times)
{
	qn_ranges *all = qn_ranges_new(k, &arena), *some = qn_ranges_new(k, &arena);
	for (int i = 0; i < parts * times; i++)
		qn_ranges_add(all, c->quotients + (i % parts) * (rows / parts) * CHANNELS, rows / parts * CHANNELS, &arena);
	qn_summary end[2];
	for (int e = 0; e < c->t->n_ends; e++)
		end[e] = qn_tails_summary(c->t, e, c->by, c->s.rows, c->s.n_rows, (int64_t)rows * times * CHANNELS, &arena);
	qn_ranges_add_summary(some, end, (size_t)(parts * times), &arena);
	float low[2], high[2];
	qn_ranges_get(all, 8, -1, &arena, &low[0], &high[0]);
	qn_ranges_get(some, 8, -1, &arena, &low[1], &high[1]);
	assert_true(some->most_high == all->most_high && some->most_low == all->most_low);
	float a = low[1] / low[0], b = high[1] / high[0];
	return fabsf(a - 1) > fabsf(b - 1) ? a : b;
}

/* Where all rows are kept nothing is estimated. */
static void factors_of_kept_rows(void **state)
{
	(void)state;
	qn_calibration_config k = defaults();
	for (k.method = 1; k.method < 4; k.method += 2)
		for (k.mode = QN_CALIB_PERCENTILE; k.mode <= QN_CALIB_HISTOGRAM; k.mode++)
			for (k.percentile = 0.2; k.percentile < 1; k.percentile += 0.1) {
				k.hist_percentile = k.percentile;
				channels c = see_channels(k.method == 3, 400, 1, 1);
				assert_true(over_exact(&k, &c, 400, 1, 1) == 1);
			}
}

/* The largest are exact, however many rows there were, and counted as often as they came. */
static void factors_of_tails(void **state)
{
	(void)state;
	qn_calibration_config k = defaults();
	for (k.method = 1; k.method < 4; k.method += 2)
		for (int times = 1; times < 40; times += 19) {
			channels c = see_channels(k.method == 3, FACTORS_ROWS, 100, times);
			assert_int_equal(c.s.n_rows, QN_STATS_ROWS);
			k.mode = QN_CALIB_HISTOGRAM;
			k.hist_percentile = 0.9999;
			float off = over_exact(&k, &c, FACTORS_ROWS, 100, times);
			assert_true(off > 0.999f && off < 1.001f);
			k.mode = QN_CALIB_PERCENTILE;
			off = over_exact(&k, &c, FACTORS_ROWS, 100, times);
			assert_true(off > 0.97f && off < 1.03f);
		}
}

/* The others are as many rows tell. */
static void factors_of_rows(void **state)
{
	(void)state;
	qn_calibration_config k = defaults();
	k.method = 1;
	k.mode = QN_CALIB_HISTOGRAM;
	channels c = see_channels(false, FACTORS_ROWS, 10, 1);
	for (k.hist_percentile = 0.5; k.hist_percentile < 0.99; k.hist_percentile += 0.1) {
		float off = over_exact(&k, &c, FACTORS_ROWS, 10, 1);
		assert_true(off > 0.95f && off < 1.05f && off != 1);
	}
}

/* Channels that hold 0 only, or that one row was seen of, have no tail or a short one. */
static void factors_without_values(void **state)
{
	(void)state;
	float zeros[8] = {0}, by[] = {1, 2, 3, 4}, one[] = {0, -2, 3, 0};
	qn_calibration_config k = defaults();
	for (k.method = 1; k.method < 4; k.method += 2)
		for (k.mode = QN_CALIB_MAX; k.mode <= QN_CALIB_HISTOGRAM; k.mode++)
			for (int some = 0; some < 2; some++) {
				qn_tails *t = qn_tails_new(4, k.method == 3, &arena);
				qn_tails_add(t, some ? one : zeros, some ? 1 : 2);
				qn_summary end[2];
				for (int e = 0; e < t->n_ends; e++)
					end[e] = qn_tails_summary(t, e, by, some ? one : zeros, some ? 1 : 2, some ? 4 : 8, &arena);
				qn_ranges *r = qn_ranges_new(&k, &arena);
				qn_ranges_add_summary(r, end, 1, &arena);
				float low, high;
				qn_ranges_get(r, 16, -1, &arena, &low, &high);
				assert_true(some ? high == 1 && low == -1 : high == 0 && low == 0);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(factors_of_kept_rows, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(factors_of_tails, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(factors_of_rows, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(factors_without_values, op_setup, op_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
