/* test_tune.c - the choice of activations against all choices there are, and what modelled errors it adds up. */
#include "passes/tune/tuner.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { UNITS = 10 };

static qn_ctx ctx;
static qn_arena arena;
static qn_tuner t;
static qn_unit units[UNITS];
static quern_tune_options options;

static unsigned draw(unsigned *state) { return (*state = *state * 1103515245u + 12345u) >> 16; }

/* Units of few sizes, as layers are, with any errors; every fifth has no int8 weight. */
static void make(unsigned seed)
{
	options = (quern_tune_options){.activations = true, .act_share = 1};
	t = (qn_tuner){.ctx = &ctx, .a = &arena, .units = units, .n = UNITS, .options = &options};
	for (int i = 0; i < UNITS; i++) {
		bool integers = i % 5 != 4;
		units[i] = (qn_unit){.candidates = {{integers ? 8 : 4, integers ? QN_FORM_I8 : QN_FORM_Q4_0, 100, true, {0.5, 0}}},
			.n_candidates = 1,
			.act_open = true,
			.products = 100u * (1 + draw(&seed) % 3),
			.act = {.bits = 8, .error = {(double)(draw(&seed) % 1000) / 1000, 0}}};
	}
}

static uint64_t cost(const bool *narrow, double *error)
{
	uint64_t sum = 0;
	*error = 0;
	for (int i = 0; i < UNITS; i++) {
		if (units[i].candidates[0].form != QN_FORM_I8)
			continue;
		sum += units[i].products * (narrow[i] ? 1 : 2);
		*error += narrow[i] ? units[i].act.error.cosine : 0;
	}
	return sum;
}

static uint64_t fewest(double limit)
{
	uint64_t best = UINT64_MAX;
	for (unsigned set = 0; set < 1u << UNITS; set++) {
		bool narrow[UNITS];
		double error;
		for (int i = 0; i < UNITS; i++)
			narrow[i] = set >> i & 1;
		uint64_t sum = cost(narrow, &error);
		if (error <= limit && sum < best)
			best = sum;
	}
	return best;
}

static void fewest_products(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 20; seed++) {
		qn_arena_init(&arena, &ctx);
		make(seed);
		qn_solution s;
		qn_solve(&t, &s);
		const double limits[] = {0, 0.3, 1.1, 2.5, 100};
		for (size_t k = 0; k < QN_LEN(limits); k++) {
			bool narrow[UNITS];
			double error;
			qn_solution_choose(&t, &s, 0, limits[k]);
			for (int i = 0; i < UNITS; i++) {
				narrow[i] = units[i].act_bits == 8;
				assert_true(narrow[i] || units[i].act_bits == 16);
				assert_false(narrow[i] && units[i].candidates[0].form != QN_FORM_I8);
			}
			assert_int_equal(cost(narrow, &error), fewest(limits[k]));
			assert_true(error <= limits[k] && fabs(error - qn_solution_act_error(&s)) < 1e-9);
			assert_true(fabs(qn_solution_error(&s) - error - 0.5 * UNITS) < 1e-9);
		}
		qn_arena_release(&arena);
	}
}

/* Without the option nothing is chosen, and a negative limit allows what has no error. */
static void limits_of_it(void **state)
{
	(void)state;
	qn_arena_init(&arena, &ctx);
	make(3);
	qn_solution s;
	qn_solve(&t, &s);
	qn_solution_choose(&t, &s, 0, -1);
	assert_true(qn_solution_act_error(&s) <= 0);
	options.activations = false;
	qn_solve(&t, &s);
	qn_solution_choose(&t, &s, 0, 100);
	assert_int_equal(s.acts.n, 0);
	assert_false(qn_unit_tunes_act(&t, &units[0]));
	qn_arena_release(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(fewest_products), cmocka_unit_test(limits_of_it)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
