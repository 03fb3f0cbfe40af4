/* round.c - weights rounded by what the samples say, ahead of emission.
 *
 * needs: widths, samples when the rounding is importance or gptq (else it does nothing). gives: ready_weight, ready_scale and ready_bias
 * of layers; layers without a bias get one of zeros, which the rounding fills. */
#include "passes/config.h"
#include "passes/gptq/layer.h"
#include "passes/passes.h"

enum { MOST_IN_GROUP = 64 };

/* --- importance: the mean square of each input channel weighs the error of its column --------------------------------- */
typedef struct squares {
	qn_plan *plan;
	double **sum; /* by value id: [k] sums of squares; NULL for values that no layer reads */
	int64_t *rows;
} squares;

static qn_status add_squares(void *user, const qn_value *v, const qn_tensor *t)
{
	squares *s = user;
	double *sum = s->sum[v->id];
	if (!sum || t->type != QN_F32 || t->rank < 1)
		return QUERN_OK;
	int64_t k = t->dim[t->rank - 1], rows = k ? qn_tensor_count(t) / k : 0;
	const float *x = t->data;
	for (int64_t r = 0; r < rows; r++)
		for (int64_t i = 0; i < k; i++)
			sum[i] += (double)x[r * k + i] * (double)x[r * k + i];
	s->rows[v->id] += rows;
	return QUERN_OK;
}

static qn_status round_by_importance(qn_graph *g, qn_plan *p, const squares *s)
{
	for (size_t i = 0; i < p->n; i++) {
		qn_layer *l = &p->layers[i];
		if (!qn_gptq_takes_part(l) || l->form != QN_FORM_Q4_0 || !s->rows[l->node->in[0]->id])
			continue;
		qn_arena scratch;
		qn_arena_init(&scratch, g->ctx);
		float *weight = QN_NEW(&scratch, float, l->k);
		for (int64_t k = 0; k < l->k; k++)
			weight[k] = (float)(s->sum[l->node->in[0]->id][k] / (double)s->rows[l->node->in[0]->id]);
		const qn_tensor *w;
		qn_status status = qn_graph_load(g, l->node->in[1], &scratch, &w);
		int64_t dim[] = {l->n, l->k};
		qn_tensor *t = qn_tensor_new(p->arena, QN_Q4_0, 2, dim);
		qn_quant_report report;
		if (status == QUERN_OK)
			status = qn_quantize_q4_0(g->ctx, qn_tensor_f32(&scratch, w), l->n, l->k, QN_ROUND_IMPORTANCE, &(qn_q4_opts){.importance = weight},
				(uint8_t *)(uintptr_t)t->data, &report);
		l->ready_weight = t;
		qn_arena_release(&scratch);
		QN_TRY(status);
	}
	return QUERN_OK;
}

static qn_status importance(qn_graph *g, qn_pass_env *env)
{
	qn_plan *p = env->plan;
	squares s = {p, QN_NEW(env->scratch, double *, g->n_values), QN_NEW(env->scratch, int64_t, g->n_values)};
	for (size_t i = 0; i < p->n; i++)
		if (qn_gptq_takes_part(&p->layers[i]))
			s.sum[p->layers[i].node->in[0]->id] = QN_NEW(env->scratch, double, p->layers[i].k);
	qn_exec *e = qn_exec_new(qn_consts_new(g, env->scratch), env->scratch);
	size_t n = qn_samples_count(env->samples);
	for (size_t i = 0; i < n; i++) {
		qn_arena a;
		qn_arena_init(&a, g->ctx);
		const qn_tensor **in = QN_NEW(&a, const qn_tensor *, g->n_inputs + 1);
		qn_tensor *out = QN_NEW(&a, qn_tensor, g->n_outputs + 1);
		qn_status status = qn_samples_read(env->samples, i, &a, in);
		if (status == QUERN_OK)
			status = qn_exec_all(e, in, &a, out, add_squares, &s);
		qn_arena_release(&a);
		QN_TRY(status);
		if (g->ctx->progress && !g->ctx->progress(g->ctx->progress_user, "importance", i + 1, n))
			QN_FAIL(g->ctx, QUERN_ERR_CANCELLED, "stopped");
	}
	return round_by_importance(g, p, &s);
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
