/* calibrate_run.c - the float graph over all samples, tensor by tensor. */
#include "graph/exec.h"
#include "graph/ops/_math.h"
#include "graph/samples.h"
#include "passes/stats.h"

#include <math.h>

typedef struct run {
	qn_graph *g;
	qn_stats **layer, **output; /* by value id; NULL for values that are not watched */
	qn_calibration *c;
	qn_value *bad; /* holds NaN or infinity */
} run;

static bool watch(run *r, qn_arena *a, qn_calibration *c)
{
	r->layer = QN_NEW(a, qn_stats *, r->g->n_values);
	r->output = QN_NEW(a, qn_stats *, r->g->n_values);
	for (size_t i = 0; i < c->n; i++)
		r->layer[c->stats[i].value->id] = &c->stats[i];
	for (size_t i = 0; i < c->n_outputs; i++)
		r->output[c->outputs[i].value->id] = &c->outputs[i];
	return c->n + c->n_outputs > 0;
}

/* Values that no mask made, packed; `zeroed` are all, with 0 for the others. *bad: NaN or +infinity is among them. */
static int64_t unmask(const float *x, int64_t n, float mask_floor, float *zeroed, float *clean, bool *bad)
{
	int64_t k = 0;
	for (int64_t i = 0; i < n; i++) {
		bool masked = x[i] <= mask_floor;
		*bad |= !masked && !isfinite(x[i]);
		zeroed[i] = masked ? 0 : x[i];
		if (!masked)
			clean[k++] = x[i];
	}
	return k;
}

QN_VECTOR static bool all_plain(const float *x, int64_t n, float mask_floor)
{
	int other = 0;
#pragma omp simd reduction(| : other)
	for (int64_t i = 0; i < n; i++)
		other |= !(x[i] > mask_floor && x[i] < INFINITY);
	return !other;
}

static bool look(run *r, qn_stats *s, const float *x, int64_t n, qn_arena *scratch)
{
	if (!n)
		return true;
	if (all_plain(x, n, s->mask_floor)) {
		qn_calibration_see(r->c, s, x, n / s->channels, x, n, scratch);
		return true;
	}
	float *zeroed = QN_NEW(scratch, float, n), *clean = QN_NEW(scratch, float, n);
	bool bad = false;
	int64_t kept = unmask(x, n, s->mask_floor, zeroed, clean, &bad);
	if (!bad)
		qn_calibration_see(r->c, s, zeroed, n / s->channels, clean, kept, scratch);
	return !bad;
}

static qn_status observe(run *r, const qn_value *v, const qn_tensor *t)
{
	qn_stats *const watched[] = {r->layer[v->id], r->output[v->id]};
	for (int i = 0; i < 2; i++) {
		if (!watched[i] || t->type != QN_F32)
			continue;
		qn_arena scratch;
		qn_arena_init(&scratch, r->g->ctx);
		bool fine = look(r, watched[i], t->data, qn_tensor_count(t), &scratch);
		qn_arena_release(&scratch);
		if (!fine) {
			r->bad = r->g->values[v->id];
			return QUERN_ERR_NUMERIC;
		}
	}
	return QUERN_OK;
}

/* --- where a NaN comes from ----------------------------------------------------------------------------------------- */
static qn_status note_bad(void *user, const qn_value *v, const qn_tensor *t)
{
	bool *bad = user;
	int64_t n = qn_dtype_is_float(t->type) ? qn_tensor_count(t) : 0;
	for (int64_t i = 0; i < n && !bad[v->id]; i++) {
		double x = qn_tensor_get(t, i);
		bad[v->id] = isnan(x) || (isinf(x) && x > 0);
	}
	return QUERN_OK;
}

/* Back along operands that are bad already; the node reached is the one that made it. */
static qn_status blame(run *r, qn_exec *e, const qn_tensor *const *in, qn_arena *a)
{
	bool *bad = QN_NEW(a, bool, r->g->n_values);
	qn_tensor *out = QN_NEW(a, qn_tensor, r->g->n_outputs + 1);
	QN_TRY(qn_exec_all(e, in, a, out, note_bad, bad));
	const qn_value *v = r->bad;
	for (const qn_node *n = v->producer; n; n = v->producer) {
		const qn_value *from = NULL;
		for (int i = 0; i < n->n_in && !from; i++)
			from = n->in[i] && bad[n->in[i]->id] ? n->in[i] : NULL;
		if (!from)
			QN_FAIL(r->g->ctx, QUERN_ERR_NUMERIC, "node '%s' (%s) makes NaN or infinity in '%s'; no range can be chosen for it",
				n->name, n->op_type, v->name);
		v = from;
	}
	QN_FAIL(r->g->ctx, QUERN_ERR_NUMERIC, "input '%s' holds NaN or infinity", v->name);
}

