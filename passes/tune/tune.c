/* tune.c - the public calls: measure, choose, write. */
#include "passes/allocation.h"
#include "passes/context.h"
#include "passes/fingerprint.h"
#include "passes/gptq/driver.h"
#include "passes/gptq/layer.h"
#include "passes/quant/qscheme.h"
#include "passes/report/report.h"
#include "passes/result_files.h"
#include "passes/tune/result.h"
#include "passes/tune/search.h"


static qn_status check_options(const qn_tuner *t)
{
	qn_ctx *ctx = t->ctx;
	const quern_config *c = t->config;
	const quern_tune_options *o = t->options;
	int targets = (o->max_bytes > 0) + (o->max_bits > 0 || o->max_bits < 0) + (o->min_cosine > 0 || o->min_cosine < 0);
	if (targets != 1)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "give one target: a largest size, the most bits a weight, or a least cosine");
	if (!(o->max_bits >= 0 && o->max_bits <= 32))
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "the most bits a weight cannot be %g; allowed: over 0, at most 32", o->max_bits);
	if (!(o->min_cosine >= 0 && o->min_cosine < 1))
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "the least cosine cannot be %g; allowed: over 0, below 1", o->min_cosine);
	if (!(o->act_share >= 0 && o->act_share <= 1000))
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "the share of activations cannot be %g; allowed: over 0, at most 1000", o->act_share);
	if (o->check_samples && !(o->min_cosine > 0) && !o->checks)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "nothing would be executed on '%s': that takes a least cosine, or points of the curve (--check-points)", o->check_samples);
	if (!c->calib_path)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "tuning needs samples to measure on: give some with --calib");
	if (c->load_path)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "tuning makes an allocation; it cannot start from '%s'", c->load_path);
	if (c->save_path && *c->save_path)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "tuning writes one allocation, '%s'; it would not write '%s'", t->output, c->save_path);
	if (c->target != QN_TARGET_TRACT)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "tuning is for the target tract: other targets have no quantized weights");
	return QUERN_OK;
}

/* Before the work, and again once the samples are known, which are not to be replaced. */
static qn_status check_files(const qn_tuner *t)
{
	static const qn_result_kind curve = {"curve", {QN_TUNING_RESULT_BEGINS, NULL}};
	const qn_result_file files[] = {{"the allocation file", t->output, &qn_allocation_kind}, {"the tuning state", t->state_path, NULL},
		{"the curve", t->options->curve, &curve}, {"the report", t->config->report_path, NULL}};
	for (size_t i = 0; i < QN_LEN(files); i++)
		QN_TRY(qn_result_file_check(t->ctx, t->a, &files[i]));
	QN_TRY(qn_report_can_write(t->ctx, t->a, t->config->report_path));
	return qn_result_files_differ(t->ctx, t->a, files, QN_LEN(files));
}

/* Everything that measured errors depend on. */
static qn_status key_of(qn_tuner *t, const char **key)
{
	quern_config c = *t->config;
	qn_arena a;
	qn_arena_init(&a, t->ctx);
	c.arena = a;
	c.save_path = NULL;
	const char *json;
	qn_status status = quern_config_write(&c, &json);
	if (status == QUERN_OK) {
		const char *text = qn_arena_printf(&c.arena, "%s\n%s\n%d %d", t->model->plan.fingerprint, json, (int)t->config->rounding, (int)t->options->embeddings);
		qn_hash *h = qn_hash_new(&c.arena);
		qn_hash_text(h, text);
		for (size_t i = 0; i < t->config->n_sets; i++)
			qn_hash_text(h, qn_arena_printf(&c.arena, "%s=%lld", t->config->sets[i].symbol, (long long)t->config->sets[i].size));
		for (size_t b = 0; b < t->streams.n; b++)
			for (int i = 0; i < t->model->graph->n_inputs; i++)
				qn_hash_tensor(h, t->streams.batch[b].inputs[i]);
		*key = qn_hash_digits(h, t->a);
	}
	qn_arena_release(&c.arena);
	return status;
}

static qn_status prepare(qn_tuner *t)
{
	qn_graph *g = t->model->graph;
	QN_TRY(qn_units_make(t));
	QN_TRY(qn_units_apply(t, t->model)); /* the narrowest: forms that a rounding by samples takes */
	if (t->config->rounding == QN_ROUND_GPTQ) {
		qn_gptq_mark(&t->model->plan, "gptq", true);
		QN_TRY(qn_gptq_give_biases(g, &t->model->plan));
		for (size_t i = 0; i < t->model->plan.n; i++) /* nothing is rounded here */
			t->model->plan.layers[i].rounding = t->model->plan.layers[i].rounding_note = NULL;
	}
	QN_TRY(qn_samples_open(g, t->config->calib_path, t->a, &t->samples));
	QN_TRY(qn_samples_sort(t->samples)); /* sums do not depend on the names of files */
	QN_TRY(qn_streams_open(g, t->samples, 0, t->a, &t->streams));
	QN_TRY(check_files(t));
	QN_TRY(qn_outputs_begin(t));
	QN_TRY(qn_size_estimate(t));
	QN_TRY(qn_search_can_meet(t));
	QN_TRY(qn_checks_open(t)); /* ahead of what takes long */
	t->kl = !(t->options->min_cosine > 0) && qn_plan_logits_tell_all(&t->model->plan, g);
	const char *key;
	QN_TRY(key_of(t, &key));
	return qn_state_open(t, t->state_path, key);
}

