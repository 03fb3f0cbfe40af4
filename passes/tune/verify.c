/* verify.c - an allocation realised: compiled as an archive would be, executed with the archive's arithmetic, compared with float. */
#include "passes/tune/tuner.h"

/* Inputs, and what the float graph makes of them. */
struct qn_checks {
	size_t n;
	const qn_tensor ***inputs; /* [n][graph input] */
	qn_tensor **exact;         /* [n][graph output] */
};

static qn_status read_checks(qn_tuner *t, const char *path, struct qn_checks *c)
{
	qn_graph *g = t->model->graph;
	qn_samples *samples;
	QN_TRY(qn_samples_open(g, path, t->a, &samples));
	QN_TRY(qn_samples_sort(samples));
	c->n = qn_samples_count(samples);
	c->inputs = QN_NEW(t->a, const qn_tensor **, c->n);
	c->exact = QN_NEW(t->a, qn_tensor *, c->n);
	qn_exec *e = qn_exec_new(t->streams.consts, t->a);
	for (size_t i = 0; i < c->n; i++) {
		c->inputs[i] = QN_NEW(t->a, const qn_tensor *, g->n_inputs + 1);
		c->exact[i] = QN_NEW(t->a, qn_tensor, g->n_outputs);
		QN_TRY(qn_samples_read(samples, i, t->a, c->inputs[i]));
		qn_status status = qn_exec_all(e, c->inputs[i], t->a, c->exact[i], NULL, NULL);
		if (status == QUERN_OK)
			status = qn_outputs_usable(t, c->exact[i]);
		if (status != QUERN_OK)
			return qn_prefix(t->ctx, status, "sample '%s'", qn_samples_name(samples, i));
	}
	return QUERN_OK;
}

qn_status qn_checks_open(qn_tuner *t)
{
	const quern_tune_options *o = t->options;
	if (!(o->min_cosine > 0) && !o->checks)
		return QUERN_OK;
	t->checks = QN_NEW(t->a, struct qn_checks, 1);
	return read_checks(t, o->check_samples ? o->check_samples : t->config->calib_path, t->checks);
}

/* As an evaluation adds it up: by output, and each sample as it was given. */
static void add_damage(qn_tuner *t, const qn_tensor *exact, const qn_tensor *got, qn_damage *d, qn_arena *a)
{
	for (int k = 0; k < t->model->graph->n_outputs; k++) {
		if (!qn_dtype_is_float(exact[k].type) || !qn_tensor_count(&exact[k]))
			continue;
		if (qn_damage_add(&d[k], a, &exact[k], &got[k]) >= 0)
			d[k].samples++; /* what is no number is as wrong as can be */
		if (t->logits[k])
			qn_damage_add_kl(&d[k], a, &exact[k], &got[k]);
	}
}

static qn_output_error error_of(const qn_tuner *t, const qn_damage *d)
{
	qn_output_error e = {0};
	double kl = 0;
	int64_t rows = 0;
	for (int k = 0; k < t->model->graph->n_outputs; k++) {
		double lost = 1 - qn_damage_cosine(&d[k]);
		e.cosine = lost > e.cosine ? lost : e.cosine;
		kl += d[k].kl;
		rows += d[k].rows;
	}
	e.kl = rows && kl > 0 ? kl / (double)rows : 0;
	return e;
}

static qn_status run(qn_tuner *t, quern_model *m, qn_arena *a, qn_output_error *out)
{
	const qn_graph *g = m->graph;
	qn_exec *e = qn_exec_new(qn_consts_new(m->graph, a), a);
	qn_damage *d = QN_NEW(a, qn_damage, g->n_outputs);
	for (size_t i = 0; i < t->checks->n; i++) {
		qn_arena scratch;
		qn_arena_init(&scratch, t->ctx);
		qn_tensor *y = QN_NEW(&scratch, qn_tensor, g->n_outputs);
		t->ctx->engine_math = true;
		qn_status status = qn_exec_all(e, t->checks->inputs[i], &scratch, y, NULL, NULL);
		t->ctx->engine_math = false;
		if (status == QUERN_OK)
			add_damage(t, t->checks->exact[i], y, d, &scratch);
		qn_arena_release(&scratch);
		QN_TRY(status);
	}
	*out = error_of(t, d);
	return QUERN_OK;
}

qn_status qn_realise(qn_tuner *t, quern_model **out)
{
	QN_TRY(quern_model_load(t->config->context, t->model_path, t->config, out));
	QN_TRY(qn_units_apply(t, *out));
	return qn_model_quantize(*out);
}

qn_status qn_verify(qn_tuner *t, qn_output_error *out)
{
	quern_model *m = NULL;
	qn_status status = qn_realise(t, &m);
	if (status == QUERN_OK) {
		qn_arena a;
		qn_arena_init(&a, t->ctx);
		status = run(t, m, &a, out);
		qn_arena_release(&a); /* before the graph that its executor runs */
	}
	quern_model_free(m);
	return status;
}
