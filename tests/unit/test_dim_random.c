/* test_dim_random.c - random expressions against plain integer arithmetic on several assignments of the symbols. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/dim.h"

#include <math.h>
#include <stdlib.h>

enum { SYMBOLS = 4, ASSIGNMENTS = 12, POOL = 40, ROUNDS = 400 };
static const char *const names[SYMBOLS] = {"a", "b", "c", "d"};

typedef struct item {
	qn_dim dim;
	int64_t value[ASSIGNMENTS];
	bool valid[ASSIGNMENTS]; /* no division by zero on the way */
} item;

typedef struct world {
	qn_arena arena;
	qn_dims *t;
	uint64_t seed, state;
	int64_t assigned[ASSIGNMENTS][SYMBOLS];
	int current; /* assignment that value_of reads */
	item pool[POOL];
	int n;
} world;

static qn_ctx ctx;

static uint64_t draw(world *w, uint64_t below)
{
	w->state = w->state * 6364136223846793005u + 1442695040888963407u;
	return (w->state >> 33) % below;
}

#define CHECK(w, cond, ...)                                                                                                                \
	do {                                                                                                                               \
		if (!(cond)) {                                                                                                             \
			print_error("seed %llu: ", (unsigned long long)(w)->seed);                                                         \
			print_error(__VA_ARGS__);                                                                                          \
			print_error("\n");                                                                                                 \
			fail();                                                                                                            \
		}                                                                                                                          \
	} while (0)

static const char *text(world *w, qn_dim d)
{
	return qn_dim_text(&w->arena, d, NULL, NULL);
}

static int64_t value_of(void *user, const char *name)
{
	world *w = user;
	for (int i = 0; i < SYMBOLS; i++)
		if (strcmp(names[i], name) == 0)
			return w->assigned[w->current][i];
	fail();
	return 0;
}

/* The reference: what the operation means on numbers. */
static bool reference(int op, int64_t a, int64_t b, int64_t *out)
{
	switch (op) {
	case 0:
		*out = a + b;
		return true;
	case 1:
		*out = a - b;
		return true;
	case 2:
		*out = a * b;
		return true;
	case 3:
		*out = a < b ? a : b;
		return true;
	case 4:
		*out = a > b ? a : b;
		return true;
	default:
		break;
	}
	if (b == 0)
		return false;
	int64_t down = (int64_t)floor((double)a / (double)b); /* exact for numbers this small */
	*out = op == 5 ? down : op == 6 ? down + (down * b != a) : a - b * down;
	return true;
}

static qn_dim apply(world *w, int op, qn_dim a, qn_dim b)
{
	static qn_dim (*const ops[])(qn_dims *, qn_dim, qn_dim) = {
		qn_dim_add, qn_dim_sub, qn_dim_mul, qn_dim_min, qn_dim_max, qn_dim_floordiv, qn_dim_ceildiv, qn_dim_mod};
	return ops[op](w->t, a, b);
}

static void check_item(world *w, const item *x)
{
	int64_t low, high, v;
	bool has_low = qn_dim_lower(w->t, x->dim, &low), has_high = qn_dim_upper(w->t, x->dim, &high);
	for (int i = 0; i < ASSIGNMENTS; i++) {
		if (!x->valid[i])
			continue;
		w->current = i;
		CHECK(w, qn_dim_eval(x->dim, value_of, w, &v), "no value of %s", text(w, x->dim));
		CHECK(w, v == x->value[i], "%s is %lld, not %lld, at a=%lld b=%lld c=%lld d=%lld", text(w, x->dim), (long long)v,
			(long long)x->value[i], (long long)w->assigned[i][0], (long long)w->assigned[i][1], (long long)w->assigned[i][2],
			(long long)w->assigned[i][3]);
		CHECK(w, !has_low || low <= v, "%s: %lld below the bound %lld", text(w, x->dim), (long long)v, (long long)low);
		CHECK(w, !has_high || high >= v, "%s: %lld above the bound %lld", text(w, x->dim), (long long)v, (long long)high);
	}
}

static void check_pair(world *w, const item *x, const item *y)
{
	qn_tristate eq = qn_dim_eq(w->t, x->dim, y->dim), lt = qn_dim_lt(w->t, x->dim, y->dim), le = qn_dim_le(w->t, x->dim, y->dim);
	qn_dim q;
	bool exact = qn_dim_exact_div(w->t, x->dim, y->dim, &q);
	for (int i = 0; i < ASSIGNMENTS; i++) {
		if (!x->valid[i] || !y->valid[i])
			continue;
		int64_t a = x->value[i], b = y->value[i], v;
		CHECK(w, eq == QN_UNDECIDED || (eq == QN_TRUE) == (a == b), "%s == %s", text(w, x->dim), text(w, y->dim));
		CHECK(w, lt == QN_UNDECIDED || (lt == QN_TRUE) == (a < b), "%s < %s", text(w, x->dim), text(w, y->dim));
		CHECK(w, le == QN_UNDECIDED || (le == QN_TRUE) == (a <= b), "%s <= %s", text(w, x->dim), text(w, y->dim));
		w->current = i;
		if (exact)
			CHECK(w, qn_dim_eval(q, value_of, w, &v) && v * b == a, "%s / %s", text(w, x->dim), text(w, y->dim));
	}
}