/* --- the result --------------------------------------------------------------------------------------------------------------- */
/* What a report shows is of the compiled model too. Else compiling is left to whoever loads the allocation. */
static qn_status realise(qn_tuner *t, qn_report **report)
{
	*report = NULL;
	if (!t->realised && !t->config->report_path)
		return QUERN_OK;
	if (!t->realised)
		QN_TRY(qn_realise(t, &t->realised));
	t->realised->plan.tuning = t->model->plan.tuning;
	return qn_report_of_compile(t->realised, "tune", t->a, report);
}

static qn_status write_files(qn_tuner *t, quern_tuning *r)
{
	const char *allocation, *written;
	qn_report *report;
	t->model->plan.tuning = &r->tuning;
	QN_TRY(qn_units_apply(t, t->model));
	QN_TRY(realise(t, &report));
	const quern_model *m = qn_needs_compiling(t) ? t->realised : t->model;
	QN_TRY(qn_model_save_bits(m, t->a, &allocation));
	QN_TRY(qn_report_save(t->model, t->a, report, NULL, 0, &written));
	if (t->options->curve)
		QN_TRY(qn_file_replace(t->ctx, t->a, t->options->curve, r->json, strlen(r->json)));
	QN_TRY(qn_model_saved_bits(m, allocation));
	QN_TRY(qn_report_saved(t->model, written));
	if (!t->options->state)
		qn_state_remove(t);
	return QUERN_OK;
}

static qn_status measure_and_choose(qn_tuner *t, quern_tuning *r)
{
	qn_solution s;
	double measured;
	QN_TRY(qn_measure_units(t));
	qn_solve(t, &s);
	QN_TRY(qn_search(t, &s, &measured));
	qn_result_curve(t, &s, r);
	QN_TRY(qn_check_curve(t, &s, &r->tuning));
	qn_result_choice(t, &s, measured, r);
	qn_text json = {.arena = &r->arena};
	qn_result_json(t, &s, r, &json);
	r->json = json.s;
	return write_files(t, r);
}

static qn_status tune(qn_tuner *t, quern_tuning *r)
{
	QN_TRY(check_options(t));
	t->state_path = t->options->state ? t->options->state : qn_arena_printf(t->a, "%s.partial", t->output);
	QN_TRY(check_files(t));
	t->config->save_path = t->output;
	if (!t->config->rounding_asked)
		t->config->rounding = QN_ROUND_GPTQ;
	QN_TRY(quern_model_load(t->config->context, t->model_path, t->config, &t->model));
	if (t->options->check_samples)
		qn_source_note_path(t->ctx, t->options->check_samples);
	QN_TRY(prepare(t));
	qn_status status = measure_and_choose(t, r);
	if (status == QUERN_ERR_CANCELLED)
		return qn_fail(t->ctx, status, "stopped; what was measured is kept, and the same command goes on from there");
	if (status != QUERN_OK && !t->options->state)
		qn_log(t->ctx, QUERN_LOG_WARN, "'%s' keeps what was measured: the next tuning of these widths, to whatever target, goes on from there", t->state_path);
	return status;
}

quern_status quern_tune(quern_context *context, const char *model, const quern_config *config, const quern_tune_options *options, const char *output,
	quern_tuning **out)
{
	qn_ctx *ctx = &context->ctx;
	if (out)
		*out = NULL;
	QN_ENTER(ctx, saved, buf);
	quern_tuning *r = qn_heap(ctx, NULL, 0, sizeof *r);
	*r = (quern_tuning){.ctx = ctx};
	qn_arena_init(&r->arena, ctx);
	qn_arena a;
	qn_arena_init(&a, ctx);
	quern_config own = *config;
	quern_tune_options settled = *options;
	settled.act_share = options->act_share > 0 || options->act_share < 0 ? options->act_share : 1;
	qn_tuner t = {.ctx = ctx, .a = &a, .model_path = model, .output = output, .config = &own, .options = &settled};
	jmp_buf inner;
	qn_status status;
	ctx->on_memory = &inner;
	if (setjmp(inner))
		status = qn_fail(ctx, QUERN_ERR_MEMORY, "out of memory while tuning '%s'", model);
	else
		status = tune(&t, r);
	qn_arena_release(&a); /* before the graph that its executors run */
	quern_model_free(t.realised);
	quern_model_free(t.ranged);
	quern_model_free(t.model);
	if (status == QUERN_OK && out)
		*out = r;
	else
		quern_tuning_free(r);
	QN_LEAVE(ctx, saved);
	return status;
}
