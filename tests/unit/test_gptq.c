/* test_gptq.c - rounding by second moments against plain references: factors, trials, sequential rounding, losses, threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "passes/gptq/gptq.h"
#include "passes/gptq/rows.h"
#include "passes/gptq/trial.h"

#include <math.h>

enum { B = QN_BLOCK };

static qn_ctx ctx;
static qn_arena arena;

static int setup(void **state)
{
	(void)state;
	qn_arena_init(&arena, &ctx);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	qn_arena_release(&arena);
	return 0;
}

static uint64_t state = 88172645463325252u;

static float noise(void)
{
	state ^= state << 13, state ^= state >> 7, state ^= state << 17;
	return (float)(state >> 40) / (float)(1 << 24) - 0.5f;
}

/* Inputs whose columns hang together and differ in size and mean. */
static float *make_inputs(int64_t rows, int64_t n)
{
	float *x = QN_NEW(&arena, float, rows *n);
	for (int64_t r = 0; r < rows; r++)
		for (int64_t k = 0; k < n; k++)
			x[r * n + k] = (k ? 0.6f * x[r * n + k - 1] : 0) + noise() * (1 + (float)(k % 7)) + (k % 5 ? 0 : 3);
	return x;
}

static float *make_weights(int64_t n)
{
	float *w = QN_NEW(&arena, float, n);
	for (int64_t i = 0; i < n; i++)
		w[i] = noise();
	return w;
}

/* h [n, n] as qn_metric_make defines it, in f64 */
static double *reference_moment(const float *x, int64_t rows, int64_t n, double by, bool centre)
{
	double *h = QN_NEW(&arena, double, n *n), *mean = QN_NEW(&arena, double, n), trace = 0;
	for (int64_t r = 0; r < rows && centre; r++)
		for (int64_t k = 0; k < n; k++)
			mean[k] += (double)x[r * n + k] / (double)rows;
	for (int64_t r = 0; r < rows; r++)
		for (int64_t i = 0; i < n; i++)
			for (int64_t k = 0; k < n; k++)
				h[i * n + k] += ((double)x[r * n + i] - mean[i]) * ((double)x[r * n + k] - mean[k]);
	for (int64_t i = 0; i < n; i++)
		trace += h[i * n + i];
	for (int64_t i = 0; i < n; i++)
		h[i * n + i] += by * h[i * n + i] + by * trace / (double)n;
	return h;
}

/* w h w^T */
static double quadratic(const double *h, int64_t n, const double *w)
{
	double sum = 0;
	for (int64_t i = 0; i < n; i++)
		for (int64_t k = 0; k < n; k++)
			sum += w[i] * h[i * n + k] * w[k];
	return sum;
}

static void the_metric_is_the_damped_moment_and_its_factors(void **unused)
{
	(void)unused;
	enum { ROWS = 1100, N = 72 }; /* more than a chunk of rows; a last block of 8 */
	float *x = make_inputs(ROWS, N);
	double *h = reference_moment(x, ROWS, N, 0.1, true);
	qn_metric m;
	assert_int_equal(qn_metric_make(&ctx, &arena, x, ROWS, N, (qn_damping){.by = 0.1}, true, &m), QUERN_OK);
	for (int i = 0; i < N * N; i++)
		assert_true(fabs((double)m.h[i] - h[i]) < 1e-4 * (fabs(h[i]) + 1));
	/* h U^T U = I */
	for (int i = 0; i < N; i++)
		for (int k = 0; k < N; k++) {
			double sum = 0;
			for (int t = 0; t < N; t++)
				for (int u = 0; u <= t && u <= k; u++)
					sum += h[i * N + t] * (double)m.upper[u * N + t] * (double)m.upper[u * N + k];
			assert_true(fabs(sum - (i == k)) < 1e-3);
		}
	/* the last block is its 8 columns and the identity */
	const float *u = m.block_upper + 2 * B * B, *inverse = m.block_inverse + 2 * B * B;
	assert_true(fabsf(u[20 * B + 20] - 1) < 1e-6f && fabsf(inverse[20 * B + 20] - 1) < 1e-6f && fabsf(inverse[3 * B + 20]) < 1e-9f);
}

