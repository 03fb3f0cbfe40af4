/* eval.c - the compiled graph against the float graph, value by value: quern_eval, and what a report measures. */
#include "passes/eval.h"

#include "graph/npz.h"
#include "passes/config.h"
#include "passes/context.h"
#include "passes/report/report.h"
#include "passes/result_files.h"

#include <math.h>
#include <stdlib.h>

typedef qn_eval_item item;

static void find_items(quern_evaluation *e)
{
	qn_graph *f = e->exact->graph;
	qn_plan *p = &e->exact->plan;
	e->n_outputs = (size_t)f->n_outputs;
	e->items = QN_NEW(&e->arena, item, e->n_outputs + p->n);
	for (int i = 0; i < f->n_outputs; i++)
		e->items[e->n++] = (item){.exact = f->outputs[i], .output = i, .logits = qn_plan_is_logits(p, f->outputs[i])};
	for (size_t i = 0; i < p->n; i++)
		e->items[e->n++] = (item){.exact = p->layers[i].node->out[0], .output = -1, .layer = i};
}

static void find_counterparts(quern_evaluation *e)
{
	for (size_t i = 0; i < e->n; i++) {
		item *it = &e->items[i];
		const qn_layer *l = &e->got->plan.layers[it->layer];
		it->got = it->output >= 0 ? e->got->graph->outputs[it->output] : l->joined ? l->joined : l->node->out[0];
	}
}

void qn_evaluation_pair(quern_evaluation *e)
{
	find_items(e);
	find_counterparts(e);
}

/* --- one sample ----------------------------------------------------------------------------------------------------------- */
typedef struct pair {
	quern_evaluation *e;
	qn_consts *consts; /* of the float graph */
	qn_exec *exact, *got;
	item **of;         /* by value id of the compiled graph: the first item to compare; */
	item **next;       /* by item: another that compares the same value */
	qn_arena scratch;
} pair;

const qn_tensor *qn_eval_undivided(const quern_evaluation *e, const item *it, const qn_tensor *got, qn_arena *scratch)
{
	const qn_layer *l = it->output < 0 ? &e->got->plan.layers[it->layer] : NULL;
	int64_t n = l && (l->divided || l->order) ? got->dim[got->rank - 1] : 0, count = qn_tensor_count(got);
	if (!n)
		return got;
	qn_tensor *t = qn_tensor_new(scratch, QN_F32, got->rank, got->dim);
	const float *v = qn_tensor_f32(scratch, got);
	for (int64_t i = 0; i < count; i++) {
		int64_t channel = l->order ? l->order[i % n] : i % n;
		((float *)(uintptr_t)t->data)[i - i % n + channel] = l->divided ? v[i] * l->divided[channel] : v[i];
	}
	return t;
}

static qn_status compare(pair *p, item *it, const qn_tensor *computed)
{
	qn_ctx *ctx = p->e->ctx;
	const qn_tensor *got = qn_eval_undivided(p->e, it, computed, &p->scratch);
	const qn_tensor *exact = qn_exec_value(p->exact, it->exact);
	const char *name = it->output >= 0 ? p->e->exact->graph->output_names[it->output] : it->exact->name;
	if (!exact || exact->rank != got->rank || memcmp(exact->dim, got->dim, (size_t)got->rank * sizeof *got->dim))
		QN_FAIL(ctx, QUERN_ERR_INTERNAL, "'%s' has another shape in the compiled graph", name);
	int64_t bad = qn_damage_add(&it->damage, &p->scratch, exact, got);
	if (bad >= 0)
		QN_FAIL(ctx, QUERN_ERR_NUMERIC, "element %lld of '%s' is %g compiled and %g in float", (long long)bad, name,
			qn_tensor_get(got, bad), qn_tensor_get(exact, bad));
	if (it->logits)
		qn_damage_add_kl(&it->damage, &p->scratch, exact, got);
	qn_arena_release(&p->scratch);
	return QUERN_OK;
}

static qn_status observe(void *user, const qn_value *v, const qn_tensor *t)
{
	pair *p = user;
	for (item *it = p->of[v->id]; it; it = p->next[it - p->e->items])
		QN_TRY(compare(p, it, t));
	return QUERN_OK;
}

