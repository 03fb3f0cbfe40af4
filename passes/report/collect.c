/* collect.c - the figures of a report from the plan, the stored weights and what was measured. */
#include "passes/report/report.h"

#include "passes/config.h"
#include "passes/stored.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Six digits are more than any figure deserves; what is printed and what is drawn come from the same number. */
static double kept(double v)
{
	char s[40];
	if (!isfinite(v))
		return v;
	snprintf(s, sizeof s, "%.5e", v);
	return strtod(s, NULL);
}

static void keep_spread(qn_spread *p)
{
	p->low = kept(p->low), p->median = kept(p->median), p->high = kept(p->high);
	for (int i = 0; i < 5; i++)
		p->top[i] = kept(p->top[i]);
}

/* --- layers -------------------------------------------------------------------------------------------------------------------------- */
static const char *forms_of(qn_arena *a, const qn_layer *l)
{
	bool differ = false;
	qn_text t = {.arena = a};
	for (int i = 0; i < l->n_parts; i++)
		differ |= l->parts[i].form != l->parts[0].form;
	if (!differ)
		return qn_form_name(l->n_parts ? l->parts[0].form : l->form);
	for (int i = 0; i < l->n_parts; i++)
		qn_text_add(&t, "%s%s", i ? "+" : "", qn_form_name(l->parts[i].form));
	return t.s;
}

static uint64_t bytes_in_file(const qn_layer *l)
{
	int64_t count = 1;
	size_t bytes = 0;
	for (int k = 0; k < l->rank; k++)
		count *= l->shape[k];
	qn_dtype_bytes(l->stored_type, count, &bytes);
	return bytes;
}

/* Of two layers with the same initializer and form the first counts; an equal weight is stored once. */
static bool is_shared(const qn_plan *p, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (p->layers[k].weight && p->layers[i].weight && !strcmp(p->layers[k].weight, p->layers[i].weight) && p->layers[k].form == p->layers[i].form)
			return true;
	return false;
}

static qn_report_layer describe(qn_report *r, const qn_plan *p, size_t i, const qn_weight_figures *w)
{
	const qn_layer *l = &p->layers[i];
	qn_report_layer o = {.name = l->name,
		.weight = l->weight,
		.op = l->node ? l->node->op->name : "Linear",
		.role = qn_role_name(l->role),
		.why = l->why,
		.form = forms_of(r->arena, l),
		.origin = qn_origin_name(l->origin),
		.reason = l->reason,
		.act_reason = l->act_reason,
		.block = l->block,
		.cross = l->cross,
		.rank = l->rank,
		.weight_bits = l->weight_bits,
		.act_bits = l->act_bits,
		.shared = is_shared(p, i),
		.rounding = l->rounding,
		.rounding_note = l->rounding_note,
		.act_zero_point = l->act_zero_point};
	memcpy(o.shape, l->shape, sizeof o.shape);
	o.before = o.shared ? 0 : bytes_in_file(l);
	o.after = o.shared ? 0 : l->bytes;
	o.scale_min = kept(w->scale_min);
	o.scale_max = kept(w->scale_max);
	o.weight_sqnr = kept(qn_snr_db(w->signal, w->noise));
	bool calibrated = l->act_scale > 0 && l->act_bits <= QN_MOST_ACT_BITS;
	o.act_scale = calibrated ? kept((double)l->act_scale) : NAN;
	o.act_low = calibrated ? kept((double)l->act_low) : NAN;
	o.act_high = calibrated ? kept((double)l->act_high) : NAN;
	o.cosine = o.sqnr = o.largest = o.own_sqnr = o.share = o.seen_low = o.seen_high = NAN;
	r->act_quantized |= l->act_bits <= QN_MOST_ACT_BITS;
	return o;
}

static bool are_kin(const qn_report_layer *a, const qn_report_layer *b) { return a->block == b->block && a->cross == b->cross && !strcmp(a->role, b->role); }

static void number_kin(qn_report *r)
{
	for (size_t i = 0; i < r->n_layers; i++) {
		int before = 0, all = 0;
		for (size_t k = 0; k < r->n_layers; k++) {
			bool kin = are_kin(&r->layers[i], &r->layers[k]);
			all += kin;
			before += kin && k < i;
		}
		r->layers[i].ordinal = all > 1 ? before + 1 : 0;
	}
}

