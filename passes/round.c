/* round.c - weights rounded by what the samples say, ahead of emission.
 *
 * needs: widths, samples when the rounding is importance or gptq (else it does nothing). gives: ready_weight, ready_scale and ready_bias
 * of layers; layers without a bias get one of zeros, which the rounding fills. */
#include "passes/config.h"
#include "passes/gptq/driver.h"
#include "passes/moments.h"
#include "passes/passes.h"

#include <math.h>

/* --- importance: moments of each input channel weigh the error of its column, the mean makes the bias good -------------- */
/* Of the mean error the bias makes good this share: all of it would fit the samples, and other inputs have other means. */
static const double SHARE = 0.5;
/* Added to each weight, in parts of their mean: a channel that is quiet in the samples may not be so elsewhere. */
static const double UNIFORM = 0.1;

/* What an error of a column costs in the mean square, when the bias makes good SHARE of its mean. */
static double cost_of_column(const qn_moments *m, int64_t i)
{
	double x = m->sum[i] / (double)m->rows, w = m->square[i] / (double)m->rows - (1 - (1 - SHARE) * (1 - SHARE)) * x * x;
	return w > 0 ? w : 0;
}

/* In units of a power of two near the largest, which is exact: the squares of what f32 holds are more than it holds. */
static void weigh_columns(const qn_moments *m, int64_t k, float *weight)
{
	double mean = 0, largest = 0;
	for (int64_t i = 0; i < k; i++)
		largest = fmax(largest, cost_of_column(m, i));
	int power = largest > 0 ? ilogb(largest) : 0;
	for (int64_t i = 0; i < k; i++) {
		weight[i] = (float)ldexp(cost_of_column(m, i), -power);
		mean += (double)weight[i] / (double)k;
	}
	for (int64_t i = 0; i < k; i++)
		weight[i] += (float)(UNIFORM * mean);
}

/* bias + SHARE (w - q) mean(x) */
static void keep_mean(const float *w, const float *q, const float *bias, const qn_moments *m, int64_t n, int64_t k, float *out)
{
	for (int64_t r = 0; r < n; r++) {
		double s = bias ? (double)bias[r] : 0;
		for (int64_t i = 0; i < k; i++)
			s += SHARE * ((double)w[r * k + i] - (double)q[r * k + i]) * (m->sum[i] / (double)m->rows);
		out[r] = (float)s;
	}
}

static qn_status round_by_importance(qn_graph *g, qn_plan *p, qn_layer *l, const qn_moments *m, qn_arena *a)
{
	const qn_tensor *wt, *bt = NULL;
	QN_TRY(qn_graph_load(g, l->node->in[1], a, &wt));
	if (qn_node_has_in(l->node, 2))
		QN_TRY(qn_graph_load(g, l->node->in[2], a, &bt));
	float *weight = QN_NEW(a, float, l->k), *q = QN_NEW(a, float, l->n *l->k);
	weigh_columns(m, l->k, weight);
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

static qn_status importance(qn_graph *g, qn_pass_env *env)
{
	qn_plan *p = env->plan;
	qn_gptq_mark(p, "importance", false);
	qn_moments *m = QN_NEW(env->scratch, qn_moments, g->n_values);
	for (size_t i = 0; i < p->n; i++) {
		const qn_layer *l = &p->layers[i];
		if (!l->rounding)
			continue;
		m[l->node->in[0]->id].sum = QN_NEW(env->scratch, double, l->k);
		m[l->node->in[0]->id].square = QN_NEW(env->scratch, double, l->k);
	}
	QN_TRY(qn_moments_read(g, env->samples, "importance", m));
	for (size_t i = 0; i < p->n; i++) {
		qn_layer *l = &p->layers[i];
		if (!l->rounding)
			continue;
		if (m[l->node->in[0]->id].rows < QN_FEWEST_ROWS) {
			l->rounding = NULL;
			l->rounding_note = QN_TOO_FEW_ROWS;
			continue;
		}
		qn_arena a;
		qn_arena_init(&a, g->ctx);
		qn_status status = round_by_importance(g, p, l, &m[l->node->in[0]->id], &a);
		qn_arena_release(&a);
		if (status != QUERN_OK)
			return qn_prefix(g->ctx, status, "layer '%s'", l->name);
	}
	return QUERN_OK;
}

/* What a rounding by samples leaves to the nearest code because of the form asked for. */
static void tell_of_others(const qn_graph *g, const qn_plan *p, qn_rounding r)
{
	size_t i8 = 0, narrow = 0;
	for (size_t i = 0; i < p->n; i++) {
		const qn_layer *l = &p->layers[i];
		bool linear = l->node && l->role != QN_ROLE_EMBEDDING;
		i8 += linear && l->form == QN_FORM_I8;
		narrow += linear && (l->form == QN_FORM_Q4_0 || l->form == QN_FORM_I8);
	}
	if (!narrow)
		qn_log(g->ctx, QUERN_LOG_INFO, "%s has nothing to round: no layer has a weight of up to 8 bits", qn_rounding_name(r));
	else if (r == QN_ROUND_IMPORTANCE && i8)
		qn_log(g->ctx, QUERN_LOG_INFO, "importance is of 4-bit weights: int8 weights (%zu layers) are rounded to the nearest; gptq rounds both", i8);
}

qn_status qn_pass_round(qn_graph *g, qn_pass_env *env)
{
	qn_rounding r = env->plan->config->rounding;
	if (r != QN_ROUND_IMPORTANCE && r != QN_ROUND_GPTQ)
		return QUERN_OK;
	if (!env->samples)
		QN_FAIL(g->ctx, QUERN_ERR_CONFIG, "rounding %s needs samples: give some with --calib", r == QN_ROUND_GPTQ ? "gptq" : "importance");
	tell_of_others(g, env->plan, r);
	/* calibration sorts them too, but does not run where an allocation file has all scales */
	QN_TRY(qn_samples_sort(env->samples));
	return r == QN_ROUND_GPTQ ? qn_gptq_run(g, env->plan, env->samples, env->scratch) : importance(g, env);
}
