/* solve.c - all blocks of a weight in order, errors passed on to the columns not yet rounded; then block coordinate descent.
 *
 * Rows do not depend on each other. Threads take panels of them, whose size does not depend on the number of threads. Sums over the blocks before are taken when a
 * block is reached, so that nothing but the errors is kept. */
#include "passes/gptq/moment.h"
#include "passes/gptq/trial.h"
#include "passes/quant/q4_block.h"

#include "graph/ops/_gemm.h"

#include <cblas.h>
#include <math.h>
#include <omp.h>

enum { B = QN_BLOCK, L = QN_LANES, PANEL = 64 };
_Static_assert(PANEL % L == 0, "lanes fill a panel");

typedef struct job {
	const qn_metric *m;
	const qn_gptq_options *o;
	const float *target; /* [out, n] */
	int64_t out;
	uint8_t *blocks;     /* of Q4_0; else codes */
	int8_t *codes;
	const float *scales; /* of codes, by row */
	float limit;         /* largest code */
} job;

/* What a thread works in. */
typedef struct space {
	float *error;  /* [PANEL, n] U^-T (w - q); in the descent q - w */
	float *v;      /* [PANEL, 32] the block to be rounded */
	float *g, *t;  /* [PANEL, 32] */
	qn_trials *trials;
} space;

static void product(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c)
{
	if (k)
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, alpha, a, (blasint)lda, b, (blasint)ldb, beta, c, B);
}

/* Rows first, ... of the [rows, 32] block v into lanes; returns how many there are. */
static int fill_lanes(const float *v, int64_t rows, int64_t first, qn_trials *t)
{
	int n = rows - first < L ? (int)(rows - first) : L;
	for (int j = 0; j < B; j++)
		for (int i = 0; i < L; i++)
			t->v[j][i] = i < n ? v[(first + i) * B + j] : 0;
	return n;
}

static void put_block(uint8_t *out, const qn_trials *t, int lane)
{
	uint8_t code[B];
	for (int j = 0; j < B; j++)
		code[j] = (uint8_t)(t->code[j][lane] + 8);
	qn_put_u16(out, qn_f32_to_f16(t->scale[lane]));
	qn_q4_0_pack(code, out + 2);
}

/* The scales of least squared error weighted with the diagonal of the metric: the plain alternative to trials. */
static void by_diagonal(const job *j, int64_t b, const qn_block_factor *f, int rows, qn_trials *t)
{
	float diagonal[B], row[B];
	for (int k = 0; k < B; k++)
		diagonal[k] = j->m->h[(b * B + k) * (j->m->n + 1)];
	for (int r = 0; r < rows; r++) {
		uint8_t block[QN_Q4_0_BYTES];
		qn_quant_report report;
		qn_ctx quiet = {.threads = 1};
		for (int k = 0; k < B; k++)
			row[k] = t->v[k][r];
		qn_quantize_q4_0(&quiet, row, 1, B, QN_ROUND_IMPORTANCE, &(qn_q4_opts){.importance = diagonal}, block, &report);
		t->scale[r] = qn_f16_to_f32(qn_get_u16(block));
	}
	qn_trials_round(f, -8, 7, t);
}

static void round_lanes(const job *j, int64_t row, int64_t b, const qn_block_factor *f, int rows, qn_trials *t)
{
	if (j->codes) {
		for (int i = 0; i < rows; i++)
			t->scale[i] = j->scales[row + i];
		qn_trials_round(f, -j->limit, j->limit, t);
	} else if (j->o->trial) {
		qn_trials_search(f, rows, t);
	} else {
		by_diagonal(j, b, f, rows, t);
	}
}

static void keep_lanes(const job *j, int64_t row, int64_t b, int64_t size, int rows, const qn_trials *t)
{
	for (int i = 0; i < rows; i++) {
		if (!j->codes)
			put_block(j->blocks + ((row + i) * (j->m->n / B) + b) * QN_Q4_0_BYTES, t, i);
		for (int64_t k = 0; k < size && j->codes; k++)
			j->codes[(row + i) * j->m->n + b * B + k] = (int8_t)t->code[k][i];
	}
}

/* Rows first, ..., first + rows - 1, block after block. */
static void compensated(const job *j, int64_t first, int64_t rows, space *s)
{
	int64_t n = j->m->n;
	for (int64_t b = 0; b * B < n; b++) {
		qn_block_factor f;
		int64_t size = n - b * B < B ? n - b * B : B;
		qn_block_factor_load(j->m->upper + b * B * n + b * B, n, size, &f);
		for (int64_t r = 0; r < rows; r++)
			for (int64_t k = 0; k < B; k++)
				s->v[r * B + k] = k < size ? j->target[(first + r) * n + b * B + k] : 0;
		product(rows, size, b * B, -1, s->error, n, j->m->upper + b * B, n, 1, s->v);
		for (int64_t at = 0; at < rows; at += L) {
			int lanes = fill_lanes(s->v, rows, at, s->trials);
			round_lanes(j, first + at, b, &f, lanes, s->trials);
			keep_lanes(j, first + at, b, size, lanes, s->trials);
			for (int i = 0; i < lanes; i++)
				for (int64_t k = 0; k < size; k++)
					s->error[(at + i) * n + b * B + k] = s->trials->error[k][i];
		}
	}
}