static void add_input(qn_report_layer *o, const quern_evaluation *e, const qn_measure *measured, size_t i)
{
	const qn_layer *exact = &e->exact->plan.layers[i];
	const qn_node *n = exact->node;
	const qn_value *v = n->n_in > 1 ? n->in[exact->weight_in == 0] : NULL;
	const qn_input_stats *s = v ? measured->input[v->id] : NULL;
	if (!s)
		return;
	qn_arena scratch;
	qn_arena_init(&scratch, e->ctx);
	const float *by = e->got->plan.layers[i].balance;
	o->balanced = by != NULL;
	o->before_balance = qn_measure_spread(s, NULL, &scratch, &o->seen_low, &o->seen_high);
	o->input = by ? qn_measure_spread(s, by, &scratch, &o->seen_low, &o->seen_high) : o->before_balance;
	o->has_input = o->input.top[0] > 0;
	o->seen_low = kept(o->seen_low), o->seen_high = kept(o->seen_high);
	keep_spread(&o->input);
	keep_spread(&o->before_balance);
	qn_arena_release(&scratch);
}

static void add_run(qn_report *r, const quern_evaluation *e, const qn_measure *measured)
{
	r->executed = true;
	r->samples = e->samples;
	r->samples_given = e->samples_given;
	r->attributed = measured->attributed;
	r->no_share = measured->no_share ? qn_arena_strdup(r->arena, measured->no_share) : NULL;
	for (size_t i = 0; i < r->n_layers; i++)
		r->alone += measured->alone[i];
	for (size_t i = e->n_outputs; i < e->n; i++) {
		size_t k = e->items[i].layer;
		const qn_damage *d = &e->items[i].damage, *own = &measured->own[k];
		qn_report_layer *o = &r->layers[k];
		if (d->samples) {
			o->cosine = kept(qn_damage_cosine(d));
			o->sqnr = kept(qn_damage_sqnr(d));
			o->largest = kept(d->largest);
		}
		if (own->samples)
			o->own_sqnr = kept(qn_damage_sqnr(own));
		if (r->attributed)
			o->share = r->alone > 0 ? kept(measured->alone[k] / r->alone) : 0;
		add_input(o, e, measured, k);
	}
	double n = r->attributed ? (double)r->attributed : 1;
	r->alone = kept(r->alone / n);
	r->together = kept(measured->together / n);
}

static void add_outputs(qn_report *r, const quern_evaluation *e)
{
	r->outputs = QN_NEW(r->arena, qn_report_output, e->n_outputs);
	r->n_outputs = e->n_outputs;
	for (size_t i = 0; i < e->n_outputs; i++) {
		const qn_damage *d = &e->items[i].damage;
		double kl = qn_damage_kl(d);
		r->outputs[i] = (qn_report_output){e->got->graph->output_names[i], kept(qn_damage_cosine(d)), kept(qn_damage_sqnr(d)), kept(d->largest),
			kl >= 0 ? kept(kl) : NAN};
	}
}

/* --- bytes ---------------------------------------------------------------------------------------------------------------------------- */
static qn_report_group *group_of(qn_report *r, const char *role, const char *form)
{
	for (size_t i = 0; i < r->n_groups; i++)
		if (!strcmp(r->groups[i].role, role) && !strcmp(r->groups[i].form, form))
			return &r->groups[i];
	QN_GROW(r->arena, r->groups, r->n_groups, r->cap_groups);
	r->groups[r->n_groups] = (qn_report_group){.role = role, .form = form};
	return &r->groups[r->n_groups++];
}

static int role_order(const char *role)
{
	for (int i = QN_ROLE_COUNT; i-- > 1;)
		if (!strcmp(role, qn_role_name((qn_role)i)))
			return i;
	return strcmp(role, "other") ? QN_ROLE_COUNT : QN_ROLE_COUNT + 1;
}

static int by_role(const void *a, const void *b)
{
	const qn_report_group *x = a, *y = b;
	int d = role_order(x->role) - role_order(y->role);
	return d ? d : x->after != y->after ? (x->after < y->after ? 1 : -1) : strcmp(x->form, y->form);
}

