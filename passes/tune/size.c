/* size.c - what an allocation takes as stored. Archives hold equal constants once and write small ones into the graph's text, so the archive's own writer counts. Where
 * activations are quantized or channels equalized, samples decide which constants there are, and the compiled model is counted; else the same graph with weights in
 * their forms by plain rounding, which takes as many bytes. */
#include "passes/gptq/driver.h"
#include "passes/nnef/emit_graph.h"
#include "passes/pipeline.h"
#include "passes/tune/tuner.h"

static uint64_t units_bytes(const qn_tuner *t)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < t->n; i++)
		sum += t->units[i].candidates[t->units[i].chosen].bytes;
	return sum;
}

bool qn_needs_compiling(const qn_tuner *t)
{
	if (t->config->equalize)
		return true;
	for (size_t i = 0; i < t->model->plan.n; i++)
		if (t->model->plan.layers[i].act_bits <= QN_MOST_ACT_BITS)
			return true;
	return false;
}

/* Of what a layer reads in the samples. */
static uint64_t rows_of(const qn_tuner *t, size_t layer)
{
	for (size_t i = 0; i < t->n; i++) {
		const qn_unit *u = &t->units[i];
		uint64_t products = 0;
		bool of_unit = false;
		for (size_t k = 0; k < u->n; k++) {
			products += u->layers[k]->role != QN_ROLE_EMBEDDING;
			of_unit |= u->layers[k] == &t->model->plan.layers[layer];
		}
		if (of_unit)
			return products ? u->products / (u->weights * products) : 0;
	}
	return UINT64_MAX;
}

/* Roundings by samples change the biases of their layers and give biases to those without: no two of them will be equal, nor are these. Too few rows leave them
 * as they are. */
static qn_status stand_in_for_biases(qn_tuner *t, quern_model *m)
{
	qn_rounding r = t->config->rounding;
	if (r != QN_ROUND_GPTQ && r != QN_ROUND_IMPORTANCE)
		return QUERN_OK;
	qn_gptq_mark(&m->plan, "", r == QN_ROUND_GPTQ);
	for (size_t i = 0; i < m->plan.n && r == QN_ROUND_IMPORTANCE; i++) /* it gives biases only to what it rounds */
		m->plan.layers[i].rounding = rows_of(t, i) < QN_FEWEST_ROWS ? NULL : m->plan.layers[i].rounding;
	QN_TRY(qn_gptq_give_biases(m->graph, &m->plan));
	for (size_t i = 0; i < m->plan.n; i++) {
		qn_layer *l = &m->plan.layers[i];
		if (!l->rounding || rows_of(t, i) < QN_FEWEST_ROWS)
			continue;
		qn_tensor *v = qn_tensor_new(&m->arena, QN_F32, 1, &l->n);
		for (int64_t k = 0; k < l->n; k++)
			((float *)(uintptr_t)v->data)[k] = (float)i + 0.5f;
		qn_node_set_input(m->graph, l->node, 2, qn_graph_const(m->graph, l->node->in[2]->name, v));
	}
	return QUERN_OK;
}

static qn_status give_forms(qn_tuner *t, const quern_config *plain, quern_model **out)
{
	QN_TRY(quern_model_load(t->config->context, t->model_path, plain, out));
	quern_model *m = *out;
	QN_TRY(qn_units_apply(t, m));
	for (size_t i = 0; i < m->plan.n; i++)
		m->plan.layers[i].act_bits = QN_FLOAT_BITS; /* there are no ranges */
	QN_TRY(stand_in_for_biases(t, m));
	qn_pass_env env = {.ctx = t->ctx, .plan = &m->plan};
	return qn_pipeline_run(m->graph, &env, "weights", "weights");
}

static qn_status count_by_forms(qn_tuner *t, uint64_t *bytes)
{
	quern_config plain = *t->config;
	plain.rounding = QN_ROUND_MINMAX;
	plain.rounding_asked = true;
	plain.save_path = NULL;
	quern_model *m = NULL;
	quern_log_fn log = t->ctx->log;
	t->ctx->log = NULL; /* what it says was said, or is said when the choice is compiled */
	qn_status status = give_forms(t, &plain, &m);
	if (status == QUERN_OK)
		status = qn_emit_bytes(t->ctx, m->graph, t->config->target, bytes);
	t->ctx->log = log;
	quern_model_free(m);
	return status;
}

static qn_status count_by_compiling(qn_tuner *t, uint64_t *bytes)
{
	QN_TRY(qn_realise(t, &t->realised));
	return qn_emit_bytes(t->ctx, t->realised->graph, t->config->target, bytes);
}

qn_status qn_size_estimate(qn_tuner *t)
{
	uint64_t bytes;
	QN_TRY(count_by_forms(t, &bytes));
	t->other_bytes = (int64_t)bytes - (int64_t)units_bytes(t);
	return QUERN_OK;
}

qn_status qn_size_count(qn_tuner *t, uint64_t *bytes)
{
	quern_model_free(t->realised); /* of another choice */
	t->realised = NULL;
	QN_TRY(qn_units_apply(t, t->model));
	QN_TRY(qn_needs_compiling(t) ? count_by_compiling(t, bytes) : count_by_forms(t, bytes));
	t->other_bytes = (int64_t)*bytes - (int64_t)units_bytes(t);
	return QUERN_OK;
}
