/* test_knapsack.c - the frontier and the hull against every combination, on random groups with ties. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "passes/tune/knapsack.h"

#include <math.h>

enum { GROUPS = 7, MOST = 4, ROUNDS = 200, BUDGETS = 60 };

static qn_ctx ctx;
static uint64_t state = 0x9e3779b97f4a7c15u;

static int below(int n)
{
	state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
	return (int)((state * 2685821657736338717u >> 33) % (uint64_t)n);
}

/* Few distinct bytes and errors in eighths: sums are exact and often equal. */
static size_t random_groups(qn_arena *a, qn_choices *g)
{
	size_t n = (size_t)(1 + below(GROUPS));
	for (size_t i = 0; i < n; i++) {
		g[i].n = 1 + below(MOST);
		qn_choice *c = QN_NEW(a, qn_choice, g[i].n);
		for (int k = 0; k < g[i].n; k++)
			c[k] = (qn_choice){(uint64_t)below(12), below(40) / 8.0};
		g[i].choice = c;
	}
	return n;
}

/* The least error within a budget, by trying all. */
static double brute(const qn_choices *g, size_t n, uint64_t budget)
{
	int at[GROUPS] = {0};
	double best = INFINITY;
	for (;;) {
		uint64_t bytes = 0;
		double error = 0;
		for (size_t i = 0; i < n; i++)
			bytes += g[i].choice[at[i]].bytes, error += g[i].choice[at[i]].error;
		if (bytes <= budget && error < best)
			best = error;
		size_t i = 0;
		while (i < n && ++at[i] == g[i].n)
			at[i++] = 0;
		if (i == n)
			return best;
	}
}

static void frontier_is_optimal_for_every_budget(void **unused)
{
	(void)unused;
	for (int round = 0; round < ROUNDS; round++) {
		qn_arena a;
		qn_arena_init(&a, &ctx);
		qn_choices g[GROUPS];
		size_t n = random_groups(&a, g);
		qn_frontier f;
		qn_frontier_make(&a, g, n, 1 << 20, &f);
		assert_true(f.exact);
		for (uint64_t budget = 0; budget < BUDGETS; budget++) {
			double best = brute(g, n, budget);
			size_t at = qn_frontier_within_bytes(&f, budget);
			if (isinf(best)) {
				assert_true(at == f.n);
				continue;
			}
			assert_true(f.points[at].error == best);
			assert_true(qn_frontier_within_error(&f, best) == at);
			int choice[GROUPS];
			uint64_t bytes = 0;
			double error = 0;
			qn_frontier_choices(&f, at, choice);
			for (size_t i = 0; i < n; i++)
				bytes += g[i].choice[choice[i]].bytes, error += g[i].choice[choice[i]].error;
			assert_true(bytes == f.points[at].bytes && error == best);
		}
		qn_arena_release(&a);
	}
}

static void hull_is_optimal_and_bounds_the_rest(void **unused)
{
	(void)unused;
	for (int round = 0; round < ROUNDS; round++) {
		qn_arena a;
		qn_arena_init(&a, &ctx);
		qn_choices g[GROUPS];
		size_t n = random_groups(&a, g);
		int choice[GROUPS];
		qn_hull_point *h;
		size_t count = qn_hull_make(&a, g, n, choice, &h);
		for (size_t p = 0; p < count; p++) {
			if (p)
				choice[h[p].group] = h[p].choice;
			uint64_t bytes = 0;
			double error = 0;
			for (size_t i = 0; i < n; i++)
				bytes += g[i].choice[choice[i]].bytes, error += g[i].choice[choice[i]].error;
			assert_true(bytes == h[p].bytes && fabs(error - h[p].error) < 1e-12);
			assert_true(fabs(brute(g, n, bytes) - error) < 1e-12);
		}
		for (uint64_t budget = 0; budget < BUDGETS; budget++)
			assert_true(qn_hull_bound(h, count, budget) <= brute(g, n, budget) + 1e-12);
		qn_arena_release(&a);
	}
}

/* Left-out points cost something, and the bound says how much at most. */
static void a_thinned_frontier_says_so(void **unused)
{
	(void)unused;
	enum { N = 60, KEPT = 64 };
	qn_arena a;
	qn_arena_init(&a, &ctx);
	qn_choices g[N];
	int first[N];
	for (int i = 0; i < N; i++) {
		qn_choice *c = QN_NEW(&a, qn_choice, 3);
		uint64_t size = 1000 + (uint64_t)below(5000);
		double e = 1 + below(1000);
		c[0] = (qn_choice){size * 4, e}, c[1] = (qn_choice){size * 8, e / 200}, c[2] = (qn_choice){size * 16, 0};
		g[i] = (qn_choices){c, 3};
	}
	qn_frontier f;
	qn_frontier_make(&a, g, N, KEPT, &f);
	assert_true(!f.exact && f.n <= KEPT);
	qn_hull_point *h;
	size_t count = qn_hull_make(&a, g, N, first, &h);
	for (size_t i = 0; i < f.n; i++)
		assert_true(f.points[i].error >= qn_hull_bound(h, count, f.points[i].bytes) - 1e-9);
	assert_true(f.points[0].bytes == h[0].bytes && f.points[f.n - 1].bytes <= h[count - 1].bytes);
	qn_arena_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frontier_is_optimal_for_every_budget),
		cmocka_unit_test(hull_is_optimal_and_bounds_the_rest),
		cmocka_unit_test(a_thinned_frontier_says_so),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
