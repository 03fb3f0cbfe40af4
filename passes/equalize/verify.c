/* verify.c - what the float graph computes with the factors beside what it computed without. */
#include "graph/exec.h"
#include "passes/equalize/equalize.h"
#include "passes/fold.h"

#include <math.h>

enum { MOST_SAMPLES = 4 };

/* --- whole graph -------------------------------------------------------------------------------------------------------- */
qn_status qn_equal_run(qn_graph *g, qn_samples *samples, qn_arena *a, qn_equal_before *out)
{
	size_t given = qn_samples_count(samples), n = given < MOST_SAMPLES ? given : MOST_SAMPLES;
	*out = (qn_equal_before){n, QN_NEW(a, const qn_tensor **, n + 1), QN_NEW(a, qn_tensor *, n + 1)};
	for (size_t i = 0; i < n; i++) {
		out->inputs[i] = QN_NEW(a, const qn_tensor *, g->n_inputs + 1);
		out->outputs[i] = QN_NEW(a, qn_tensor, g->n_outputs + 1);
		QN_TRY(qn_samples_read(samples, i * given / n, a, out->inputs[i]));
		QN_TRY(qn_exec_run(g->ctx, g, out->inputs[i], a, out->outputs[i], NULL, NULL));
	}
	return QUERN_OK;
}

static double distance(const qn_tensor *was, const qn_tensor *is)
{
	double signal = 0, noise = 0;
	int64_t n = qn_tensor_count(was);
	for (int64_t i = 0; i < n; i++) {
		double d = qn_tensor_get(is, i) - qn_tensor_get(was, i);
		signal += qn_tensor_get(was, i) * qn_tensor_get(was, i);
		noise += d * d;
	}
	return noise > 0 ? sqrt(noise / signal) : 0;
}

qn_status qn_equal_outputs_error(qn_graph *g, const qn_equal_before *before, double *worst)
{
	*worst = 0;
	for (size_t i = 0; i < before->n; i++) {
		qn_arena a;
		qn_arena_init(&a, g->ctx);
		qn_tensor *y = QN_NEW(&a, qn_tensor, g->n_outputs + 1);
		qn_status status = qn_exec_run(g->ctx, g, before->inputs[i], &a, y, NULL, NULL);
		for (int k = 0; status == QUERN_OK && k < g->n_outputs; k++)
			if (qn_dtype_is_float(y[k].type)) {
				double d = distance(&before->outputs[i][k], &y[k]);
				*worst = d > *worst || isnan(d) ? d : *worst;
			}
		qn_arena_release(&a);
		QN_TRY(status);
	}
	return QUERN_OK;
}

/* --- one group -------------------------------------------------------------------------------------------------------------- */
/* Numbers in -1..1, the same every time. */
static double drawn(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (double)(int64_t)(*state >> 11) / (double)(INT64_C(1) << 52) - 1;
}

static qn_status values(qn_graph *g, qn_value *v, qn_arena *a, const float **out)
{
	const qn_tensor *t;
	*out = NULL;
	if (!v)
		return QUERN_OK;
	QN_TRY(qn_graph_load(g, v, a, &t));
	*out = qn_tensor_f32(a, t);
	return QUERN_OK;
}

/* What the source makes of drawn inputs with these constants, by channel of x. */
static qn_status source_result(qn_graph *g, const qn_equal_group *e, qn_value *const source[2], qn_arena *a, double *x)
{
	const float *w, *b = NULL;
	uint64_t state = 1;
	if (e->norm) {
		int64_t n = qn_equal_channels(e);
		double *z = QN_NEW(a, double, n);
		QN_TRY(qn_fold_numbers(g, source[0], n, a, &w));
		if (source[1])
			QN_TRY(qn_fold_numbers(g, source[1], n, a, &b));
		for (int64_t i = 0; i < n; i++)
			z[i] = (double)w[i] * drawn(&state) + (b ? (double)b[i] : 0);
		for (int64_t k = 0; k < e->k; k++)
			x[k] = z[e->channel[k]];
		return QUERN_OK;
	}
	QN_TRY(values(g, source[0], a, &w));
	QN_TRY(values(g, source[1], a, &b));
	const qn_layer *m = e->maker;
	double *in = QN_NEW(a, double, m->k), *y = QN_NEW(a, double, m->n);
	for (int64_t i = 0; i < m->k; i++)
		in[i] = drawn(&state);
	for (int64_t r = 0; r < m->n; r++) {
		y[r] = b ? (double)b[r] : 0;
		for (int64_t i = 0; i < m->k; i++)
			y[r] += (double)w[r * m->k + i] * in[i];
	}
	for (int64_t k = 0; k < e->k; k++)
		x[k] = y[e->channel[k]];
	return QUERN_OK;
}

static qn_status product_error(qn_graph *g, const qn_equal_group *e, size_t reader, const qn_equal_undo *before, const double *was,
	const double *is, qn_arena *a, double *worst)
{
	const float *w, *v;
	double signal = 0, noise = 0;
	QN_TRY(values(g, before->weights[reader], a, &w));
	QN_TRY(values(g, e->readers[reader]->node->in[1], a, &v));
	for (int64_t r = 0; r < e->readers[reader]->n; r++) {
		double y = 0, z = 0;
		for (int64_t k = 0; k < e->k; k++) {
			y += (double)w[r * e->k + k] * was[k];
			z += (double)v[r * e->k + k] * is[k];
		}
		signal += y * y;
		noise += (z - y) * (z - y);
	}
	double d = noise > 0 ? sqrt(noise / signal) : 0;
	*worst = d > *worst || isnan(d) ? d : *worst;
	return QUERN_OK;
}

qn_status qn_equal_products_error(qn_graph *g, const qn_equal_group *e, const qn_equal_undo *before, double *worst)
{
	qn_arena a;
	qn_arena_init(&a, g->ctx);
	const qn_node *n = qn_equal_source(e);
	qn_value *const now[] = {n->in[1], qn_node_has_in(n, 2) ? n->in[2] : NULL};
	double *was = QN_NEW(&a, double, e->k), *is = QN_NEW(&a, double, e->k);
	*worst = 0;
	qn_status status = source_result(g, e, before->source, &a, was);
	if (status == QUERN_OK)
		status = source_result(g, e, now, &a, is);
	for (size_t i = 0; status == QUERN_OK && i < e->n; i++)
		status = product_error(g, e, i, before, was, is, &a, worst);
	qn_arena_release(&a);
	return status;
}
