/* measure.c - the error of the graph's outputs with one unit quantized and all else in float.
 *
 * The float run goes node by node over all samples side by side. Before a unit's first layer it stops, and for each width a run forks off that reads the
 * rounded weight, or the rounded activation, and goes to the end. So what comes before the layer is computed once, and only the activations of one point are kept. Widths over 4 bits do so
 * little that a share of the samples tells enough. */
#include "passes/tune/tuner.h"

enum { SHARE = 4, ENOUGH = 6 }; /* one batch in SHARE, but not fewer than ENOUGH */

typedef struct pass {
	qn_tuner *t;
	qn_exec **exact, **fork; /* one a batch */
	size_t *part;            /* batches for wide candidates */
	size_t n_part;
	double *work;            /* by unit: of what is measured, in multiply-adds a row of samples */
	double done, total;
} pass;

static qn_status progress(pass *p, double work)
{
	enum { STEPS = 1000 };
	qn_ctx *ctx = p->t->ctx;
	p->done += work;
	size_t at = p->total > 0 ? (size_t)(p->done / p->total * STEPS + 0.5) : STEPS;
	if (ctx->progress && !ctx->progress(ctx->progress_user, "sensitivity", at < STEPS ? at : STEPS, STEPS))
		QN_FAIL(ctx, QUERN_ERR_CANCELLED, "stopped");
	return QUERN_OK;
}

/* The layer of a unit whose activation codes would hold. */
static const qn_layer *layer_at(const qn_unit *u, const qn_node *n)
{
	for (size_t i = 0; u && i < u->n; i++)
		if (u->layers[i]->node == n && u->layers[i]->role != QN_ROLE_EMBEDDING)
			return u->layers[i];
	return NULL;
}

/* rounds: the unit whose activations are rounded; NULL: none. */
static qn_status run_from(qn_tuner *t, qn_exec **e, size_t count, qn_node *from, const qn_unit *rounds, qn_arena *a)
{
	for (qn_node *n = from; n; n = n->next) {
		if (!qn_exec_needs(n))
			continue;
		const qn_layer *l = layer_at(rounds, n);
		if (l)
			QN_TRY(qn_acts_round(t, l, e, count, a));
		qn_status status = qn_exec_step_many(e, count, n);
		if (l)
			qn_acts_restore(l, e, count);
		QN_TRY(status);
		for (size_t b = 0; b < count; b++)
			qn_exec_finish(e[b], n);
	}
	return QUERN_OK;
}

/* In all forked runs. */
static void set_weight(pass *p, const qn_unit *u, const qn_variant *v)
{
	for (size_t i = 0; i < u->n; i++) {
		const qn_layer *l = u->layers[i];
		for (size_t b = 0; b < p->t->streams.n; b++) {
			qn_exec_override(p->fork[b], l->node->in[l->weight_in], v ? v->weight : NULL);
			if (i == 0 && qn_node_has_in(l->node, 2) && (!v || v->bias))
				qn_exec_override(p->fork[b], l->node->in[2], v ? v->bias : NULL);
		}
	}
}

/* With another weight, or, v NULL, with rounded activations. */
static qn_status measure_one(pass *p, const qn_unit *u, const qn_variant *v, bool narrow, qn_arena *a, qn_output_error *out)
{
	qn_tuner *t = p->t;
	qn_graph *g = t->model->graph;
	size_t n = narrow ? t->streams.n : p->n_part;
	qn_exec **run = QN_NEW(a, qn_exec *, n);
	for (size_t i = 0; i < n; i++) {
		size_t b = narrow ? i : p->part[i];
		run[i] = p->fork[b];
		qn_exec_fork(run[i], p->exact[b]);
	}
	set_weight(p, u, v);
	qn_status status = run_from(t, run, n, u->layers[0]->node, v ? NULL : u, a);
	set_weight(p, u, NULL);
	QN_TRY(status);
	const qn_tensor **outputs = QN_NEW(a, const qn_tensor *, g->n_outputs);
	qn_output_sums sums = {0};
	for (size_t i = 0; i < n; i++) {
		for (int k = 0; k < g->n_outputs; k++)
			outputs[k] = qn_exec_value(run[i], g->outputs[k]);
		qn_outputs_add(t, t->exact[narrow ? i : p->part[i]], outputs, &sums);
	}
	*out = qn_outputs_error(&sums);
	return QUERN_OK;
}

/* What a width's run costs against one over all samples. */
static double share(const pass *p, const qn_candidate *c) { return c->bits <= 4 ? 1 : (double)p->n_part / (double)p->t->streams.n; }

