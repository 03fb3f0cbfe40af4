/* gptq.c - the walk: both streams go through the graph node by node, and the layers that read one tensor are rounded when it is there. */
#include "passes/config.h"
#include "passes/gptq/driver.h"

enum { MOST_IN_GROUP = 64 };

/* Every layer gets a bias of its own, which the rounding changes. */
static qn_status give_biases(qn_graph *g, qn_plan *p)
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

static qn_gptq_settings settings_for(const qn_streams *s)
{
	enum { MANY_ROWS = 7000, MANY_SAMPLES = 200 };
	int64_t tokens = s->tokens * (int64_t)(1 + s->copies);
	return (qn_gptq_settings){.damping = {.by = tokens > MANY_ROWS ? 0.1 : 0.3},
		.alpha = s->samples >= MANY_SAMPLES ? 0.8 : 0.6,
		.centre = true,
		.sequential = true,
		.compensate = true,
		.residual = true,
		.rounding = {.trial = true, .descents = 3}};
}

/* The walk, and what it holds for the layers that were rounded but not yet run. */
typedef struct walk {
	qn_graph *g;
	qn_plan *p;
	qn_streams s;
	qn_gptq_settings o;
	size_t done, total;   /* layers */
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
	if (w->g->ctx->progress && !w->g->ctx->progress(w->g->ctx->progress_user, "gptq", w->done, w->total))
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
	QN_TRY(give_biases(g, p));
	QN_TRY(qn_streams_open(g, samples, p->config->copies, scratch, &kept->s));
	kept->o = settings_for(&kept->s);
	return run(kept);
}