static qn_status run_pair(pair *p, const qn_tensor *const *in, const qn_eval_plan *plan, qn_arena *a)
{
	quern_evaluation *e = p->e;
	const qn_graph *g = e->got->graph;
	const char *outputs = e->samples ? NULL : plan->outputs;
	qn_tensor *out = QN_NEW(a, qn_tensor, g->n_outputs + 1);
	QN_TRY(qn_exec_all(p->exact, in, a, out, plan->see_exact, plan->user));
	g->ctx->engine_math = true;
	qn_status status = qn_exec_all(p->got, in, a, out, observe, p);
	g->ctx->engine_math = false;
	QN_TRY(status);
	if (outputs)
		QN_TRY(qn_npz_write(e->ctx, outputs, g->output_names, out, g->n_outputs));
	for (size_t k = 0; k < e->n; k++) /* results that nothing computes: inputs and constants as outputs */
		if (e->items[k].damage.samples == (int64_t)e->samples && e->items[k].output >= 0)
			QN_TRY(compare(p, &e->items[k], &out[e->items[k].output]));
	return plan->after ? plan->after(plan->user, in, &(qn_eval_pair){p->exact, p->got, p->consts}) : QUERN_OK;
}

static qn_status run_sample(pair *p, qn_samples *samples, size_t i, const qn_eval_plan *plan)
{
	qn_arena a;
	qn_arena_init(&a, p->e->ctx);
	const qn_tensor **in = QN_NEW(&a, const qn_tensor *, p->e->got->graph->n_inputs + 1);
	qn_status status = qn_samples_read(samples, i, &a, in);
	if (status == QUERN_OK) {
		status = run_pair(p, in, plan, &a);
		if (status != QUERN_OK && status != QUERN_ERR_CANCELLED)
			qn_prefix(p->e->ctx, status, "sample '%s'", qn_samples_name(samples, i));
	}
	qn_arena_release(&a);
	return status;
}

qn_status qn_evaluation_run(quern_evaluation *e, const char *path, const qn_eval_plan *plan)
{
	qn_samples *samples;
	QN_TRY(qn_samples_open(e->exact->graph, path, &e->arena, &samples));
	if (plan->outputs)
		QN_TRY(qn_source_spare(e->ctx, plan->outputs)); /* the samples are known now, and are not to be replaced */
	pair p = {.e = e, .consts = qn_consts_new(e->exact->graph, &e->arena)};
	qn_arena_init(&p.scratch, e->ctx);
	p.exact = qn_exec_new(p.consts, &e->arena);
	p.got = qn_exec_new(qn_consts_new(e->got->graph, &e->arena), &e->arena);
	p.of = QN_NEW(&e->arena, item *, e->got->graph->n_values);
	p.next = QN_NEW(&e->arena, item *, e->n);
	for (size_t i = 0; i < e->n; i++) {
		item *it = &e->items[i];
		qn_exec_hold(p.exact, it->exact);
		p.next[i] = p.of[it->got->id];
		p.of[it->got->id] = it;
	}
	e->samples_given = qn_samples_count(samples);
	size_t n = e->samples_taken = plan->most_samples && plan->most_samples < e->samples_given ? plan->most_samples : e->samples_given;
	for (e->samples = 0; e->samples < n;) {
		qn_status status = run_sample(&p, samples, e->samples * e->samples_given / n, plan);
		e->samples += status == QUERN_OK;
		if (status == QUERN_OK && e->ctx->progress && !e->ctx->progress(e->ctx->progress_user, plan->stage, e->samples, n))
			status = qn_fail(e->ctx, QUERN_ERR_CANCELLED, "stopped");
		if (status != QUERN_OK)
			qn_arena_release(&p.scratch);
		QN_TRY(status);
	}
	return QUERN_OK;
}

/* --- the result ----------------------------------------------------------------------------------------------------------- */
static int by_damage(const void *a, const void *b)
{
	const item *x = a, *y = b;
	double dx = qn_damage_sqnr(&x->damage), dy = qn_damage_sqnr(&y->damage);
	if (dx != dy)
		return dx < dy ? -1 : 1;
	return (x->layer > y->layer) - (x->layer < y->layer);
}

