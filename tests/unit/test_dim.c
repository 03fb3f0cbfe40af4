/* test_dim.c - symbolic dimensions: normal form, order, bindings, text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/dim.h"

static qn_ctx ctx;
static qn_arena arena;
static qn_dims *t;

static int setup(void **state)
{
	(void)state;
	qn_arena_init(&arena, &ctx);
	t = qn_dims_new(&arena);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	qn_arena_release(&arena);
	return 0;
}

static qn_dim num(int64_t k)
{
	return qn_dim_const(k);
}
static qn_dim sym(const char *s)
{
	return qn_dim_symbol(t, s);
}
static qn_dim add(qn_dim a, qn_dim b)
{
	return qn_dim_add(t, a, b);
}
static qn_dim sub(qn_dim a, qn_dim b)
{
	return qn_dim_sub(t, a, b);
}
static qn_dim mul(qn_dim a, qn_dim b)
{
	return qn_dim_mul(t, a, b);
}
static qn_dim quo(qn_dim a, qn_dim b)
{
	return qn_dim_floordiv(t, a, b);
}
static qn_dim smaller(qn_dim a, qn_dim b)
{
	return qn_dim_min(t, a, b);
}
static qn_dim larger(qn_dim a, qn_dim b)
{
	return qn_dim_max(t, a, b);
}
static const char *text(qn_dim d)
{
	return qn_dim_text(&arena, d, NULL, NULL);
}
#define assert_dim(d, s) assert_string_equal(text(d), (s))
#define assert_same(a, b) assert_string_equal(text(a), text(b)), assert_true(qn_dim_equal((a), (b)))

static void test_sums(void **state)
{
	(void)state;
	qn_dim b = sym("batch"), s = sym("seq"), p = sym("past");
	assert_same(sym("batch"), b);
	assert_dim(add(s, b), "batch + seq");
	assert_same(add(s, b), add(b, s));
	assert_dim(sub(add(s, b), s), "batch");
	assert_dim(sub(s, s), "0");
	assert_true(qn_dim_is_const(sub(s, s)));
	assert_dim(mul(add(s, p), b), "batch*seq + batch*past");
	assert_same(mul(add(s, p), add(s, p)), add(mul(s, s), add(mul(num(2), mul(s, p)), mul(p, p))));
	assert_dim(mul(s, num(0)), "0");
	assert_dim(sub(mul(num(2), s), num(1)), "2*seq - 1");
	assert_dim(sub(num(4), s), "4 - seq");
	assert_dim(sub(num(-4), s), "-seq - 4");
	assert_dim(sub(p, s), "past - seq");
	assert_dim(num(-7), "-7");
}

static void test_quotients(void **state)
{
	(void)state;
	qn_dim b = sym("B"), s = sym("S"), n = sym("N");
	assert_dim(quo(mul(num(2), mul(b, s)), mul(num(2), s)), "B");
	assert_dim(quo(mul(b, s), b), "S");
	assert_dim(quo(mul(b, s), mul(num(2), s)), "B/2");
	assert_dim(quo(add(mul(num(4), s), num(8)), num(4)), "S + 2");
	assert_dim(quo(add(mul(num(4), s), num(3)), num(4)), "S");
	assert_dim(quo(add(mul(num(4), s), n), num(4)), "S + N/4");
	assert_dim(quo(quo(s, num(2)), num(2)), "S/4");
	assert_dim(quo(quo(s, b), n), "(S/B)/N");
	assert_dim(quo(quo(s, num(3)), n), "S/(3*N)");
	assert_dim(quo(add(s, num(1)), num(2)), "(S + 1)/2");
	assert_dim(quo(sub(s, num(1)), num(2)), "(S + 1)/2 - 1");
	assert_dim(quo(mul(num(2), s), num(6)), "S/3");
	assert_dim(quo(add(mul(num(2), s), num(3)), num(6)), "(S + 1)/3");
	assert_dim(quo(mul(num(-3), s), num(-2)), "S + S/2");
	assert_dim(quo(s, num(1)), "S");
	assert_dim(quo(s, num(-1)), "-S");
	assert_dim(quo(s, num(0)), "0");
	assert_dim(quo(num(-7), num(2)), "-4");
	assert_dim(quo(s, add(s, num(1))), "0");
	assert_dim(quo(mul(add(s, b), add(n, num(3))), add(s, b)), "N + 3");
	assert_dim(quo(mul(b, mul(s, s)), mul(b, n)), "(S*S)/N");
	assert_dim(mul(b, quo(s, num(2))), "B*(S/2)");
	assert_dim(sub(num(0), quo(s, num(2))), "-(S/2)");
	assert_dim(sub(num(5), quo(s, num(2))), "5 - S/2");
	/* two convolutions of kernel 3, stride 2, padding 1 */
	qn_dim half = add(quo(sub(add(s, num(2)), num(3)), num(2)), num(1));
	assert_dim(half, "(S + 1)/2");
	assert_dim(add(quo(sub(add(half, num(2)), num(3)), num(2)), num(1)), "(S + 3)/4");
}

