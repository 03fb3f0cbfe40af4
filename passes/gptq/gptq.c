/* gptq.c - the walk: both streams go through the graph node by node, and the layers that read one tensor are rounded when it is there. */
#include "passes/config.h"
#include "passes/gptq/driver.h"
#include "passes/gptq/forecast.h"
#include "passes/gptq/permute.h"

enum { MOST_IN_GROUP = 64, PERCENT = 100 };

qn_status qn_gptq_give_biases(qn_graph *g, qn_plan *p)
{
	for (qn_layer *l = p->layers; l < p->layers + p->n; l++) {
		qn_value *old = l->rounding && qn_node_has_in(l->node, 2) ? l->node->in[2] : NULL;
		if (!l->rounding || (old && old->n_uses == 1))
			continue;
		const qn_tensor *t = qn_tensor_new(g->arena, QN_F32, 1, &l->n);
		if (old)
			QN_TRY(qn_graph_load(g, old, g->arena, &t));
		qn_value *own = qn_graph_const(g, old ? old->name : qn_arena_printf(g->arena, "%s.bias", l->weight), t);
		own->weight = old && old->weight ? old->weight : own->name;
		qn_node_set_input(g, l->node, 2, own);
	}
	return QUERN_OK;
}

static qn_gptq_settings settings_for(const qn_streams *s, const qn_gptq_config *c)
{
	enum { MANY_SAMPLES = 200 };
	return (qn_gptq_settings){.damping = {.by = c->damping},
		.alpha = c->alpha > 0 ? c->alpha : s->samples >= MANY_SAMPLES ? 0.8 : 0.6,
		.centre = c->centre,
		.sequential = c->sequential,
		.compensate = c->compensate,
		.residual = c->residual,
		.rounding = {.trial = c->trial, .descents = c->descents}};
}

/* The walk, and what it holds for the layers that were rounded but not yet run. */
typedef struct walk {
	qn_graph *g;
	qn_plan *p;
	qn_streams s;
	qn_gptq_settings o;
	qn_gptq_forecast forecast;
	size_t done, total;   /* layers */
	double progress;      /* share of the work */
	qn_arena *values;     /* by layer: the first of a group holds what the rounded stream reads for all of it */
	qn_layer **last;      /* by layer: the last of the group, by whose run all have run */
} walk;

static void release_values(void *arg)
{
	walk *w = arg;
	for (size_t i = 0; i < w->p->n; i++)
		qn_arena_release(&w->values[i]);
}

static qn_status round_readers(walk *w, qn_layer *first)
{
	qn_layer *group[MOST_IN_GROUP];
	size_t n = qn_gptq_group(w->p, first, group, MOST_IN_GROUP);
	QN_TRY(qn_gptq_round_group(w->g, w->p, &w->s, &w->o, group, n, &w->values[first - w->p->layers]));
	w->last[first - w->p->layers] = group[n - 1];
	w->done += n;
	w->progress += w->forecast.share[first - w->p->layers];
	size_t percent = w->done == w->total ? PERCENT : (size_t)(w->progress * (PERCENT - 1));
	if (w->g->ctx->progress && !w->g->ctx->progress(w->g->ctx->progress_user, "gptq", percent, PERCENT))
		QN_FAIL(w->g->ctx, QUERN_ERR_CANCELLED, "stopped");
	return QUERN_OK;
}

/* A layer that has run needs its weight no more; the rounded values of a group go with its last layer. */
static void forget(walk *w, qn_layer *l)
{
	qn_consts_forget(w->s.consts, l->node->in[1]);
	for (size_t i = 0; i < w->p->n; i++)
		if (w->last[i] == l) {
			qn_arena_release(&w->values[i]);
			w->last[i] = NULL;
		}
}

static qn_status run(walk *w)
{
	QN_TRY(qn_streams_begin(&w->s));
	for (qn_node *n = w->g->first; n && w->done < w->total; n = n->next) {
		if (!qn_exec_needs(n))
			continue;
		qn_layer *l = qn_plan_find(w->p, n);
		bool marked = l && (l->rounding || l->ready_weight);
		if (marked && !l->ready_weight)
			QN_TRY(round_readers(w, l));
		QN_TRY(qn_streams_step(&w->s, n));
		if (marked)
			forget(w, l);
	}
	return QUERN_OK;
}

static void say_before(const walk *w, size_t permuted)
{
	const qn_streams *s = &w->s;
	qn_log(w->g->ctx, QUERN_LOG_INFO, "gptq: %zu layers by %zu samples, %zu varied copies of each; %zu hidden tensors sorted; about %.0f s and %.0f MB",
		w->total, s->samples, s->copies, permuted, w->forecast.seconds + 0.5,
		(double)w->forecast.bytes / 1e6);
}

static void say_after(const walk *w)
{
	size_t plain = 0, targets = 0;
	for (size_t i = 0; i < w->p->n; i++) {
		plain += !w->p->layers[i].rounding && w->p->layers[i].rounding_note;
		targets += w->p->layers[i].rounding && w->p->layers[i].rounding_note;
	}
	if (plain)
		qn_log(w->g->ctx, QUERN_LOG_INFO, "gptq: %zu layers keep plain rounding", plain);
	if (targets)
		qn_log(w->g->ctx, QUERN_LOG_INFO, "gptq: %zu layers have plain targets, for their results are added to no stream", targets);
}

qn_status qn_gptq_run(qn_graph *g, qn_plan *p, qn_samples *samples, qn_arena *scratch)
{
	walk w = {.g = g, .p = p, .values = QN_NEW(scratch, qn_arena, p->n), .last = QN_NEW(scratch, qn_layer *, p->n)};
	qn_gptq_mark(p, "gptq", true);
	for (size_t i = 0; i < p->n; i++) {
		qn_arena_init(&w.values[i], g->ctx);
		w.total += p->layers[i].rounding != NULL;
	}
	if (!w.total)
		return QUERN_OK;
	walk *kept = QN_NEW(scratch, walk, 1);
	*kept = w;
	qn_arena_defer(scratch, release_values, kept);
	size_t permuted = 0;
	if (p->config->gptq.permute)
		QN_TRY(qn_gptq_permute(g, p, scratch, &permuted));
	QN_TRY(qn_gptq_give_biases(g, p));
	QN_TRY(qn_streams_open(g, samples, p->config->gptq.copies, scratch, &kept->s));
	kept->o = settings_for(&kept->s, &p->config->gptq);
	kept->forecast = qn_gptq_foretell(p, &kept->s, &kept->o, scratch);
	say_before(kept, permuted);
	QN_TRY(run(kept));
	say_after(kept);
	return QUERN_OK;
}
