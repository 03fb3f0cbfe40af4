/* round.c - weights rounded by what the samples say, ahead of emission.
 *
 * needs: widths, samples when the rounding is importance or gptq (else it does nothing). gives: ready_weight, ready_scale and ready_bias
 * of layers; layers without a bias get one of zeros, which the rounding fills. */
#include "passes/config.h"
#include "passes/gptq/layer.h"
#include "passes/passes.h"

enum { MOST_IN_GROUP = 64 };

/* --- importance: the mean square of each input channel weighs the error of its column, the mean makes the bias good -------- */
typedef struct moments {
	double *sum, *square; /* [k] over all rows; NULL for values that no layer reads */
	int64_t rows;
} moments;

static qn_status add_moments(void *user, const qn_value *v, const qn_tensor *t)
{
	moments *m = (moments *)user + v->id;
	if (!m->sum || t->type != QN_F32 || t->rank < 1)
		return QUERN_OK;
	int64_t k = t->dim[t->rank - 1], rows = k ? qn_tensor_count(t) / k : 0;
	const float *x = t->data;
	for (int64_t r = 0; r < rows; r++)
		for (int64_t i = 0; i < k; i++) {
			m->sum[i] += (double)x[r * k + i];
			m->square[i] += (double)x[r * k + i] * (double)x[r * k + i];
		}
	m->rows += rows;
	return QUERN_OK;
}

/* bias + (w - q) mean(x): the mean of the result stays what it was. */
static void keep_mean(const float *w, const float *q, const float *bias, const moments *m, int64_t n, int64_t k, float *out)
{
	for (int64_t r = 0; r < n; r++) {
		double s = bias ? (double)bias[r] : 0;
		for (int64_t i = 0; i < k; i++)
			s += ((double)w[r * k + i] - (double)q[r * k + i]) * (m->sum[i] / (double)m->rows);
		out[r] = (float)s;
	}
}

static qn_status round_by_importance(qn_graph *g, qn_plan *p, qn_layer *l, const moments *m, qn_arena *a)
{
	const qn_tensor *wt, *bt = NULL;
	QN_TRY(qn_graph_load(g, l->node->in[1], a, &wt));
	if (qn_node_has_in(l->node, 2))
		QN_TRY(qn_graph_load(g, l->node->in[2], a, &bt));
	float *weight = QN_NEW(a, float, l->k), *q = QN_NEW(a, float, l->n *l->k);
	for (int64_t k = 0; k < l->k; k++)
		weight[k] = (float)(m->square[k] / (double)m->rows);
	int64_t dim[] = {l->n, l->k};
	qn_tensor *stored = qn_tensor_new(p->arena, QN_Q4_0, 2, dim), *bias = qn_tensor_new(p->arena, QN_F32, 1, dim);
	uint8_t *blocks = (uint8_t *)(uintptr_t)stored->data;
	const float *w = qn_tensor_f32(a, wt);
	qn_quant_report report;
	QN_TRY(qn_quantize_q4_0(g->ctx, w, l->n, l->k, QN_ROUND_IMPORTANCE, &(qn_q4_opts){.importance = weight}, blocks, &report));
	qn_dequantize_q4_0(g->ctx, blocks, l->n * l->k, false, q);
	keep_mean(w, q, bt ? qn_tensor_f32(a, bt) : NULL, m, l->n, l->k, (float *)(uintptr_t)bias->data);
	l->ready_weight = stored;
	l->ready_bias = bias;
	return QUERN_OK;
}

static qn_status read_samples(qn_graph *g, qn_pass_env *env, moments *m)
{
	qn_exec *e = qn_exec_new(qn_consts_new(g, env->scratch), env->scratch);
	size_t n = qn_samples_count(env->samples);
	for (size_t i = 0; i < n; i++) {
		qn_arena a;
		qn_arena_init(&a, g->ctx);
		const qn_tensor **in = QN_NEW(&a, const qn_tensor *, g->n_inputs + 1);
		qn_tensor *out = QN_NEW(&a, qn_tensor, g->n_outputs + 1);
		qn_status status = qn_samples_read(env->samples, i, &a, in);
		if (status == QUERN_OK)
			status = qn_exec_all(e, in, &a, out, add_moments, m);
		qn_arena_release(&a);
		QN_TRY(status);
		if (g->ctx->progress && !g->ctx->progress(g->ctx->progress_user, "importance", i + 1, n))
			QN_FAIL(g->ctx, QUERN_ERR_CANCELLED, "stopped");
	}
	return QUERN_OK;
}