static void inputs_without_variance_are_singular(void **unused)
{
	(void)unused;
	enum { ROWS = 40, N = 32 };
	float *x = QN_NEW(&arena, float, ROWS *N);
	qn_metric m;
	assert_int_equal(qn_metric_make(&ctx, &arena, x, ROWS, N, (qn_damping){.by = 0.3}, true, &m), QUERN_ERR_NUMERIC);
}

static void compensation_solves_the_ridge_equations(void **unused)
{
	(void)unused;
	enum { ROWS = 200, N = 64, OUT = 70 };
	float *x = make_inputs(ROWS, N), *w = make_weights(OUT * N), *moved = QN_NEW(&arena, float, OUT *N);
	double *h = reference_moment(x, ROWS, N, 0.1, true), *exc = QN_NEW(&arena, double, OUT *N);
	for (int i = 0; i < OUT * N; i++)
		exc[i] = 100 * (double)noise();
	memcpy(moved, w, sizeof *w * OUT * N);
	qn_metric m;
	assert_int_equal(qn_metric_make(&ctx, &arena, x, ROWS, N, (qn_damping){.by = 0.1}, true, &m), QUERN_OK);
	qn_metric_compensate(&ctx, &arena, &m, exc, 0.5, moved, OUT);
	for (int r = 0; r < OUT; r++)
		for (int k = 0; k < N; k++) {
			double sum = 0;
			for (int i = 0; i < N; i++)
				sum += ((double)moved[r * N + i] - (double)w[r * N + i]) * h[i * N + k];
			assert_true(fabs(sum - 0.5 * exc[r * N + k]) < 1e-2);
		}
}

static void losses_are_those_of_the_outputs(void **unused)
{
	(void)unused;
	enum { ROWS = 150, N = 32, OUT = 3 };
	float *x = make_inputs(ROWS, N), *w = make_weights(OUT * N), *q = make_weights(OUT * N);
	double *h = reference_moment(x, ROWS, N, 0, true), loss[OUT], *exc = QN_NEW(&arena, double, OUT *N);
	for (int i = 0; i < OUT * N; i++)
		exc[i] = (double)noise();
	qn_metric m;
	assert_int_equal(qn_metric_make(&ctx, &arena, x, ROWS, N, (qn_damping){.by = 0.3}, true, &m), QUERN_OK);
	qn_metric_loss(&ctx, &arena, &m, w, q, exc, OUT, loss);
	for (int r = 0; r < OUT; r++) {
		double d[N], want, cross = 0;
		for (int i = 0; i < N; i++) {
			d[i] = (double)q[r * N + i] - (double)w[r * N + i];
			cross += d[i] * exc[r * N + i];
		}
		want = quadratic(h, N, d) - 2 * cross;
		assert_true(fabs(loss[r] - want) < 1e-3 * fabs(want));
	}
}

/* --- one block -------------------------------------------------------------------------------------------------------------- */
static void make_factor(float *upper)
{
	for (int i = 0; i < B; i++)
		for (int k = 0; k < B; k++)
			upper[i * B + k] = k < i ? 0 : k == i ? 1 + noise() : 0.3f * noise();
}

/* Sequential rounding with scale d, as it is defined. */
static double reference_cost(const float *v, const float *upper, double d, double *codes)
{
	double w[B], cost = 0;
	for (int j = 0; j < B; j++)
		w[j] = (double)v[j];
	for (int j = 0; j < B; j++) {
		double c = floor(w[j] / d + 0.5);
		codes[j] = c < -8 ? -8 : c > 7 ? 7 : c;
		double e = (w[j] - codes[j] * d) / (double)upper[j * B + j];
		cost += e * e;
		for (int k = j + 1; k < B; k++)
			w[k] -= e * (double)upper[j * B + k];
	}
	return cost;
}

