/* calibrate_run.c - the float graph over all samples, tensor by tensor. */
#include "graph/exec.h"
#include "graph/samples.h"
#include "passes/stats.h"

#include <math.h>

typedef struct run {
	qn_graph *g;
	qn_stats **layer, **output; /* by value id; NULL for values that are not watched */
	qn_see_fn see;
	void *user;
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

static bool all_plain(const float *x, int64_t n, float mask_floor)
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
		r->see(r->user, s, x, n / s->channels, x, n, scratch);
		return true;
	}
	float *zeroed = QN_NEW(scratch, float, n), *clean = QN_NEW(scratch, float, n);
	bool bad = false;
	int64_t kept = unmask(x, n, s->mask_floor, zeroed, clean, &bad);
	if (!bad)
		r->see(r->user, s, zeroed, n / s->channels, clean, kept, scratch);
	return !bad;
}

static qn_status observe(void *user, const qn_value *v, const qn_tensor *t)
{
	run *r = user;
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
static qn_status one(run *r, qn_exec *e, qn_samples *samples, size_t i, qn_arena *a)
{
	const qn_tensor **in = QN_NEW(a, const qn_tensor *, r->g->n_inputs + 1);
	qn_tensor *out = QN_NEW(a, qn_tensor, r->g->n_outputs + 1);
	QN_TRY(qn_samples_read(samples, i, a, in));
	qn_status status = qn_exec_all(e, in, a, out, observe, r);
	if (status != QUERN_OK && r->bad)
		status = blame(r, e, in, a);
	return status == QUERN_OK ? status : qn_prefix(r->g->ctx, status, "sample '%s'", qn_samples_name(samples, i));
}

qn_status qn_calibration_run(qn_graph *g, qn_pass_env *env, const char *stage, qn_see_fn see, void *user)
{
	run r = {.g = g, .see = see, .user = user};
	if (!watch(&r, env->scratch, env->calibration))
		return QUERN_OK;
	qn_arena keep;
	qn_arena_init(&keep, g->ctx);
	qn_exec *e = qn_exec_new(qn_consts_new(g, &keep), &keep);
	size_t n = qn_samples_count(env->samples);
	qn_status status = QUERN_OK;
	for (size_t i = 0; i < n && status == QUERN_OK; i++) {
		qn_arena a;
		qn_arena_init(&a, g->ctx);
		env->calibration->half = (int)(qn_samples_rank(env->samples, i) & 1);
		status = one(&r, e, env->samples, i, &a);
		qn_arena_release(&a);
		if (status == QUERN_OK && g->ctx->progress && !g->ctx->progress(g->ctx->progress_user, stage, i + 1, n))
			status = qn_fail(g->ctx, QUERN_ERR_CANCELLED, "stopped");
	}
	qn_arena_release(&keep);
	return status;
}
