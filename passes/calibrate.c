/* calibrate.c - what the samples say of every tensor that a layer with quantized activations reads.
 *
 * needs: widths, samples where a layer needs a range (else it does nothing). gives: env->calibration; the graph is unchanged. Layers that
 * have a scale already (from an allocation file) ask for nothing. */
#include "graph/ops/_math.h"
#include "graph/samples.h"
#include "passes/config.h"
#include "passes/observe/observe.h"
#include "passes/passes.h"
#include "passes/stats.h"

#include <math.h>

qn_stats *qn_calibration_find(const qn_calibration *c, const qn_value *v)
{
	for (size_t i = 0; c && i < c->n; i++)
		if (c->stats[i].value == v)
			return &c->stats[i];
	return NULL;
}

static void start_stats(qn_stats *s, qn_value *v, int64_t channels, const quern_config *c, qn_arena *a)
{
	*s = (qn_stats){.value = v, .channels = channels, .mask_floor = qn_mask_floor(v)};
	s->channel_low = QN_NEW(a, float, channels);
	s->channel_high = QN_NEW(a, float, channels);
	for (int h = 0; h < 2; h++) {
		s->half_low[h] = QN_NEW(a, float, channels);
		s->half_high[h] = QN_NEW(a, float, channels);
		for (int64_t k = 0; k < channels; k++) {
			s->half_low[h][k] = INFINITY;
			s->half_high[h][k] = -INFINITY;
		}
	}
	s->ranges = qn_ranges_new(&c->calibration, a);
}

static bool is_open(const qn_layer *l)
{
	return l->node && l->act_bits <= QN_MOST_ACT_BITS && l->act_scale == 0;
}

/* One statistic a tensor, in the order of the layers. */
static void collect(qn_graph *g, qn_plan *p, qn_calibration *c)
{
	qn_arena *a = p->arena;
	c->stats = QN_NEW(a, qn_stats, p->n + 1);
	for (size_t i = 0; i < p->n; i++) {
		const qn_layer *l = &p->layers[i];
		if (!is_open(l) || qn_calibration_find(c, l->node->in[0]))
			continue;
		qn_stats *s = &c->stats[c->n++];
		start_stats(s, l->node->in[0], l->k, p->config, a);
		if (!qn_method_balances(p->config->calibration.method))
			continue;
		s->rows = QN_NEW(a, float, QN_STATS_ROWS * s->channels);
		s->row_hash = QN_NEW(a, uint64_t, QN_STATS_ROWS);
		s->row_half = QN_NEW(a, uint8_t, QN_STATS_ROWS);
		s->tails = qn_tails_new(s->channels, qn_method_asymmetric(p->config->calibration.method), a);
	}
	c->outputs = QN_NEW(a, qn_stats, g->n_outputs + 1);
	for (int i = 0; i < g->n_outputs; i++) {
		qn_value *v = g->outputs[i];
		const qn_shape *s = &v->fact.shape;
		bool channels = s->rank > 0 && qn_dim_is_const(s->dim[s->rank - 1]) && s->dim[s->rank - 1].k > 0;
		if (v->fact.type == QN_F32 && !v->is_const)
			start_stats(&c->outputs[c->n_outputs++], v, channels ? s->dim[s->rank - 1].k : 1, p->config, a);
	}
}

QN_VECTOR static void channel_bounds(const float *restrict x, int64_t n, float *restrict low, float *restrict high)
{
	for (int64_t k = 0; k < n; k++) {
		low[k] = x[k] < low[k] ? x[k] : low[k];
		high[k] = x[k] > high[k] ? x[k] : high[k];
	}
}

void qn_calibration_see(qn_calibration *c, qn_stats *s, const float *x, int64_t rows, const float *clean, int64_t n, qn_arena *scratch)
{
	int half = c->half;
	s->count += n;
	s->masked += rows * s->channels - n;
	for (int64_t r = 0; r < rows; r++)
		channel_bounds(x + r * s->channels, s->channels, s->half_low[half], s->half_high[half]);
	qn_ranges_add(s->ranges, clean, n, scratch);
	if (!s->rows)
		return;
	qn_stats_keep_rows(s, x, rows, half);
	qn_tails_add(s->tails, x, rows);
}

