/* acts.c - what 8-bit codes hold of an activation, one layer at a time.
 *
 * Ranges and balancing factors are those of the configuration's calibration with every open activation at 8 bits. In the forked runs the layer reads its activation
 * divided by the factors, rounded to codes and back, multiplied again: the error of the activation alone, whatever the weight. */
#include "graph/act.h"
#include "passes/pipeline.h"
#include "passes/tune/tuner.h"

static bool to_measure(const qn_tuner *t)
{
	bool any = false;
	for (size_t i = 0; i < t->n; i++)
		any |= t->units[i].act_open && !t->units[i].act.known;
	return any && t->options->activations;
}

/* The layer of another load of the model that is this one's. */
static qn_layer *counterpart(const qn_tuner *t, quern_model *m, const qn_layer *l) { return &m->plan.layers[l - t->model->plan.layers]; }

static void ask_for_codes(const qn_tuner *t, quern_model *m)
{
	for (size_t i = 0; i < m->plan.n; i++)
		m->plan.layers[i].act_bits = QN_MOST_ACT_BITS + 1; /* others are not looked at */
	for (size_t i = 0; i < t->n; i++)
		for (size_t k = 0; t->units[i].act_open && k < t->units[i].n; k++)
			counterpart(t, m, t->units[i].layers[k])->act_bits = t->units[i].act.bits;
}

static qn_status calibrate(qn_tuner *t)
{
	QN_TRY(quern_model_load(t->config->context, t->model_path, t->config, &t->ranged));
	quern_model *m = t->ranged;
	ask_for_codes(t, m);
	qn_pass_env env = {.ctx = t->ctx, .plan = &m->plan};
	QN_TRY(qn_samples_open(m->graph, t->config->calib_path, &m->arena, &env.samples));
	return qn_pipeline_run(m->graph, &env, "calibrate", "scales");
}

qn_status qn_acts_calibrate(qn_tuner *t)
{
	if (!to_measure(t))
		return QUERN_OK;
	quern_log_fn log = t->ctx->log;
	t->ctx->log = NULL; /* what it says is said again when the choice is compiled */
	qn_status status = calibrate(t);
	t->ctx->log = log;
	return status;
}

/* x f32 by channel over the factors, or times them. */
static qn_tensor *scaled(const qn_tensor *x, const float *m, bool divide, qn_arena *a)
{
	qn_tensor *y = qn_tensor_new(a, QN_F32, x->rank, x->dim);
	const float *from = x->data;
	float *to = (float *)(uintptr_t)y->data;
	int64_t count = qn_tensor_count(x), k = x->dim[x->rank - 1];
	for (int64_t i = 0; i < count; i++)
		to[i] = divide ? from[i] / m[i % k] : from[i] * m[i % k];
	return y;
}

/* The operator that rounds, before the layer in the graph of t->ranged, which nothing runs; NULL: the layer has no scale. */
static qn_node *rounding_of(const qn_tuner *t, qn_layer *l)
{
	qn_graph *g = t->ranged->graph;
	bool rows = t->config->dynamic_activations;
	if (!rows && !(l->act_scale > 0))
		return NULL;
	qn_value *y = qn_graph_apply(g, l->node, rows ? "FakeQuantRows" : "FakeQuant", "rounded", &l->node->in[0], 1);
	qn_act_set(g, y->producer, (qn_act){rows ? 0 : l->act_scale, l->act_zero_point, l->act_bits});
	return y->producer;
}

qn_status qn_acts_round(qn_tuner *t, const qn_layer *l, qn_exec *const *run, size_t n, qn_arena *a)
{
	qn_layer *ranged = counterpart(t, t->ranged, l);
	const qn_node *rounding = rounding_of(t, ranged);
	const float *m = t->config->dynamic_activations ? NULL : ranged->balance;
	for (size_t b = 0; b < n && rounding; b++) {
		const qn_tensor *x = qn_exec_value(run[b], l->node->in[0]);
		qn_tensor *y = QN_NEW(a, qn_tensor, 1);
		if (m)
			x = scaled(x, m, true, a);
		QN_TRY(qn_exec_node(t->ctx, t->ranged->graph->dims, rounding, &x, a, y, NULL));
		qn_exec_override(run[b], l->node->in[0], m ? scaled(y, m, false, a) : y);
	}
	return QUERN_OK;
}

void qn_acts_restore(const qn_layer *l, qn_exec *const *run, size_t n)
{
	for (size_t b = 0; b < n; b++)
		qn_exec_override(run[b], l->node->in[0], NULL);
}