/* Each row's block goes to where it would be best alone, if that is better. s->error holds q - w. Returns what was won. */
static double descend_block(const job *j, int64_t first, int64_t rows, int64_t b, const qn_block_factor *f, space *s)
{
	int64_t n = j->m->n;
	const float *upper = j->m->block_upper + b * B * B, *inverse = j->m->block_inverse + b * B * B;
	product(rows, B, n, 1, s->error, n, j->m->h + b * B, n, 0, s->g);
	for (int64_t r = 0; r < rows; r++) /* q = w + (q - w) */
		for (int64_t k = 0; k < B; k++)
			s->v[r * B + k] = j->target[(first + r) * n + b * B + k] + s->error[r * n + b * B + k];
	product(rows, B, B, -1, s->g, B, inverse, B, 1, s->v);
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)rows, B, B, 1, s->g, B, upper, B, 0, s->t, B);
	double won = 0;
	for (int64_t at = 0; at < rows; at += L) {
		int lanes = fill_lanes(s->v, rows, at, s->trials);
		qn_trials_search(f, lanes, s->trials);
		for (int i = 0; i < lanes; i++) {
			float before = 0;
			for (int k = 0; k < B; k++)
				before += s->t[(at + i) * B + k] * s->t[(at + i) * B + k];
			if (!(s->trials->cost[i] < before))
				continue;
			int64_t row = first + at + i;
			won += (double)(before - s->trials->cost[i]);
			put_block(j->blocks + (row * (n / B) + b) * QN_Q4_0_BYTES, s->trials, i);
			for (int k = 0; k < B; k++)
				s->error[(at + i) * n + b * B + k] = s->trials->code[k][i] * s->trials->scale[i] - j->target[row * n + b * B + k];
		}
	}
	return won;
}

/* error [rows, n]: what the codes of the rows make of the target, less the target. Returns the sum of U^-T's squares, the loss. */
static double errors_of_blocks(const job *j, int64_t first, int64_t rows, space *s)
{
	int64_t n = j->m->n;
	double loss = 0;
	qn_ctx quiet = {.threads = 1};
	for (int64_t r = 0; r < rows; r++) {
		float *e = s->error + r * n;
		for (int64_t k = 0; k < n; k++)
			loss += (double)e[k] * (double)e[k];
		qn_dequantize_q4_0(&quiet, j->blocks + (first + r) * (n / B) * QN_Q4_0_BYTES, n, false, e);
		for (int64_t k = 0; k < n; k++)
			e[k] -= j->target[(first + r) * n + k];
	}
	return loss;
}

static void descend(const job *j, int64_t first, int64_t rows, space *s)
{
	enum { PER_MILLE = 1000 };
	int64_t n = j->m->n;
	double loss = errors_of_blocks(j, first, rows, s);
	for (int pass = 0; pass < j->o->descents; pass++) {
		double won = 0;
		for (int64_t b = 0; b < n / B; b++) {
			qn_block_factor f;
			qn_block_factor_load(j->m->block_upper + b * B * B, B, B, &f);
			won += descend_block(j, first, rows, b, &f, s);
		}
		loss -= won;
		if (won * PER_MILLE < loss)
			return;
	}
}

static void solve(qn_ctx *ctx, qn_arena *scratch, const job *j)
{
	int threads = qn_moment_threads(ctx);
	space *spaces = QN_NEW(scratch, space, threads);
	for (int t = 0; t < threads; t++)
		spaces[t] = (space){QN_NEW(scratch, float, PANEL *j->m->n), QN_NEW(scratch, float, PANEL *B), QN_NEW(scratch, float, PANEL *B),
			QN_NEW(scratch, float, PANEL *B), QN_NEW(scratch, qn_trials, 1)};
	qn_blas_ready();
#pragma omp parallel for schedule(dynamic) num_threads(threads)
	for (int64_t p = 0; p < (j->out + PANEL - 1) / PANEL; p++) {
		space *s = &spaces[omp_get_thread_num()];
		int64_t first = p * PANEL, rows = j->out - first < PANEL ? j->out - first : PANEL;
		compensated(j, first, rows, s);
		if (!j->codes && j->o->descents)
			descend(j, first, rows, s);
	}
}

void qn_gptq_q4_0(qn_ctx *ctx, qn_arena *scratch, const qn_metric *m, const float *target, int64_t out, const qn_gptq_options *o, uint8_t *blocks)
{
	solve(ctx, scratch, &(job){.m = m, .o = o, .target = target, .out = out, .blocks = blocks});
}

void qn_gptq_i8(qn_ctx *ctx, qn_arena *scratch, const qn_metric *m, const float *target, int64_t out, int bits, const float *scales, int8_t *codes)
{
	float limit = (float)((1 << (bits - 1)) - 1);
	solve(ctx, scratch, &(job){.m = m, .target = target, .out = out, .codes = codes, .scales = scales, .limit = limit});
}