static void test_ceil_mod_exact(void **state)
{
	(void)state;
	qn_dim b = sym("B"), s = sym("S"), q;
	assert_dim(qn_dim_ceildiv(t, s, num(2)), "(S + 1)/2");
	assert_dim(qn_dim_ceildiv(t, mul(b, s), b), "S");
	assert_dim(qn_dim_ceildiv(t, num(7), num(2)), "4");
	assert_dim(qn_dim_ceildiv(t, num(-7), num(-2)), "4");
	assert_dim(qn_dim_ceildiv(t, num(7), num(-2)), "-3");
	assert_dim(qn_dim_ceildiv(t, s, num(-1)), "-S");
	assert_dim(qn_dim_mod(t, mul(num(4), s), num(4)), "0");
	assert_dim(qn_dim_mod(t, add(mul(num(4), s), num(3)), num(4)), "3");
	assert_dim(qn_dim_mod(t, num(-7), num(4)), "1");
	assert_dim(qn_dim_mod(t, num(7), num(-4)), "-1");
	qn_dim rest = qn_dim_mod(t, s, num(4));
	int64_t low, high;
	assert_true(qn_dim_lower(t, rest, &low));
	assert_true(qn_dim_upper(t, rest, &high));
	assert_int_equal(low, 0);
	assert_int_equal(high, 3);
	assert_true(qn_dim_exact_div(t, add(mul(num(6), s), num(9)), num(3), &q));
	assert_dim(q, "2*S + 3");
	assert_false(qn_dim_exact_div(t, add(mul(num(6), s), num(8)), num(3), &q));
	assert_true(qn_dim_exact_div(t, sub(mul(s, s), mul(b, b)), add(s, b), &q));
	assert_same(q, sub(s, b));
	assert_false(qn_dim_exact_div(t, s, b, &q));
	assert_false(qn_dim_exact_div(t, s, num(0), &q));
	assert_true(qn_dim_exact_div(t, num(0), b, &q) && qn_dim_is(q, 0));
}

static void test_min_max(void **state)
{
	(void)state;
	qn_dim b = sym("B"), s = sym("S"), n = sym("N");
	assert_dim(smaller(s, add(s, num(1))), "S");
	assert_dim(larger(s, num(0)), "S");
	assert_dim(larger(s, num(-3)), "S");
	assert_dim(smaller(s, num(INT64_MAX)), "S");
	assert_dim(larger(s, num(INT64_MIN)), "S");
	assert_dim(smaller(num(3), num(5)), "3");
	assert_dim(smaller(num(8), s), "min(S,8)");
	assert_dim(larger(sub(s, num(5)), num(0)), "max(S - 5,0)");
	assert_same(smaller(s, b), smaller(b, s));
	assert_same(smaller(s, smaller(n, b)), smaller(smaller(n, s), smaller(b, s)));
	assert_dim(smaller(larger(sub(s, num(5)), num(0)), s), "max(S - 5,0)");
	assert_dim(larger(num(0), smaller(s, num(5))), "min(S,5)");
	assert_dim(smaller(quo(s, num(2)), s), "S/2");
	assert_dim(larger(mul(b, s), mul(b, quo(s, num(2)))), "B*S");
	/* the length of a slice [2:100] */
	qn_dim stop = smaller(s, num(100)), start = smaller(s, num(2));
	assert_dim(larger(sub(stop, start), num(0)), "min(S,100) - min(S,2)");
	qn_dim many = s;
	for (int i = 0; i < 40; i++)
		many = smaller(many, mul(sym(qn_arena_printf(&arena, "m%d", i)), num(i + 2)));
	assert_false(qn_dim_is_const(many));
}