static void start(world *w, uint64_t seed)
{
	*w = (world){.seed = seed, .state = seed * 77 + 1};
	qn_arena_init(&w->arena, &ctx);
	w->t = qn_dims_new(&w->arena);
	for (int i = 0; i < ASSIGNMENTS; i++)
		for (int s = 0; s < SYMBOLS; s++)
			w->assigned[i][s] = (int64_t)draw(w, i % 3 == 0 ? 4 : 30);
	for (; w->n < SYMBOLS + 4; w->n++) {
		item *x = &w->pool[w->n];
		int64_t k = (int64_t)draw(w, 14) - 5;
		x->dim = w->n < SYMBOLS ? qn_dim_symbol(w->t, names[w->n]) : qn_dim_const(k);
		for (int i = 0; i < ASSIGNMENTS; i++) {
			x->value[i] = w->n < SYMBOLS ? w->assigned[i][w->n] : k;
			x->valid[i] = true;
		}
	}
}

/* A further expression of the pool; numbers are kept small, so that neither side overflows. */
static void extend(world *w)
{
	item *x = &w->pool[w->n];
	const item *a = &w->pool[draw(w, (uint64_t)w->n)], *b = &w->pool[draw(w, (uint64_t)w->n)];
	int op = (int)draw(w, 8);
	for (int i = 0; i < ASSIGNMENTS; i++) {
		x->valid[i] = a->valid[i] && b->valid[i] && reference(op, a->value[i], b->value[i], &x->value[i]);
		if (x->valid[i] && llabs(x->value[i]) > 100000)
			return;
	}
	x->dim = apply(w, op, a->dim, b->dim);
	if (qn_dim_is(x->dim, INT64_MAX))
		return;
	if (op >= 5 && qn_dim_is(b->dim, 0))
		return;
	check_item(w, x);
	qn_dim again = apply(w, op, a->dim, b->dim);
	CHECK(w, qn_dim_equal(again, x->dim), "%s is not interned: %s, by %d from %s and %s", text(w, again), text(w, x->dim), op,
		text(w, a->dim), text(w, b->dim));
	if (op == 0 || (op >= 2 && op <= 4)) {
		again = apply(w, op, b->dim, a->dim);
		CHECK(w, qn_dim_equal(again, x->dim), "%s is not %s with operands exchanged", text(w, again), text(w, x->dim));
	}
	w->n++;
}

static void test_operators(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		static world w;
		start(&w, seed);
		for (int i = 0; i < 3 * POOL && w.n < POOL; i++)
			extend(&w);
		for (int i = 0; i < 2 * POOL; i++)
			check_pair(&w, &w.pool[draw(&w, (uint64_t)w.n)], &w.pool[draw(&w, (uint64_t)w.n)]);
		qn_arena_release(&w.arena);
	}
}

/* Lets the symbols that are bound take the values that follow from the free ones; false where that is not possible. */
static bool follow_bindings(world *w, int i)
{
	for (int s = 0; s < SYMBOLS; s++) {
		qn_dim now = qn_dim_symbol(w->t, names[s]);
		int64_t v;
		w->current = i;
		if (!qn_dim_eval(now, value_of, w, &v) || v < 0 || v > 1000)
			return false;
		w->assigned[i][s] = v;
	}
	return true;
}

static void note_new(void *user, const char *name)
{
	bool known = false;
	for (int i = 0; i < SYMBOLS; i++)
		known |= strcmp(names[i], name) == 0;
	*(bool *)user |= !known;
}

/* What holds for some assignments only: a minimum taken as its operand, a symbol taken as a multiple of a new one. */
static bool has_assumptions(world *w)
{
	bool found = qn_dims_assumption(w->t, &w->arena, 0) != NULL;
	for (int i = 0; i < SYMBOLS; i++)
		qn_dim_each_symbol(qn_dim_resolve(w->t, qn_dim_symbol(w->t, names[i])), note_new, &found);
	return found;
}

static void test_bindings(void **state)
{
	(void)state;
	int bound = 0, compared = 0;
	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		static world w;
		start(&w, seed);
		for (int i = 0; i < POOL && w.n < POOL / 2; i++)
			extend(&w);
		for (int i = 0; i < 6; i++) {
			qn_dim a = w.pool[draw(&w, (uint64_t)w.n)].dim, b = w.pool[draw(&w, (uint64_t)w.n)].dim;
			unsigned before = qn_dims_generation(w.t);
			if (!qn_dim_equate(w.t, a, b))
				continue;
			qn_dim x = qn_dim_resolve(w.t, a), y = qn_dim_resolve(w.t, b);
			CHECK(&w, qn_dim_eq(w.t, x, y) == QN_TRUE, "%s == %s left %s and %s", text(&w, a), text(&w, b), text(&w, x),
				text(&w, y));
			bound += qn_dims_generation(w.t) != before;
		}
		bool assumed = has_assumptions(&w);
		for (int i = 0; i < ASSIGNMENTS && !assumed; i++) {
			if (!follow_bindings(&w, i))
				continue;
			for (int j = 0; j < w.n; j++) {
				int64_t old, now;
				qn_dim d = qn_dim_resolve(w.t, w.pool[j].dim);
				CHECK(&w, qn_dim_equal(d, qn_dim_resolve(w.t, d)), "%s resolves further", text(&w, d));
				if (!qn_dim_eval(w.pool[j].dim, value_of, &w, &old) || qn_dim_is(d, INT64_MAX))
					continue;
				CHECK(&w, qn_dim_eval(d, value_of, &w, &now) && old == now, "%s became %s: %lld, not %lld",
					text(&w, w.pool[j].dim), text(&w, d), (long long)now, (long long)old);
				compared++;
			}
		}
		qn_arena_release(&w.arena);
	}
	assert_true(bound > ROUNDS && compared > ROUNDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_operators), cmocka_unit_test(test_bindings)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
