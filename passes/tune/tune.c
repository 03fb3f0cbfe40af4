/* tune.c - the public calls: measure, choose, write. */
#include "passes/allocation.h"
#include "passes/context.h"
#include "passes/fingerprint.h"
#include "passes/gptq/driver.h"
#include "passes/gptq/layer.h"
#include "passes/quant/qscheme.h"
#include "passes/tune/result.h"
#include "passes/tune/search.h"

#include <math.h>

static qn_status check_options(qn_ctx *ctx, const quern_config *c, const quern_tune_options *o, const char *output)
{
	int targets = (o->max_bytes > 0) + (o->max_bits > 0 || o->max_bits < 0) + (o->min_cosine > 0 || o->min_cosine < 0);
	if (targets != 1)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "give one target: a largest size, the most bits a weight, or a least cosine");
	if (!(o->max_bits >= 0 && o->max_bits <= 32))
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "the most bits a weight cannot be %g; allowed: over 0, at most 32", o->max_bits);
	if (!(o->min_cosine >= 0 && o->min_cosine < 1))
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "the least cosine cannot be %g; allowed: over 0, below 1", o->min_cosine);
	if (!c->calib_path)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "tuning needs samples to measure on: give some with --calib");
	if (c->load_path)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "tuning makes an allocation; it cannot start from '%s'", c->load_path);
	if (c->save_path && *c->save_path)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "tuning writes one allocation, '%s'; it would not write '%s'", output, c->save_path);
	if (c->target != QN_TARGET_TRACT)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "tuning is for the target tract: other targets have no quantized weights");
	const char *const files[] = {output, o->state, o->curve};
	for (size_t i = 0; i < QN_LEN(files); i++)
		for (size_t k = i + 1; k < QN_LEN(files); k++)
			if (files[i] && files[k] && !strcmp(files[i], files[k]))
				QN_FAIL(ctx, QUERN_ERR_CONFIG, "'%s' cannot be two of the files that a tuning writes", files[i]);
	return QUERN_OK;
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

static qn_status prepare(qn_tuner *t, const char *output)
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
	t->other_bytes = qn_model_other_bytes(t->model);
	for (size_t i = 0; i < t->model->plan.n; i++)
		t->other_bytes += t->model->plan.layers[i].role ? 0 : t->model->plan.layers[i].bytes;
	QN_TRY(qn_samples_open(g, t->config->calib_path, t->a, &t->samples));
	QN_TRY(qn_streams_open(g, t->samples, 0, t->a, &t->streams));
	QN_TRY(qn_model_can_save_bits(t->model, t->a)); /* the samples are known now, and are not to be replaced */
	QN_TRY(qn_outputs_begin(t));
	t->kl = t->any_logits && !(t->options->min_cosine > 0);
	const char *key;
	QN_TRY(key_of(t, &key));
	return qn_state_open(t, t->options->state ? t->options->state : qn_arena_printf(t->a, "%s.partial", output), key);
}

/* --- the result ------------------------------------------------------------------------------------------------------------- */
static qn_curve_point point_of(const qn_tuner *t, uint64_t bytes, double error)
{
	return (qn_curve_point){.bytes = qn_total_bytes(t, bytes), .bits = qn_bits_a_weight(t, bytes), .error = error > 0 ? error : 0, .measured = NAN};
}

static void make_curve(const qn_tuner *t, const qn_solution *s, quern_tuning *r)
{
	qn_tuning *u = &r->tuning;
	*u = (qn_tuning){.measure = t->kl ? "kl" : "cosine", .samples = t->streams.samples, .n = s->n_hull};
	u->points = QN_NEW(&r->arena, qn_curve_point, s->n_hull);
	for (size_t i = 0; i < s->n_hull; i++) {
		const qn_hull_point *h = &s->hull[i];
		u->points[i] = point_of(t, h->bytes, h->error);
		if (h->group == SIZE_MAX)
			continue;
		u->points[i].changed = qn_arena_strdup(&r->arena, t->units[h->group].layers[0]->name);
		u->points[i].weight_bits = t->units[h->group].candidates[h->choice].bits;
	}
}

