/* allocation_write.c - the plan of a compile as an allocation file: one line for each layer, keys in the order of docs/allocation.md. */
#include "passes/allocation.h"
#include "passes/json.h"
#include "passes/stats.h"
#include "passes/tune/curve_json.h"

#include <math.h>

static const float usual_scale_min = 1e-6f;

static void add_name(qn_text *t, const char *key, const char *value)
{
	qn_text_add(t, ", \"%s\": ", key);
	qn_json_string(t, value);
}

/* Rows as runs [from, to). */
static void add_rows(qn_text *t, const qn_part *p)
{
	qn_text_add(t, "[");
	for (int64_t i = 0, end; i < p->n; i = end) {
		for (end = i + 1; end < p->n && p->rows[end] == p->rows[end - 1] + 1;)
			end++;
		qn_text_add(t, "%s[%lld, %lld]", i ? ", " : "", (long long)p->rows[i], (long long)p->rows[end - 1] + 1);
	}
	qn_text_add(t, "]");
}

static void add_parts(qn_text *t, const qn_layer *l)
{
	for (int i = 0; i < l->n_parts; i++) {
		qn_text_add(t, "%s{ \"role\": \"%s\", \"rows\": ", i ? ", " : ", \"parts\": [", qn_role_name(l->parts[i].role));
		add_rows(t, &l->parts[i]);
		qn_text_add(t, ", \"weightBits\": %d }", l->parts[i].weight_bits);
	}
	if (l->n_parts)
		qn_text_add(t, "]");
}

static void add_activation(qn_text *t, const qn_layer *l)
{
	qn_text_add(t, ", \"actBits\": %d", l->act_bits);
	if (!(l->act_scale > 0))
		return;
	qn_text_add(t, ", \"actScale\": ");
	qn_json_float(t, l->act_scale);
	qn_text_add(t, ", \"actZeroPoint\": %d, \"actRange\": [", l->act_zero_point);
	qn_json_float(t, l->act_low);
	qn_text_add(t, ", ");
	qn_json_float(t, l->act_high);
	qn_text_add(t, "]");
	if (l->act_bits <= QN_MOST_ACT_BITS && !qn_scale_is_of_width(l->act_scale, l->act_zero_point, l->act_low, l->act_high, l->act_bits))
		qn_text_add(t, ", \"scaleBits\": %d", l->act_bits);
}

static const float *balance_of(const qn_layer *l) { return l->balance; }
static const float *equalized_of(const qn_layer *l) { return l->equalized; }

/* Factors of channels once; the name of that layer where others share them. */
static void add_factors(qn_text *t, const qn_plan *p, const qn_layer *l, const char *key, const float *(*factors_of)(const qn_layer *))
{
	const float *f = factors_of(l);
	if (!f)
		return;
	for (const qn_layer *other = p->layers; other < l; other++)
		if (factors_of(other) == f && other->k == l->k) {
			add_name(t, key, other->name);
			return;
		}
	qn_text_add(t, ", \"%s\": [", key);
	for (int64_t i = 0; i < l->k; i++) {
		qn_text_add(t, "%s", i ? ", " : "");
		qn_json_float(t, f[i]);
	}
	qn_text_add(t, "]");
}

static void add_error(qn_text *t, const qn_layer_error *e)
{
	const double values[QN_LAYER_ERRORS] = {e->cosine, e->sqnr, e->largest};
	int n = 0;
	for (int i = 0; i < QN_LAYER_ERRORS; i++) {
		if (!isfinite(values[i]))
			continue;
		qn_text_add(t, "%s\"%s\": ", n++ ? ", " : ", \"error\": { ", qn_layer_error_names[i]);
		qn_json_double(t, values[i]);
	}
	qn_text_add(t, "%s", n ? " }" : "");
}