/* An allocation saved by an evaluation tells what each layer cost. */
static qn_status save_errors(quern_evaluation *e)
{
	for (size_t i = 0; i < e->n; i++) {
		const qn_damage *d = &e->items[i].damage;
		if (e->items[i].output >= 0 || !d->samples)
			continue;
		qn_layer_error *error = QN_NEW(&e->arena, qn_layer_error, 1);
		*error = (qn_layer_error){qn_damage_cosine(d), qn_damage_sqnr(d), d->largest};
		e->got->plan.layers[e->items[i].layer].error = error;
	}
	const char *written;
	QN_TRY(qn_model_save_bits(e->got, &e->arena, &written));
	return qn_model_saved_bits(e->got, written);
}

static qn_status evaluate(quern_evaluation *e, const char *samples, const char *outputs)
{
	const char *written;
	qn_report *report;
	qn_eval_plan plan = {.stage = "eval", .outputs = outputs};
	qn_measure *measured = NULL;
	QN_TRY(qn_model_can_save_bits(e->got, &e->arena));
	const qn_result_file files[] = {{"the outputs", outputs, NULL}, {"the allocation file", e->got->config->save_path, NULL}, {"the report", e->got->config->report_path, NULL}};
	QN_TRY(qn_result_file_check(e->ctx, &e->arena, &files[0]));
	QN_TRY(qn_report_can_write(e->ctx, &e->arena, e->got->config->report_path));
	QN_TRY(qn_result_files_differ(e->ctx, &e->arena, files, QN_LEN(files)));
	QN_TRY(qn_model_quantize(e->got));
	qn_evaluation_pair(e);
	if (e->got->config->report_path) {
		measured = qn_measure_new(e, &e->arena);
		qn_measure_hook(measured, &plan);
	}
	QN_TRY(qn_evaluation_run(e, samples, &plan));
	QN_TRY(qn_report_of_evaluation(e, measured, samples, &e->arena, &report));
	qsort(e->items + e->n_outputs, e->n - e->n_outputs, sizeof *e->items, by_damage);
	QN_TRY(qn_report_save(e->got, &e->arena, report, NULL, 0, &written));
	QN_TRY(save_errors(e));
	return qn_report_saved(e->got, written);
}

quern_status quern_eval(quern_context *context, const char *model, const quern_config *config, const char *samples, const char *outputs,
	quern_evaluation **out)
{
	*out = NULL;
	qn_ctx *ctx = &context->ctx;
	QN_ENTER(ctx, saved, buf);
	quern_evaluation *e = qn_heap(ctx, NULL, 0, sizeof *e);
	*e = (quern_evaluation){.ctx = ctx};
	qn_arena_init(&e->arena, ctx);
	jmp_buf inner;
	qn_status status = QUERN_OK;
	ctx->on_memory = &inner;
	if (setjmp(inner)) {
		status = qn_fail(ctx, QUERN_ERR_MEMORY, "out of memory while evaluating '%s'", model);
	} else {
		status = quern_model_load(context, model, config, &e->exact);
		if (status == QUERN_OK)
			status = quern_model_load(context, model, config, &e->got);
		if (status == QUERN_OK)
			status = evaluate(e, samples, outputs);
	}
	if (status == QUERN_OK)
		*out = e;
	else
		quern_evaluation_free(e);
	QN_LEAVE(ctx, saved);
	return status;
}

void quern_evaluation_free(quern_evaluation *e)
{
	if (!e)
		return;
	qn_arena_release(&e->arena); /* before the graphs that its executors run */
	quern_model_free(e->exact);
	quern_model_free(e->got);
	qn_heap(e->ctx, e, sizeof *e, 0);
}

size_t quern_evaluation_samples(const quern_evaluation *e) { return e->samples; }
size_t quern_evaluation_count(const quern_evaluation *e) { return e->n; }

void quern_evaluation_get(const quern_evaluation *e, size_t i, quern_damage *out)
{
	const item *it = &e->items[i];
	const qn_damage *d = &it->damage;
	*out = (quern_damage){.is_output = it->output >= 0,
		.value = it->exact->name,
		.role = "",
		.cosine = qn_damage_cosine(d),
		.sqnr_db = qn_damage_sqnr(d),
		.largest_error = d->largest,
		.kl_bits = qn_damage_kl(d)};
	if (out->is_output) {
		out->name = e->exact->graph->output_names[it->output];
		return;
	}
	const qn_layer *l = &e->got->plan.layers[it->layer];
	out->layer = it->layer;
	out->name = l->name;
	out->role = qn_role_name(l->role);
	out->form = qn_form_name(l->form);
	out->weight_bits = l->weight_bits;
	out->act_bits = l->act_bits;
}