static void count_layers(const qn_tuner *t, quern_tuning *r)
{
	for (size_t i = 0; i < t->n; i++) {
		const qn_unit *u = &t->units[i];
		int bits = u->candidates[u->chosen].bits;
		if (u->n_candidates < 2)
			r->fixed += u->n;
		else
			r->layers[bits <= 4 ? 0 : bits <= 8 ? 1 : 2] += u->n;
	}
}

static qn_status write_files(qn_tuner *t, quern_tuning *r)
{
	const char *written;
	if (t->options->curve) {
		QN_TRY(qn_source_spare(t->ctx, t->options->curve));
		QN_TRY(qn_file_replace(t->ctx, t->a, t->options->curve, r->json, strlen(r->json)));
	}
	t->model->plan.tuning = &r->tuning;
	QN_TRY(qn_units_apply(t, t->model));
	QN_TRY(qn_model_save_bits(t->model, t->a, &written));
	QN_TRY(qn_model_saved_bits(t->model, written));
	if (!t->options->state)
		qn_state_remove(t);
	return QUERN_OK;
}

static qn_status tune(qn_tuner *t, const char *output, quern_tuning *r)
{
	QN_TRY(check_options(t->ctx, t->config, t->options, output));
	t->config->save_path = output;
	if (!t->config->rounding_asked)
		t->config->rounding = QN_ROUND_GPTQ;
	QN_TRY(quern_model_load(t->config->context, t->model_path, t->config, &t->model));
	QN_TRY(qn_model_can_save_bits(t->model, t->a));
	if (t->options->check_samples)
		qn_source_note_path(t->ctx, t->options->check_samples);
	QN_TRY(prepare(t, output));
	QN_TRY(qn_source_spare(t->ctx, output));
	if (t->options->curve)
		QN_TRY(qn_source_spare(t->ctx, t->options->curve));
	QN_TRY(qn_measure(t));
	qn_solution s;
	double measured;
	qn_solve(t, &s);
	QN_TRY(qn_search(t, &s, &measured));
	make_curve(t, &s, r);
	QN_TRY(qn_check_curve(t, &s, &r->tuning));
	const qn_frontier_point *at = &s.frontier.points[s.at];
	r->tuning.chosen = point_of(t, at->bytes, at->error);
	r->tuning.chosen.measured = measured;
	r->gap = s.gap;
	count_layers(t, r);
	qn_text json = {.arena = &r->arena};
	qn_result_json(t, &s, r, &json);
	r->json = json.s;
	return write_files(t, r);
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
	qn_tuner t = {.ctx = ctx, .a = &a, .model_path = model, .config = &own, .options = options};
	jmp_buf inner;
	qn_status status;
	ctx->on_memory = &inner;
	if (setjmp(inner))
		status = qn_fail(ctx, QUERN_ERR_MEMORY, "out of memory while tuning '%s'", model);
	else
		status = tune(&t, output, r);
	qn_arena_release(&a); /* before the graph that its executors run */
	quern_model_free(t.model);
	if (status == QUERN_OK && out)
		*out = r;
	else
		quern_tuning_free(r);
	QN_LEAVE(ctx, saved);
	return status;
}

void quern_tuning_free(quern_tuning *r)
{
	if (!r)
		return;
	qn_arena_release(&r->arena);
	qn_heap(r->ctx, r, sizeof *r, 0);
}

static quern_tuning_point given(const qn_curve_point *p)
{
	return (quern_tuning_point){p->bytes, p->bits, p->error, p->measured, p->changed, p->weight_bits};
}

void quern_tuning_get(const quern_tuning *r, quern_tuning_summary *out)
{
	*out = (quern_tuning_summary){r->tuning.measure, r->tuning.samples, given(&r->tuning.chosen), r->gap, {r->layers[0], r->layers[1], r->layers[2]}, r->fixed};
}

size_t quern_tuning_points(const quern_tuning *r) { return r->tuning.n; }
void quern_tuning_at(const quern_tuning *r, size_t i, quern_tuning_point *out) { *out = given(&r->tuning.points[i]); }
const char *quern_tuning_json(const quern_tuning *r) { return r->json; }