/* Constants of the compiled graph that are no layer's weight. */
static uint64_t other_constants(const quern_model *m)
{
	uint64_t sum = 0;
	bool *is_layer = qn_heap(m->ctx, NULL, 0, m->graph->n_values + 1);
	memset(is_layer, 0, m->graph->n_values);
	for (size_t i = 0; i < m->plan.n_stored; i++)
		is_layer[m->plan.stored[i].value->id] = true;
	for (size_t i = 0; i < m->plan.n; i++)
		if (m->plan.layers[i].node && m->plan.layers[i].form == QN_FORM_F32)
			is_layer[m->plan.layers[i].node->in[m->plan.layers[i].weight_in]->id] = true;
	for (size_t i = 0; i < m->graph->n_values; i++) {
		const qn_value *v = m->graph->values[i];
		size_t bytes = 0;
		int64_t count = 1;
		if (!v || !v->is_const || !v->n_uses || is_layer[i] || !qn_shape_is_const(&v->fact.shape) || (v->fact.value && v->fact.value->type == QN_DIM))
			continue;
		for (int k = 0; k < v->fact.shape.rank; k++)
			count *= v->fact.shape.dim[k].k;
		if (qn_dtype_bytes(v->fact.type, count, &bytes))
			sum += bytes;
	}
	qn_heap(m->ctx, is_layer, m->graph->n_values + 1, 0);
	return sum;
}

/* An int8 weight's scales are constants of the graph too, but belong to the layer. */
static uint64_t scale_bytes(const quern_model *m)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < m->plan.n_stored; i++)
		sum += m->plan.stored[i].made.form == QN_FORM_I8 ? 4 * (uint64_t)m->plan.stored[i].made.n : 0;
	return sum;
}

static void add_bytes(qn_report *r, const quern_model *m)
{
	uint64_t layers_before = 0;
	double bits = 0, count = 0;
	for (size_t i = 0; i < r->n_layers; i++) {
		const qn_report_layer *o = &r->layers[i];
		const qn_layer *l = &m->plan.layers[i];
		qn_report_group *g = group_of(r, *o->role ? o->role : "none", o->form);
		g->layers++;
		g->before += o->before;
		g->after += o->after;
		layers_before += o->before;
		r->weights_after += o->after;
		if (l->role != QN_ROLE_NONE && l->role != QN_ROLE_EMBEDDING && !o->shared) {
			bits += 8 * (double)o->after;
			count += (double)l->n * (double)l->k;
		}
	}
	uint64_t others = other_constants(m), scales = scale_bytes(m);
	qn_report_group *g = group_of(r, "other", "");
	g->before = m->weight_bytes > layers_before ? m->weight_bytes - layers_before : 0;
	g->after = others > scales ? others - scales : 0;
	r->weights_before = m->weight_bytes;
	r->weights_after += g->after;
	r->bits_per_weight = count > 0 ? kept(bits / count) : NAN;
	qsort(r->groups, r->n_groups, sizeof *r->groups, by_role);
}

/* --- all of it -------------------------------------------------------------------------------------------------------------------------- */
static const char *mode_name(const qn_calibration_config *k)
{
	static const char *const names[] = {"max", "maxPercentile", "histogram", "histogram-mse", "histogram-kl"};
	return names[k->mode == QN_CALIB_HISTOGRAM ? QN_CALIB_HISTOGRAM + k->hist_search_type : k->mode];
}

static void add_options(qn_report *r, const quern_config *c)
{
	static const char *const targets[] = {"tract", "khronos"};
	qn_text t = {.arena = r->arena};
	qn_config_text(c, &t);
	r->config = t.s;
	r->target = targets[c->target];
	r->rounding = qn_rounding_name(c->rounding);
	r->percentile = c->percentile;
	r->method = c->calibration.method;
	r->mode = mode_name(&c->calibration);
	r->embedding_bits = c->embedding_bits;
	r->dynamic = c->dynamic_activations;
	r->equalize = c->equalize;
	r->strict = c->strict;
}

qn_status qn_report_collect(qn_report *r, quern_model *m, const quern_evaluation *e, const qn_measure *measured)
{
	qn_weight_figures *w;
	qn_arena scratch;
	qn_arena_init(&scratch, m->ctx);
	qn_status status = qn_report_weights(m, &scratch, &w);
	if (status == QUERN_OK) {
		r->n_layers = m->plan.n;
		r->layers = QN_NEW(r->arena, qn_report_layer, r->n_layers);
		for (size_t i = 0; i < r->n_layers; i++)
			r->layers[i] = describe(r, &m->plan, i, &w[i]);
		number_kin(r);
	}
	qn_arena_release(&scratch);
	QN_TRY(status);
	add_options(r, m->config);
	r->tuning = m->plan.tuning;
	r->equalizations = m->plan.equalizations;
	r->n_equalizations = m->plan.n_equalizations;
	add_bytes(r, m);
	if (e) {
		add_run(r, e, measured);
		add_outputs(r, e);
	}
	qn_report_advise(r);
	return QUERN_OK;
}