static void test_order(void **state)
{
	(void)state;
	qn_dim b = sym("B"), s = sym("S");
	assert_int_equal(qn_dim_eq(t, s, num(-1)), QN_FALSE);
	assert_int_equal(qn_dim_eq(t, s, num(1)), QN_UNDECIDED);
	assert_int_equal(qn_dim_eq(t, s, b), QN_UNDECIDED);
	assert_int_equal(qn_dim_eq(t, s, add(s, num(1))), QN_FALSE);
	assert_int_equal(qn_dim_eq(t, add(s, b), add(b, s)), QN_TRUE);
	assert_int_equal(qn_dim_eq(t, mul(num(2), s), num(3)), QN_FALSE);
	assert_int_equal(qn_dim_eq(t, num(2), num(3)), QN_FALSE);
	assert_int_equal(qn_dim_lt(t, s, add(s, b)), QN_UNDECIDED);
	assert_int_equal(qn_dim_lt(t, s, add(s, num(1))), QN_TRUE);
	assert_int_equal(qn_dim_lt(t, s, num(0)), QN_FALSE);
	assert_int_equal(qn_dim_le(t, s, add(s, b)), QN_TRUE);
	assert_int_equal(qn_dim_le(t, num(0), s), QN_TRUE);
	assert_int_equal(qn_dim_le(t, add(s, num(1)), s), QN_FALSE);
	assert_int_equal(qn_dim_le(t, s, num(7)), QN_UNDECIDED);
	int64_t v;
	assert_true(qn_dim_lower(t, add(mul(b, s), num(3)), &v));
	assert_int_equal(v, 3);
	assert_false(qn_dim_upper(t, s, &v));
	assert_false(qn_dim_lower(t, sub(b, s), &v));
	assert_true(qn_dim_upper(t, sub(num(3), s), &v));
	assert_int_equal(v, 3);
	assert_true(qn_dim_lower(t, num(INT64_MAX), &v));
	assert_true(v == INT64_MAX);
}

static void test_huge(void **state)
{
	(void)state;
	qn_dim s = sym("S"), big = num(INT64_MAX / 2);
	assert_dim(mul(mul(s, big), num(3)), "9223372036854775807");
	assert_dim(add(mul(big, num(4)), num(-5)), "9223372036854775807");
	assert_dim(mul(mul(big, num(4)), num(0)), "0");
	assert_dim(quo(num(INT64_MIN), num(-1)), "9223372036854775807");
	assert_int_equal(qn_dim_eq(t, s, num(INT64_MAX)), QN_UNDECIDED);
	assert_false(qn_dim_equate(t, s, num(INT64_MAX)));
	qn_dim power = add(s, sym("T"));
	for (int i = 0; i < 20; i++)
		power = mul(power, power);
	assert_true(qn_dim_is(power, INT64_MAX));
	qn_dim deep = s;
	for (int i = 0; i < 3000; i++)
		deep = quo(add(deep, sym("T")), sym(i % 2 ? "P" : "Q"));
	assert_true(qn_dim_is(deep, INT64_MAX));
}

/* --- bindings ---------------------------------------------------------------------------------------------- */
static bool equate(qn_dim a, qn_dim b)
{
	return qn_dim_equate(t, a, b);
}
#define assert_now(d, s) assert_dim(qn_dim_resolve(t, (d)), (s))

static void test_equate_linear(void **state)
{
	(void)state;
	qn_dim a = sym("a"), b = sym("b"), c = sym("c"), d = sym("d"), e = sym("e"), f = sym("f");
	qn_dim sum = add(mul(a, num(2)), b);
	assert_true(equate(b, a)); /* the later one goes */
	assert_int_equal(qn_dims_generation(t), 1);
	assert_now(b, "a");
	assert_dim(sym("b"), "a");
	assert_now(sum, "3*a");
	assert_dim(add(sum, b), "4*a"); /* operators put bindings in by themselves */
	assert_true(equate(a, b));
	assert_int_equal(qn_dims_generation(t), 1);
	assert_true(equate(add(c, num(2)), add(a, num(5))));
	assert_now(c, "a + 3");
	assert_false(equate(c, a));
	assert_true(equate(add(a, d), e));
	assert_now(e, "a + d");
	assert_true(equate(mul(num(4), d), num(8)));
	assert_now(e, "a + 2");
	assert_false(equate(mul(num(4), a), num(6)));
	assert_false(equate(f, num(-1)));
	assert_false(equate(add(f, num(3)), num(1)));
	assert_true(equate(num(7), f));
	assert_now(add(f, e), "a + 9");
	assert_false(equate(num(2), num(3)));
	assert_true(equate(num(2), num(2)));
}

static void test_equate_self(void **state)
{
	(void)state;
	qn_dim s = sym("s"), u = sym("u"), v = sym("v"), w = sym("w");
	assert_true(equate(s, mul(s, s)));
	assert_now(s, "1");
	assert_true(equate(u, add(u, w)));
	assert_now(w, "0");
	assert_true(equate(u, quo(add(u, v), num(3)))); /* u == v/2, which is not u in terms of u */
	assert_now(v, "2*u");
	assert_true(equate(u, smaller(u, num(4)))); /* an assumption: u is at most 4 */
	assert_non_null(qn_dims_assumption(t, &arena, 0));
	assert_false(equate(larger(u, num(4)), num(9)));
	assert_true(equate(smaller(u, num(4)), smaller(num(4), u)));
	assert_true(qn_dim_equal(sym("u"), u));
}

