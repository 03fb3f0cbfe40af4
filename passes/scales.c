/* scales.c - the scale and the zero point of every layer with quantized activations, and of the graph's outputs.
 *
 * needs: calibrate, balance. gives: act_scale, act_zero_point, act_low and act_high of layers; the graph is unchanged. A layer whose tensor
 * never had a value keeps float activations. */
#include "passes/scales.h"

#include "passes/observe/observe.h"
#include "passes/passes.h"
#include "passes/stats.h"

#include <math.h>

enum { MOST_16 = 32639, OUTPUT_BITS = 8, FLOAT_BITS = 32 };

qn_act_codes qn_act_codes_for(int bits, bool asymmetric, float low, float high, float scale_min)
{
	int most = bits >= 16 ? MOST_16 : bits > 1 ? (1 << (bits - 1)) - 1 : !asymmetric;
	qn_act_codes c = {.most = most, .least = -most};
	if (asymmetric && bits < 16)
		c.least = -most - 1;
	double range = (double)(high > -low ? high : -low), steps = (double)most;
	if (asymmetric) {
		range = (double)high - (double)low;
		steps = (double)most - (double)c.least;
	}
	c.scale = (float)(range / steps);
	if (c.scale < scale_min)
		c.scale = scale_min;
	if (!(c.scale > 0))
		c.scale = (float)(1 / steps);
	if (asymmetric) {
		double zero = nearbyint((double)c.least - (double)low / (double)c.scale);
		c.zero_point = (int)(zero < c.least ? c.least : zero > c.most ? c.most : zero);
	}
	return c;
}

/* --- layers --------------------------------------------------------------------------------------------------------- */
static void range_of(const qn_stats *s, const qn_layer *l, qn_arena *scratch, float *low, float *high)
{
	if (!s->balance || s->balanced) {
		qn_ranges_get(s->balance ? s->balanced : s->ranges, l->act_bits, l->min_clip_ratio, scratch, low, high);
		return;
	}
	*low = *high = 0;
	for (int64_t k = 0; k < s->channels; k++) {
		*low = fminf(*low, s->channel_low[k] / s->balance[k]);
		*high = fmaxf(*high, s->channel_high[k] / s->balance[k]);
	}
}

/* A scale that is held up by its least value can be too coarse for every value that was seen. */
static void warn_of_zeros(const qn_graph *g, const qn_stats *s, const qn_layer *l, float low, float high)
{
	float most = high > -low ? high : -low;
	if (most > 0 && most < l->act_scale / 2)
		qn_log(g->ctx, QUERN_LOG_WARN, "layer '%s' (weight '%s'): all codes of '%s' are 0, for its values reach only %.3g and its scale is held at %.3g; lower "
			"act_scale_min, or give it a float activation with --layer", l->name, l->weight, s->value->name, (double)most, (double)l->act_scale);
}

static void give_scale(const qn_graph *g, const quern_config *c, const qn_stats *s, qn_layer *l)
{
	qn_arena scratch;
	qn_arena_init(&scratch, g->ctx);
	float low, high;
	range_of(s, l, &scratch, &low, &high);
	qn_act_codes codes = qn_act_codes_for(l->act_bits, qn_method_asymmetric(c->calibration.method), low, high, l->act_scale_min);
	l->act_scale = codes.scale;
	l->act_zero_point = codes.zero_point;
	l->act_low = (float)(codes.least - codes.zero_point) * codes.scale;
	l->act_high = (float)(codes.most - codes.zero_point) * codes.scale;
	l->balance = s->balance;
	warn_of_zeros(g, s, l, low, high);
	qn_arena_release(&scratch);
}

static void stay_float(qn_graph *g, qn_layer *l)
{
	qn_log(g->ctx, QUERN_LOG_WARN, "layer '%s' (weight '%s'): no sample gave '%s' a value, so its activations stay float", l->name,
		l->weight, l->node->in[0]->name);
	l->act_bits = FLOAT_BITS;
	l->act_reason = "no sample gave its activation a value";
}

/* --- outputs -------------------------------------------------------------------------------------------------------- */
/* `s` NULL: nothing was observed, and the range is that of a sigmoid. */
static void output_scales(const quern_config *c, const qn_stats *s, const char *name, qn_arena *a, qn_output_scales *out)
{
	const qn_calibration_config *k = &c->calibration;
	bool asymmetric = qn_method_asymmetric(k->method), channels = k->output == QN_OUTPUT_CHANNELS;
	*out = (qn_output_scales){.name = name, .n = channels ? s->channels : 1};
	out->scale = QN_NEW(a, float, out->n);
	out->zero_point = QN_NEW(a, int, out->n);
	qn_arena scratch;
	qn_arena_init(&scratch, c->ctx);
	for (int64_t i = 0; i < out->n; i++) {
		float low = 0, high = 1; /* of a sigmoid */
		if (channels) {
			low = fminf(s->channel_low[i], 0);
			high = fmaxf(s->channel_high[i], 0);
		} else if (k->output != QN_OUTPUT_SIGMOID) {
			qn_ranges_get(s->ranges, OUTPUT_BITS, (float)k->min_clip_ratio, &scratch, &low, &high);
		}
		qn_act_codes codes = qn_act_codes_for(OUTPUT_BITS, asymmetric, low, high, (float)k->act_scale_min);
		out->scale[i] = codes.scale;
		out->zero_point[i] = codes.zero_point;
	}
	qn_arena_release(&scratch);
}

static const qn_stats *stats_of_output(const qn_calibration *c, const qn_value *v)
{
	for (size_t i = 0; c && i < c->n_outputs; i++)
		if (c->outputs[i].value == v && c->outputs[i].count)
			return &c->outputs[i];
	return NULL;
}

/* Of every output that was observed, or of all float ones where their range is fixed. */
static void scale_outputs(qn_graph *g, qn_plan *p, const qn_calibration *c)
{
	const qn_calibration_config *k = &p->config->calibration;
	bool fixed = k->output == QN_OUTPUT_SIGMOID;
	if (!c && !(fixed && k->quantize_outputs && !p->n_outputs))
		return;
	qn_output_scales *all = QN_NEW(p->arena, qn_output_scales, g->n_outputs + 1);
	for (int i = 0; i < g->n_outputs; i++) {
		const qn_value *v = g->outputs[i];
		const qn_stats *s = stats_of_output(c, v);
		if (s || (fixed && v->fact.type == QN_F32 && !v->is_const))
			output_scales(p->config, s, g->output_names[i], p->arena, &all[i]);
	}
	p->outputs = all;
	p->n_outputs = (size_t)g->n_outputs;
}

qn_status qn_pass_scales(qn_graph *g, qn_pass_env *env)
{
	qn_plan *p = env->plan;
	qn_calibration *c = env->calibration;
	for (size_t i = 0; c && i < p->n; i++) {
		qn_layer *l = &p->layers[i];
		if (!l->node || l->act_scale != 0 || !qn_layer_needs_range(l, p->config))
			continue;
		const qn_stats *s = qn_calibration_find(c, l->node->in[0]);
		if (s && s->count)
			give_scale(g, p->config, s, l);
		else
			stay_float(g, l);
	}
	scale_outputs(g, p, c);
	return QUERN_OK;
}