/* --- all samples ------------------------------------------------------------------------------------------------------ */
/* Short samples run side by side, so that weights pass through the caches once for all of them; a long one runs alone, for its activations
 * take the room. Which do follows from the samples in their order. */
enum { MOST_TOGETHER = 8, INPUT_BYTES = 8 << 10 };

typedef struct group {
	qn_exec *e[MOST_TOGETHER];
	const qn_tensor **in[MOST_TOGETHER];
	int half[MOST_TOGETHER];
	size_t first, n;
} group;

static qn_status fill(run *r, group *p, qn_samples *samples, size_t from, qn_arena *a)
{
	size_t bytes = 0;
	p->first = from;
	for (p->n = 0; p->n < MOST_TOGETHER && from + p->n < qn_samples_count(samples) && bytes < INPUT_BYTES; p->n++) {
		const qn_tensor **in = p->in[p->n] = QN_NEW(a, const qn_tensor *, r->g->n_inputs + 1);
		QN_TRY(qn_samples_read(samples, from + p->n, a, in));
		p->half[p->n] = (int)(qn_samples_rank(samples, from + p->n) & 1);
		for (int i = 0; i < r->g->n_inputs; i++)
			bytes += qn_tensor_bytes(in[i]);
	}
	return QUERN_OK;
}

static qn_status observe_all(run *r, group *p, qn_value *v, size_t *at)
{
	for (size_t i = 0; v && i < p->n; i++) {
		*at = i;
		r->c->half = p->half[i];
		const qn_tensor *t = qn_exec_value(p->e[i], v);
		if (t)
			QN_TRY(observe(r, v, t));
	}
	return QUERN_OK;
}

/* *at: the sample that a failure is of; p->n where it may be any. */
static qn_status run_together(run *r, group *p, size_t *at)
{
	for (*at = 0; *at < p->n; ++*at)
		QN_TRY(qn_exec_begin(p->e[*at], p->in[*at]));
	for (int i = 0; i < r->g->n_inputs; i++)
		QN_TRY(observe_all(r, p, r->g->inputs[i], at));
	for (qn_node *n = r->g->first; n; n = n->next) {
		if (!qn_exec_needs(n))
			continue;
		*at = p->n;
		QN_TRY(qn_exec_step_many(p->e, p->n, n));
		for (int i = 0; i < n->n_out; i++)
			QN_TRY(observe_all(r, p, n->out[i], at));
		for (size_t i = 0; i < p->n; i++)
			qn_exec_finish(p->e[i], n);
	}
	return QUERN_OK;
}

/* A failed node's sample is found by running each alone. */
static qn_status explain(run *r, group *p, qn_samples *samples, qn_status status, size_t at, qn_arena *a)
{
	qn_tensor *out = QN_NEW(a, qn_tensor, r->g->n_outputs + 1);
	if (at < p->n && r->bad)
		status = blame(r, p->e[at], p->in[at], a);
	for (size_t i = 0; at == p->n && i < p->n; i++)
		if (qn_exec_all(p->e[i], p->in[i], a, out, NULL, NULL) != QUERN_OK)
			at = i;
	return at < p->n ? qn_prefix(r->g->ctx, status, "sample '%s'", qn_samples_name(samples, p->first + at)) : status;
}

static qn_status run_group(run *r, group *p, qn_pass_env *env, size_t from)
{
	qn_arena a;
	qn_arena_init(&a, r->g->ctx);
	qn_status status = fill(r, p, env->samples, from, &a);
	if (status == QUERN_OK) {
		size_t at;
		status = run_together(r, p, &at);
		if (status != QUERN_OK)
			status = explain(r, p, env->samples, status, at, &a);
	}
	qn_arena_release(&a);
	return status;
}

qn_status qn_calibration_run(qn_graph *g, qn_pass_env *env)
{
	run r = {.g = g, .c = env->calibration};
	if (!watch(&r, env->scratch, env->calibration))
		return QUERN_OK;
	qn_arena keep;
	qn_arena_init(&keep, g->ctx);
	qn_consts *consts = qn_consts_new(g, &keep);
	group p = {0};
	for (size_t i = 0; i < MOST_TOGETHER; i++)
		p.e[i] = qn_exec_new(consts, &keep);
	size_t n = qn_samples_count(env->samples);
	qn_status status = QUERN_OK;
	for (size_t i = 0; i < n && status == QUERN_OK; i += p.n) {
		status = run_group(&r, &p, env, i);
		if (status == QUERN_OK && g->ctx->progress && !g->ctx->progress(g->ctx->progress_user, "calibrate", i + p.n, n))
			status = qn_fail(g->ctx, QUERN_ERR_CANCELLED, "stopped");
	}
	qn_arena_release(&keep);
	return status;
}
