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
	struct qn_checks *c = QN_NEW(t->a, struct qn_checks, 1);
	if (t->options->check_samples) {
		QN_TRY(read_checks(t, t->options->check_samples, c));
	} else {
		*c = (struct qn_checks){t->streams.n, QN_NEW(t->a, const qn_tensor **, t->streams.n), t->exact};
		for (size_t b = 0; b < c->n; b++)
			c->inputs[b] = t->streams.batch[b].inputs;
	}
	t->checks = c;
	return QUERN_OK;
}

static qn_status run(qn_tuner *t, quern_model *m, qn_arena *a, qn_output_error *out)
{
	const qn_graph *g = m->graph;
	qn_exec *e = qn_exec_new(qn_consts_new(m->graph, a), a);
	qn_output_sums sums = {0};
	for (size_t i = 0; i < t->checks->n; i++) {
		qn_arena scratch;
		qn_arena_init(&scratch, t->ctx);
		qn_tensor *y = QN_NEW(&scratch, qn_tensor, g->n_outputs);
		const qn_tensor **outputs = QN_NEW(&scratch, const qn_tensor *, g->n_outputs);
		qn_status status = qn_exec_all(e, t->checks->inputs[i], &scratch, y, NULL, NULL);
		for (int k = 0; k < g->n_outputs; k++)
			outputs[k] = &y[k];
		if (status == QUERN_OK)
			qn_outputs_add(t, t->checks->exact[i], outputs, &sums);
		qn_arena_release(&scratch);
		QN_TRY(status);
	}
	*out = qn_outputs_error(&sums);
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