static void add_layer(qn_text *t, const qn_plan *p, const qn_layer *l)
{
	qn_text_add(t, "{ \"name\": ");
	qn_json_string(t, l->name);
	add_name(t, "weight", l->weight);
	if (l->role)
		add_name(t, "role", qn_role_name(l->role));
	qn_text_add(t, ", \"block\": %d, \"shape\": [", l->block);
	for (int i = 0; i < l->rank; i++)
		qn_text_add(t, "%s%lld", i ? ", " : "", (long long)l->shape[i]);
	qn_text_add(t, "], \"weightBits\": %d, \"weightForm\": \"%s\"", l->weight_bits, qn_form_name(l->form));
	if (l->weight_scale_min < usual_scale_min || l->weight_scale_min > usual_scale_min) {
		qn_text_add(t, ", \"weightScaleMin\": ");
		qn_json_float(t, l->weight_scale_min);
	}
	add_parts(t, l);
	add_activation(t, l);
	add_factors(t, p, l, "balance", balance_of);
	add_factors(t, p, l, "equalized", equalized_of);
	add_name(t, "origin", qn_origin_name(l->origin));
	if (l->reason || l->act_reason)
		add_name(t, "reason", !l->act_reason ? l->reason : !l->reason ? l->act_reason :
			qn_arena_printf(t->arena, "%s; %s", l->reason, l->act_reason));
	if (l->error)
		add_error(t, l->error);
	qn_text_add(t, " }");
}

static void add_outputs(qn_text *t, const qn_plan *p)
{
	int n = 0;
	for (size_t i = 0; i < p->n_outputs; i++) {
		const qn_output_scales *o = &p->outputs[i];
		if (!o->name)
			continue;
		qn_text_add(t, n++ ? ",\n    { \"name\": " : ",\n  \"outputs\": [\n    { \"name\": ");
		qn_json_string(t, o->name);
		for (int64_t k = 0; k < o->n; k++) {
			qn_text_add(t, k ? ", " : ", \"scale\": [");
			qn_json_float(t, o->scale[k]);
		}
		for (int64_t k = 0; k < o->n; k++)
			qn_text_add(t, "%s%d", k ? ", " : "], \"zeroPoint\": [", o->zero_point[k]);
		qn_text_add(t, "] }");
	}
	qn_text_add(t, "%s", n ? "\n  ]" : "");
}

void qn_allocation_write(const qn_plan *p, qn_text *t)
{
	const quern_config *c = p->config;
	qn_text_add(t, QN_ALLOCATION_BEGINS ", \"version\": %d,\n  \"model\": { \"file\": ", QN_ALLOCATION_VERSION);
	qn_json_string(t, p->file);
	qn_text_add(t, ", \"fingerprint\": \"%s\" },\n", p->fingerprint);
	if (c->rounding != QN_ROUND_MSE)
		qn_text_add(t, "  \"rounding\": \"%s\",\n", qn_rounding_name(c->rounding));
	if (c->rounding == QN_ROUND_MINMAX && c->percentile < 1) {
		qn_text_add(t, "  \"percentile\": ");
		qn_json_double(t, c->percentile);
		qn_text_add(t, ",\n");
	}
	if (c->dynamic_activations)
		qn_text_add(t, "  \"dynamicActivations\": true,\n");
	if (c->calibration.quantize_outputs)
		qn_text_add(t, "  \"quantizeOutputs\": true,\n");
	if (c->equalize && !p->equalization_done)
		qn_text_add(t, "  \"equalize\": true,\n");
	qn_text_add(t, "  \"layers\": [");
	int n = 0;
	for (size_t i = 0; i < p->n; i++) {
		const qn_layer *l = &p->layers[i];
		if (!l->role && l->origin == QN_FROM_DEFAULT)
			continue;
		qn_text_add(t, n++ ? ",\n    " : "\n    ");
		add_layer(t, p, l);
	}
	qn_text_add(t, "%s]", n ? "\n  " : "");
	add_outputs(t, p);
	if (p->tuning) {
		qn_text_add(t, ",\n  \"tuning\": ");
		qn_tuning_write(p->tuning, t);
	}
	qn_text_add(t, " }\n");
}