static void join_halves(qn_stats *s)
{
	for (int64_t k = 0; k < s->channels; k++) {
		s->channel_low[k] = fminf(s->half_low[0][k], s->half_low[1][k]);
		s->channel_high[k] = fmaxf(s->half_high[0][k], s->half_high[1][k]);
	}
}

static bool lacks_range(const qn_layer *l, const quern_config *c) { return is_open(l) && qn_layer_needs_range(l, c); }

static size_t count_without_range(const qn_plan *p)
{
	size_t n = 0;
	for (size_t i = 0; i < p->n; i++)
		n += lacks_range(&p->layers[i], p->config);
	return n;
}

static bool outputs_lack_range(const qn_plan *p)
{
	const qn_calibration_config *c = &p->config->calibration;
	return c->quantize_outputs && c->output != QN_OUTPUT_SIGMOID && !p->n_outputs;
}

enum { MOST_NAMED = 5 };

/* The layers that lack a range, and what would give it to them. */
static qn_status refuse(qn_graph *g, const qn_plan *p, size_t lacking, qn_arena *scratch)
{
	if (!lacking)
		QN_FAIL(g->ctx, QUERN_ERR_CONFIG, "graph outputs are to be quantized, whose ranges only samples tell: give some with --calib");
	qn_text names = {.arena = scratch};
	size_t n = 0;
	for (size_t i = 0; i < p->n && n < MOST_NAMED; i++) {
		const qn_layer *l = &p->layers[i];
		if (lacks_range(l, p->config))
			qn_text_add(&names, "%s'%s' (weight '%s', %d bits)", n++ ? ", " : "", l->name, l->weight, l->act_bits);
	}
	if (n < lacking)
		qn_text_add(&names, " and %zu more", lacking - n);
	QN_FAIL(g->ctx, QUERN_ERR_CONFIG,
		"%zu layer%s quantized activations whose ranges only samples tell: %s; give samples with --calib, or let --dynamic-activations take "
		"scales at run time", lacking, lacking == 1 ? " is to have" : "s are to have", names.s);
}

static void report(qn_graph *g, const qn_calibration *c)
{
	for (size_t i = 0; i < c->n; i++) {
		const qn_stats *s = &c->stats[i];
		if (s->masked)
			qn_log(g->ctx, QUERN_LOG_INFO, "'%s': %lld of %lld values were made by a mask and do not count for its range",
				s->value->name, (long long)s->masked, (long long)(s->masked + s->count));
	}
}

qn_status qn_pass_calibrate(qn_graph *g, qn_pass_env *env)
{
	qn_plan *p = env->plan;
	const quern_config *config = p->config;
	size_t lacking = count_without_range(p);
	if (!env->samples && config->dynamic_activations)
		lacking = 0; /* every layer has a form then that needs none */
	if (!lacking && !outputs_lack_range(p))
		return QUERN_OK;
	if (!env->samples)
		return refuse(g, p, lacking, env->scratch);
	if (config->calibration.mode == QN_CALIB_HISTOGRAM && config->calibration.hist_use_gpu)
		qn_log(g->ctx, QUERN_LOG_INFO, "histograms are made on the CPU: there is no GPU code");
	QN_TRY(qn_samples_sort(env->samples));
	qn_calibration *c = QN_NEW(p->arena, qn_calibration, 1);
	collect(g, p, c);
	env->calibration = c;
	c->samples = qn_samples_count(env->samples);
	QN_TRY(qn_calibration_run(g, env));
	for (size_t i = 0; i < c->n; i++) {
		qn_arena scratch;
		qn_arena_init(&scratch, g->ctx);
		join_halves(&c->stats[i]);
		qn_stats_sort_rows(&c->stats[i], &scratch);
		qn_arena_release(&scratch);
	}
	for (size_t i = 0; i < c->n_outputs; i++)
		join_halves(&c->outputs[i]);
	report(g, c);
	return QUERN_OK;
}
