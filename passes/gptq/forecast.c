/* forecast.c - counts of multiply-adds and bytes, and the measured rates that turn them into time. */
#include "passes/gptq/forecast.h"

#include "graph/exec_symbols.h"
#include "graph/ops/_gemm.h"
#include "passes/gptq/moment.h"
#include "passes/gptq/trial.h"

#include <time.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- rates: the best of a few tries, so that a passing load does not count ---------------------------------------------------- */
enum { TRIES = 3 };

/* Seconds a multiply-add, on all threads. */
static double product_rate(qn_ctx *ctx, qn_arena *a)
{
	enum { M = 512, N = 768, K = 384 };
	float *x = QN_NEW(a, float, M *K), *w = QN_NEW(a, float, N *K), *y = QN_NEW(a, float, M *N);
	qn_gemm g = {.type = QN_F32, .tb = true, .m = M, .n = N, .k = K, .lda = K, .ldb = K, .ldc = N, .batch = 1};
	double best = 1;
	for (int i = 0; i < TRIES; i++) {
		double start = now();
		qn_gemm_run(&g, ctx->threads, x, w, y);
		double took = (now() - start) / ((double)M * N * K);
		best = took < best ? took : best;
	}
	return best;
}

/* Seconds a block of one row, on all threads. */
static double trial_rate(qn_ctx *ctx, qn_arena *a)
{
	qn_trials *t = QN_NEW(a, qn_trials, 1);
	qn_block_factor *f = QN_NEW(a, qn_block_factor, 1);
	qn_block_factor_load(NULL, 0, 0, f);
	double best = 1;
	for (int i = 0; i < TRIES; i++) {
		for (int j = 0; j < QN_BLOCK; j++)
			for (int k = 0; k < QN_LANES; k++)
				t->v[j][k] = (float)((j * 7 + k * 3) % 17 - 8);
		double start = now();
		qn_trials_search(f, QN_LANES, t);
		double took = (now() - start) / QN_LANES;
		best = took < best ? took : best;
	}
	return best / qn_moment_threads(ctx);
}

/* --- memory ---------------------------------------------------------------------------------------------------------------- */
static uint64_t value_bytes(const qn_streams *s, const qn_sizes *sizes, const qn_value *v, qn_arena *a)
{
	const qn_tensor *got;
	qn_tensor dims = {QN_DIM, 1, {v->fact.shape.rank}, v->fact.shape.dim};
	if (v->is_const || v->fact.shape.rank < 0 || qn_sizes_apply(s->g, sizes, &dims, QN_I64, a, &got) != QUERN_OK)
		return 0;
	int64_t count = 1;
	for (int k = 0; k < v->fact.shape.rank; k++)
		count *= ((const int64_t *)got->data)[k];
	size_t bytes = 0;
	qn_dtype_bytes(v->fact.type, count, &bytes);
	return bytes;
}

/* live[i] += what both streams of a batch hold while the node of id i runs; size[i] += bytes of the value of id i in one. */
static void add_live(const qn_streams *s, const qn_batch *b, uint64_t *live, uint64_t *size, qn_arena *a)
{
	qn_sizes *sizes;
	if (qn_sizes_from_inputs(s->g, b->inputs, a, &sizes) != QUERN_OK)
		return;
	uint64_t *bytes = QN_NEW(a, uint64_t, s->g->n_values), held = 0;
	size_t *left = QN_NEW(a, size_t, s->g->n_values);
	for (const qn_node *n = s->g->first; n; n = n->next) {
		if (!qn_exec_needs(n))
			continue;
		for (int i = 0; i < n->n_out; i++)
			if (n->out[i]) {
				left[n->out[i]->id] = n->out[i]->n_uses;
				held += bytes[n->out[i]->id] = value_bytes(s, sizes, n->out[i], a);
				size[n->out[i]->id] += bytes[n->out[i]->id];
			}
		live[n->id] += 2 * held;
		for (int i = 0; i < n->n_in; i++)
			if (n->in[i] && left[n->in[i]->id] && --left[n->in[i]->id] == 0 && !n->in[i]->is_output)
				held -= bytes[n->in[i]->id];
	}
}