static bool wants_act(const pass *p, const qn_unit *u) { return p->t->options->activations && u->act_open && !u->act.known; }

/* Runs over all samples that a unit's measuring takes. */
static double runs_for(const pass *p, const qn_unit *u)
{
	double n = wants_act(p, u) ? 1 : 0;
	for (int c = 0; c < u->n_candidates; c++)
		n += u->candidates[c].known ? 0 : share(p, &u->candidates[c]);
	return n;
}

static qn_status measured(pass *p, size_t index, qn_candidate *c, double work)
{
	c->known = true;
	QN_TRY(qn_state_add(p->t, index, c));
	return progress(p, work);
}

static qn_status measure_weights(pass *p, size_t index, double work, qn_arena *a)
{
	qn_unit *u = &p->t->units[index];
	bool wanted[QN_MOST_CANDIDATES], any = false;
	qn_variant v[QN_MOST_CANDIDATES];
	for (int c = 0; c < u->n_candidates; c++)
		any |= wanted[c] = !u->candidates[c].known;
	if (!any)
		return QUERN_OK;
	QN_TRY(qn_variants_make(p->t, u, wanted, a, v));
	for (int c = 0; c < u->n_candidates; c++) {
		if (!wanted[c])
			continue;
		QN_TRY(measure_one(p, u, &v[c], u->candidates[c].bits <= 4, a, &u->candidates[c].error));
		QN_TRY(measured(p, index, &u->candidates[c], work * share(p, &u->candidates[c])));
	}
	return QUERN_OK;
}

static qn_status measure_unit(pass *p, size_t index, qn_arena *a)
{
	qn_unit *u = &p->t->units[index];
	double runs = runs_for(p, u), work = p->work[index] / (runs > 0 ? runs : 1);
	QN_TRY(measure_weights(p, index, work, a));
	if (!wants_act(p, u))
		return QUERN_OK;
	QN_TRY(measure_one(p, u, NULL, true, a, &u->act.error));
	return measured(p, index, &u->act, work);
}

static qn_status measure_at(pass *p, const qn_node *n)
{
	for (size_t i = 0; i < p->t->n; i++) {
		if (p->t->units[i].layers[0]->node != n)
			continue;
		qn_arena a;
		qn_arena_init(&a, p->t->ctx);
		qn_status status = measure_unit(p, i, &a);
		qn_arena_release(&a);
		QN_TRY(status);
	}
	return QUERN_OK;
}

/* Weights met from a unit to the end, for each run, and what rounding takes for so many rows. */
static void estimate(pass *p)
{
	qn_tuner *t = p->t;
	double rows = (double)(t->streams.tokens ? t->streams.tokens : 64 * (int64_t)t->streams.samples);
	double after = 0;
	p->work = QN_NEW(t->a, double, t->n);
	for (size_t i = t->n; i-- > 0;) {
		const qn_unit *u = &t->units[i];
		const qn_layer *l = u->layers[0];
		after += l->role == QN_ROLE_EMBEDDING ? 0 : (double)u->weights;
		double n = runs_for(p, u);
		p->work[i] = n * rows * after + (n > 0 ? (double)l->k * (double)l->k * (rows + (double)l->k + (double)l->n) : 0);
		p->total += p->work[i];
	}
}

qn_status qn_measure_units(qn_tuner *t)
{
	pass p = {.t = t,
		.exact = QN_NEW(t->a, qn_exec *, t->streams.n),
		.fork = QN_NEW(t->a, qn_exec *, t->streams.n),
		.part = QN_NEW(t->a, size_t, t->streams.n)};
	size_t every = t->streams.n / ENOUGH < SHARE ? t->streams.n / ENOUGH : SHARE;
	for (size_t b = 0; b < t->streams.n; b += every ? every : 1)
		p.part[p.n_part++] = b;
	for (size_t b = 0; b < t->streams.n; b++) {
		p.exact[b] = t->streams.batch[b].exact;
		p.fork[b] = t->streams.batch[b].rounded;
		QN_TRY(qn_exec_begin(p.exact[b], t->streams.batch[b].inputs));
	}
	estimate(&p);
	if (!(p.total > 0))
		return QUERN_OK;
	QN_TRY(qn_acts_calibrate(t));
	QN_TRY(progress(&p, 0));
	for (qn_node *n = t->model->graph->first; n; n = n->next) {
		if (!qn_exec_needs(n))
			continue;
		QN_TRY(measure_at(&p, n));
		QN_TRY(qn_exec_step_many(p.exact, t->streams.n, n));
		for (size_t b = 0; b < t->streams.n; b++)
			qn_exec_finish(p.exact[b], n);
	}
	return QUERN_OK;
}