static void trials_find_at_least_the_best_candidate(void **unused)
{
	(void)unused;
	float upper[B * B], row[B];
	make_factor(upper);
	qn_block_factor f;
	qn_block_factor_load(upper, B, B, &f);
	qn_trials *t = QN_NEW(&arena, qn_trials, 1);
	for (int j = 0; j < B; j++)
		for (int r = 0; r < QN_LANES; r++)
			t->v[j][r] = r == 7 ? 0 : noise();
	qn_trials_search(&f, QN_LANES, t);
	for (int r = 0; r < QN_LANES; r++) {
		double best = INFINITY, largest = 0, codes[B], cost = 0, x[B];
		for (int j = 0; j < B; j++) {
			row[j] = t->v[j][r];
			largest = fabs((double)row[j]) > largest ? fabs((double)row[j]) : largest;
		}
		for (int i = 0; i < 32 && r != 7; i++) {
			double d = (i < 16 ? largest : -largest) / 8 * (0.62 + 0.62 * (i % 16) / 15), c = reference_cost(row, upper, d, codes);
			best = c < best ? c : best;
		}
		for (int j = 0; j < B; j++) { /* U^T x = v - c d */
			x[j] = (double)row[j] - (double)t->code[j][r] * (double)t->scale[r];
			for (int k = 0; k < j; k++)
				x[j] -= (double)upper[k * B + j] * x[k];
			x[j] /= (double)upper[j * B + j];
			cost += x[j] * x[j];
			assert_true(fabs(x[j] - (double)t->error[j][r]) < 1e-4);
			assert_true(t->code[j][r] >= -8 && t->code[j][r] <= 7);
		}
		assert_true(fabs(cost - (double)t->cost[r]) <= 1e-4 * cost + 1e-9);
		assert_true(r == 7 ? cost < 1e-12 : cost <= best * 1.02); /* candidates are not yet rounded to f16 when they are compared */
		assert_true(qn_f16_to_f32(qn_f32_to_f16(t->scale[r])) == t->scale[r]);
	}
}

static void given_scales_round_as_defined(void **unused)
{
	(void)unused;
	float upper[B * B], row[B];
	make_factor(upper);
	qn_block_factor f;
	qn_block_factor_load(upper, B, B, &f);
	qn_trials *t = QN_NEW(&arena, qn_trials, 1);
	for (int r = 0; r < QN_LANES; r++) {
		t->scale[r] = (r % 2 ? 1 : -1) * (0.04f + 0.01f * (float)r / QN_LANES);
		for (int j = 0; j < B; j++)
			t->v[j][r] = noise();
	}
	qn_trials_round(&f, -8, 7, t);
	for (int r = 0; r < QN_LANES; r++) {
		double codes[B];
		for (int j = 0; j < B; j++)
			row[j] = t->v[j][r];
		double cost = reference_cost(row, upper, (double)t->scale[r], codes);
		assert_true(fabs(cost - (double)t->cost[r]) < 1e-3 * cost);
		for (int j = 0; j < B; j++)
			assert_true(fabs(codes[j] - (double)t->code[j][r]) < 0.5);
	}
}

/* --- whole rows -------------------------------------------------------------------------------------------------------------- */
static double total_loss(const double *h, int64_t n, const float *w, const float *q, int64_t out)
{
	double sum = 0, *d = QN_NEW(&arena, double, n);
	for (int64_t r = 0; r < out; r++) {
		for (int64_t k = 0; k < n; k++)
			d[k] = (double)q[r * n + k] - (double)w[r * n + k];
		sum += quadratic(h, n, d);
	}
	return sum;
}

static void each_step_lowers_the_loss(void **unused)
{
	(void)unused;
	enum { ROWS = 400, N = 96, OUT = 70 };
	float *x = make_inputs(ROWS, N), *w = make_weights(OUT * N), *q = QN_NEW(&arena, float, OUT *N);
	double *h = reference_moment(x, ROWS, N, 0.05, true), loss[4];
	uint8_t *blocks = QN_NEW(&arena, uint8_t, OUT *N / B *QN_Q4_0_BYTES);
	qn_metric m;
	assert_int_equal(qn_metric_make(&ctx, &arena, x, ROWS, N, (qn_damping){.by = 0.05}, true, &m), QUERN_OK);
	qn_quant_report report;
	qn_quantize_q4_0(&ctx, w, OUT, N, QN_ROUND_MSE, NULL, blocks, &report);
	qn_dequantize_q4_0(&ctx, blocks, OUT * N, false, q);
	loss[0] = total_loss(h, N, w, q, OUT);
	static const qn_gptq_options steps[] = {{false, 0}, {true, 0}, {true, 3}};
	for (int i = 0; i < 3; i++) {
		qn_gptq_q4_0(&ctx, &arena, &m, w, OUT, &steps[i], blocks);
		qn_dequantize_q4_0(&ctx, blocks, OUT * N, false, q);
		loss[i + 1] = total_loss(h, N, w, q, OUT);
	}
	assert_true(loss[1] < 0.8 * loss[0] && loss[2] < loss[1] && loss[3] < loss[2]);
}