static qn_status importance(qn_graph *g, qn_pass_env *env)
{
	qn_plan *p = env->plan;
	moments *m = QN_NEW(env->scratch, moments, g->n_values);
	for (size_t i = 0; i < p->n; i++) {
		const qn_layer *l = &p->layers[i];
		if (!qn_gptq_takes_part(l) || l->form != QN_FORM_Q4_0)
			continue;
		m[l->node->in[0]->id].sum = QN_NEW(env->scratch, double, l->k);
		m[l->node->in[0]->id].square = QN_NEW(env->scratch, double, l->k);
	}
	QN_TRY(read_samples(g, env, m));
	for (size_t i = 0; i < p->n; i++) {
		qn_layer *l = &p->layers[i];
		if (!qn_gptq_takes_part(l) || l->form != QN_FORM_Q4_0 || !m[l->node->in[0]->id].rows)
			continue;
		qn_arena a;
		qn_arena_init(&a, g->ctx);
		qn_status status = round_by_importance(g, p, l, &m[l->node->in[0]->id], &a);
		qn_arena_release(&a);
		if (status != QUERN_OK)
			return qn_prefix(g->ctx, status, "layer '%s'", l->name);
	}
	return QUERN_OK;
}

/* --- gptq ---------------------------------------------------------------------------------------------------------------- */
static void give_biases(qn_graph *g, qn_plan *p)
{
	for (size_t i = 0; i < p->n; i++) {
		qn_layer *l = &p->layers[i];
		if (!qn_gptq_takes_part(l) || qn_node_has_in(l->node, 2))
			continue;
		qn_value *zeros = qn_graph_const(g, qn_arena_printf(g->arena, "%s.bias", l->weight), qn_tensor_new(g->arena, QN_F32, 1, &l->n));
		zeros->weight = zeros->name;
		qn_node_set_input(g, l->node, 2, zeros);
	}
}

static qn_gptq_settings settings_for(const qn_streams *s)
{
	int64_t tokens = s->tokens * (int64_t)(1 + s->copies);
	bool many = tokens > 7000;
	return (qn_gptq_settings){.damping = many ? 0.1 : 0.3,
		.alpha = s->samples >= 200 ? 0.8 : 0.6,
		.centre = true,
		.sequential = true,
		.compensate = true,
		.residual = true,
		.rounding = {.trial = true, .descents = 3}};
}

static qn_status gptq(qn_graph *g, qn_pass_env *env)
{
	qn_plan *p = env->plan;
	give_biases(g, p);
	qn_streams s;
	QN_TRY(qn_streams_open(g, env->samples, env->plan->config->copies, env->scratch, &s));
	qn_gptq_settings o = settings_for(&s);
	QN_TRY(qn_streams_begin(&s));
	size_t done = 0, total = 0;
	for (size_t i = 0; i < p->n; i++)
		total += qn_gptq_takes_part(&p->layers[i]);
	for (qn_node *n = g->first; n; n = n->next) {
		if (!qn_exec_needs(n))
			continue;
		qn_layer *l = qn_plan_find(p, n), *group[MOST_IN_GROUP];
		if (l && qn_gptq_takes_part(l)) {
			size_t count = qn_gptq_group(p, l, group, MOST_IN_GROUP);
			QN_TRY(qn_gptq_round_group(g, p, &s, &o, group, count));
			done += count;
			if (g->ctx->progress && !g->ctx->progress(g->ctx->progress_user, "gptq", done, total))
				QN_FAIL(g->ctx, QUERN_ERR_CANCELLED, "stopped");
		}
		QN_TRY(qn_streams_step(&s, n));
		if (done == total)
			break;
	}
	return QUERN_OK;
}

qn_status qn_pass_round(qn_graph *g, qn_pass_env *env)
{
	qn_rounding r = env->plan->config->rounding;
	if (r != QN_ROUND_IMPORTANCE && r != QN_ROUND_GPTQ)
		return QUERN_OK;
	if (!env->samples)
		QN_FAIL(g->ctx, QUERN_ERR_CONFIG, "rounding %s needs samples: give some with --calib", r == QN_ROUND_GPTQ ? "gptq" : "importance");
	return r == QN_ROUND_GPTQ ? gptq(g, env) : importance(g, env);
}