static uint64_t group_bytes(qn_layer **group, size_t n)
{
	uint64_t k = (uint64_t)group[0]->k, outs = 0;
	for (size_t i = 0; i < n; i++)
		outs += (uint64_t)group[i]->n;
	uint64_t chunk = QN_CHUNK_ROWS * (2 * k + 2 * outs) * sizeof(float);
	uint64_t factors = k * k * (2 * sizeof(double) + 2 * sizeof(float));
	uint64_t weights = outs * k * (sizeof(double) + 3 * sizeof(float)); /* moment, weight, target, values */
	return factors + weights + chunk;
}

/* The constants that the graph reads, which stay in memory. */
static uint64_t constant_bytes(const qn_graph *g)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < g->n_values; i++) {
		const qn_value *v = g->values[i];
		if (v && v->is_const && !v->producer && v->n_uses && v->fact.value && v->fact.value->type != QN_DIM)
			sum += qn_tensor_bytes(v->fact.value);
	}
	return sum;
}

/* --- work ------------------------------------------------------------------------------------------------------------------ */
static double group_seconds(qn_layer **group, size_t n, double rows, const qn_gptq_settings *o, double per_product, double per_trial)
{
	double k = (double)group[0]->k, outs = 0, blocks = 0;
	for (size_t i = 0; i < n; i++) {
		outs += (double)group[i]->n;
		blocks += group[i]->form == QN_FORM_Q4_0 ? (double)group[i]->n * k / QN_BLOCK * (1 + o->rounding.descents) : 0;
	}
	double runs = 2 * rows * k * outs, moment = 0.6 * rows * k * k, error = o->compensate ? rows * k * (outs > k ? k : 2 * outs) : 0;
	double factors = 2 * 0.7 * k * k * k, passes = outs * k * k * (1 + o->rounding.descents); /* the first in f64, at half the rate */
	return per_product * (runs + moment + error + factors + passes) + per_trial * blocks;
}

qn_gptq_forecast qn_gptq_foretell(qn_plan *plan, const qn_streams *s, const qn_gptq_settings *o, qn_arena *a)
{
	enum { MOST = 64 };
	qn_gptq_forecast f = {.share = QN_NEW(a, double, plan->n)};
	qn_arena scratch;
	qn_arena_init(&scratch, s->g->ctx);
	uint64_t *live = QN_NEW(&scratch, uint64_t, s->g->next_node_id), *size = QN_NEW(&scratch, uint64_t, s->g->n_values);
	for (size_t b = 0; b < s->n; b++) {
		qn_arena of_batch;
		qn_arena_init(&of_batch, s->g->ctx);
		add_live(s, &s->batch[b], live, size, &of_batch);
		qn_arena_release(&of_batch);
	}
	double per_product = product_rate(s->g->ctx, &scratch), per_trial = trial_rate(s->g->ctx, &scratch);
	bool *counted = QN_NEW(&scratch, bool, plan->n);
	for (size_t i = 0; i < plan->n; i++) {
		qn_layer *l = &plan->layers[i], *group[MOST];
		if (!l->rounding || counted[i])
			continue;
		size_t n = qn_gptq_group(plan, l, group, MOST);
		for (size_t k = 0; k < n; k++)
			counted[group[k] - plan->layers] = true;
		double rows = (double)size[l->node->in[0]->id] / (double)sizeof(float) / (double)l->k;
		f.share[i] = group_seconds(group, n, rows, o, per_product, per_trial);
		f.seconds += f.share[i];
		uint64_t bytes = live[l->node->id] + group_bytes(group, n);
		f.bytes = bytes > f.bytes ? bytes : f.bytes;
	}
	enum { PROGRAM = 40 << 20 }; /* itself, its libraries, OpenBLAS' buffers */
	f.bytes += constant_bytes(s->g) + PROGRAM;
	for (size_t i = 0; i < plan->n; i++)
		f.share[i] /= f.seconds > 0 ? f.seconds : 1;
	qn_arena_release(&scratch);
	return f;
}