static void eight_bits_take_a_last_block_that_is_not_full(void **unused)
{
	(void)unused;
	enum { ROWS = 300, N = 72, OUT = 5 };
	float *x = make_inputs(ROWS, N), *w = make_weights(OUT * N), *q = QN_NEW(&arena, float, OUT *N), scales[OUT];
	double *h = reference_moment(x, ROWS, N, 0.05, true), loss[2];
	int8_t *codes = QN_NEW(&arena, int8_t, OUT *N);
	qn_metric m;
	assert_int_equal(qn_metric_make(&ctx, &arena, x, ROWS, N, (qn_damping){.by = 0.05}, true, &m), QUERN_OK);
	qn_quant_report report;
	qn_quantize_i8_rows(&ctx, w, OUT, N, 5, 0, codes, scales, &report);
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < OUT * N; k++) {
			q[k] = (float)codes[k] * scales[k / N];
			assert_in_range(codes[k] + 15, 0, 30);
		}
		loss[i] = total_loss(h, N, w, q, OUT);
		qn_gptq_i8(&ctx, &arena, &m, w, OUT, 5, scales, codes);
	}
	assert_true(loss[1] < 0.8 * loss[0]);
}

static void threads_change_nothing(void **unused)
{
	(void)unused;
	enum { ROWS = 700, N = 160, OUT = 200, BYTES = OUT * N / B * QN_Q4_0_BYTES };
	float *x = make_inputs(ROWS, N), *w = make_weights(OUT * N);
	uint8_t *blocks[3];
	for (int i = 0; i < 3; i++) {
		qn_ctx c = {.threads = i * 2 + 1};
		qn_metric m;
		blocks[i] = QN_NEW(&arena, uint8_t, BYTES);
		assert_int_equal(qn_metric_make(&c, &arena, x, ROWS, N, (qn_damping){.by = 0.1}, true, &m), QUERN_OK);
		qn_gptq_q4_0(&c, &arena, &m, w, OUT, &(qn_gptq_options){true, 2}, blocks[i]);
		assert_memory_equal(blocks[0], blocks[i], BYTES);
	}
}

static void rows_in_pieces_are_the_rows_in_one(void **unused)
{
	(void)unused;
	enum { N = 3, ROWS = 9 };
	float *x = make_weights(ROWS * N), out[4 * N], mean[N], other[N];
	const float *piece[] = {x, x + 2 * N, x + 2 * N, x + 7 * N};
	int64_t count[] = {2, 0, 5, 2};
	qn_rows r = {piece, count, 4, ROWS, N}, whole = qn_rows_of(&arena, x, ROWS, N);
	qn_rows_copy(&r, 1, 4, NULL, out);
	assert_memory_equal(out, x + N, sizeof out);
	qn_rows_mean(&arena, &r, NULL, mean);
	qn_rows_mean(&arena, &whole, NULL, other);
	assert_memory_equal(mean, other, sizeof mean);
	qn_rows_copy(&r, 6, 3, mean, out);
	for (int i = 0; i < 3 * N; i++)
		assert_true(fabsf(out[i] - (x[6 * N + i] - mean[i % N])) < 1e-6f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_metric_is_the_damped_moment_and_its_factors, setup, teardown),
		cmocka_unit_test_setup_teardown(inputs_without_variance_are_singular, setup, teardown),
		cmocka_unit_test_setup_teardown(compensation_solves_the_ridge_equations, setup, teardown),
		cmocka_unit_test_setup_teardown(losses_are_those_of_the_outputs, setup, teardown),
		cmocka_unit_test_setup_teardown(trials_find_at_least_the_best_candidate, setup, teardown),
		cmocka_unit_test_setup_teardown(given_scales_round_as_defined, setup, teardown),
		cmocka_unit_test_setup_teardown(each_step_lowers_the_loss, setup, teardown),
		cmocka_unit_test_setup_teardown(eight_bits_take_a_last_block_that_is_not_full, setup, teardown),
		cmocka_unit_test_setup_teardown(threads_change_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(rows_in_pieces_are_the_rows_in_one, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