static void test_equate_products(void **state)
{
	(void)state;
	qn_dim s10 = sym("s10"), s12 = sym("s12"), s21 = sym("s21"), s86 = sym("s86");
	assert_true(equate(mul(s86, s12), mul(s10, s21)));
	assert_now(s12, "s10");
	assert_now(s86, "s21");
	qn_dim b = sym("B"), s = sym("S"), u = sym("U"), x = sym("X"), y = sym("Y"), z = sym("Z");
	assert_true(equate(mul(mul(b, s), num(64)), mul(mul(u, b), num(64))));
	assert_now(u, "S");
	assert_true(equate(mul(y, y), mul(x, z)));
	assert_now(y, "X");
	assert_now(z, "X");
	qn_dim p = sym("p"), q = sym("q"), r = sym("r");
	assert_false(equate(mul(b, s), mul(p, num(12))));
	assert_false(equate(mul(p, q), num(12)));
	assert_false(equate(mul(mul(num(2), p), q), mul(b, s)));
	assert_false(equate(mul(mul(r, p), q), mul(b, s)));
	assert_int_equal(qn_dims_generation(t), 5);
	assert_true(equate(mul(p, q), mul(num(12), p)));
	assert_now(q, "12");
}

static void test_equate_quotients(void **state)
{
	(void)state;
	qn_dim s = sym("S"), n = sym("N"), m = sym("M");
	assert_true(equate(quo(add(s, num(1)), num(2)), num(4)));
	assert_now(s, "7");
	assert_true(equate(quo(n, num(3)), m)); /* a lone symbol first */
	assert_now(m, "N/3");
	assert_true(equate(m, num(5)));
	assert_now(n, "15");
	assert_now(m, "5");
}

static void test_chains(void **state)
{
	(void)state;
	enum { N = 20000 };
	for (int i = 0; i < N; i++)
		sym(qn_arena_printf(&arena, "s%d", i));
	for (int i = N - 1; i > N - 1000; i--)
		assert_true(equate(sym(qn_arena_printf(&arena, "s%d", i)), sym(qn_arena_printf(&arena, "s%d", i - 1))));
	assert_dim(sym("s19999"), "s19000");
	assert_true(equate(sym("s19500"), num(3)));
	assert_dim(sym("s19999"), "3");
}

static const char *rename_symbol(void *user, const char *name)
{
	(void)user;
	return strcmp(name, "past + 1") == 0 ? "P" : NULL;
}

static void count_symbol(void *user, const char *name)
{
	(void)name;
	++*(int *)user;
}

static void test_text(void **state)
{
	(void)state;
	qn_dim odd = sym("past + 1"), s = sym("s"), empty = sym("");
	qn_dim d = mul(add(odd, quo(s, num(2))), num(3));
	assert_string_equal(qn_dim_text(&arena, d, rename_symbol, NULL), "3*P + 3*(s/2)");
	assert_dim(d, "3*past + 1 + 3*(s/2)");
	assert_dim(empty, "");
	int n = 0;
	qn_dim_each_symbol(mul(d, larger(odd, num(7))), count_symbol, &n);
	assert_int_equal(n, 4);
	qn_shape shape = {3, {s, num(64), add(s, num(1))}}, other = shape;
	assert_string_equal(qn_shape_text(&arena, &shape), "[s, 64, s + 1]");
	assert_dim(qn_shape_count(t, &shape), "64*s*s + 64*s");
	assert_true(qn_shape_equal(&shape, &other));
	assert_false(qn_shape_is_const(&shape));
	other.dim[0] = num(3);
	assert_false(qn_shape_equal(&shape, &other));
	qn_shape none = {.rank = -1}, scalar = {0};
	assert_string_equal(qn_shape_text(&arena, &none), "[?]");
	assert_string_equal(qn_shape_text(&arena, &scalar), "[]");
	assert_false(qn_shape_is_const(&none));
	assert_true(qn_shape_is_const(&scalar));
	assert_dim(qn_shape_count(t, &scalar), "1");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {CASE(test_sums), CASE(test_quotients), CASE(test_ceil_mod_exact), CASE(test_min_max),
		CASE(test_order), CASE(test_huge), CASE(test_equate_linear), CASE(test_equate_self), CASE(test_equate_products),
		CASE(test_equate_quotients), CASE(test_chains), CASE(test_text)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
