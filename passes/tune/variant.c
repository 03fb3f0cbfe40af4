/* variant.c - one layer's weight at other widths, with the float network's inputs. */
#include "passes/gptq/layer.h"
#include "passes/tune/tuner.h"

/* The layer as it would be with a candidate. */
static qn_layer as_candidate(const qn_layer *l, const qn_candidate *c, qn_arena *a)
{
	qn_layer as = *l;
	as.weight_bits = c->bits;
	as.form = c->form;
	as.parts = QN_NEW(a, qn_part, l->n_parts);
	for (int i = 0; i < l->n_parts; i++) {
		as.parts[i] = l->parts[i];
		as.parts[i].weight_bits = c->bits;
		as.parts[i].form = c->form;
	}
	return as;
}

/* A weight of the form's type as floats. */
static qn_tensor *floats_of(qn_ctx *ctx, qn_arena *a, const qn_layer *l, const qn_tensor *stored, const float *scale)
{
	qn_tensor *t = qn_tensor_new(a, QN_F32, stored->rank, stored->dim);
	float *v = (float *)(uintptr_t)t->data;
	int64_t count = qn_tensor_count(stored);
	if (l->form == QN_FORM_Q4_0)
		qn_dequantize_q4_0(ctx, stored->data, count, false, v);
	else if (l->form == QN_FORM_Q8_1)
		qn_dequantize_q8_1(ctx, stored->data, count, v);
	else
		for (int64_t i = 0; i < count; i++)
			v[i] = (float)((const int8_t *)stored->data)[i] * scale[i / l->k];
	return t;
}

/* Rounded by the values of the weight alone. */
static qn_status plain(qn_tuner *t, const qn_layer *l, qn_arena *a, qn_variant *out)
{
	static const qn_dtype types[] = {[QN_FORM_Q4_0] = QN_Q4_0, [QN_FORM_Q8_1] = QN_Q8_1, [QN_FORM_I8] = QN_I8};
	const qn_tensor *wt;
	QN_TRY(qn_consts_get(t->streams.consts, l->node->in[l->weight_in], &wt));
	const float *w = qn_tensor_f32(a, wt);
	qn_tensor *stored = qn_tensor_new(a, types[l->form], wt->rank, wt->dim);
	void *data = (void *)(uintptr_t)stored->data;
	float *scale = QN_NEW(a, float, l->n);
	qn_quant_report report;
	qn_q4_opts opts = {.percentile = t->config->percentile, .bits = l->weight_bits < 4 ? l->weight_bits : 4};
	qn_rounding rounding = t->config->rounding > QN_ROUND_MSE ? QN_ROUND_MSE : t->config->rounding;
	if (l->form == QN_FORM_Q4_0)
		QN_TRY(qn_quantize_q4_0(t->ctx, w, l->n, l->k, rounding, &opts, data, &report));
	else if (l->form == QN_FORM_Q8_1)
		QN_TRY(qn_quantize_q8_1(t->ctx, w, l->n * l->k, data, &report));
	else
		QN_TRY(qn_quantize_i8_rows(t->ctx, w, l->n, l->k, l->weight_bits <= 4 ? 8 : l->weight_bits, l->weight_scale_min, data, scale, &report));
	out->weight = floats_of(t->ctx, a, l, stored, scale);
	return QUERN_OK;
}

/* Second moments of float inputs, centred, strongly damped; scales by trial; the mean error goes into the bias. What only the whole rounding can do (inputs
 * of the rounded network, targets that make good for earlier layers, descents) is left out. */
static qn_status by_inputs(qn_tuner *t, qn_layer **group, size_t n, qn_arena *a)
{
	const qn_gptq_settings settings = {.damping = {.by = 0.3}, .centre = true, .rounding = {.trial = true}};
	qn_plan plan = t->model->plan;
	qn_streams streams = t->streams;
	plan.arena = streams.arena = a; /* what is made here is gone with it */
	qn_status status = qn_gptq_round_group(t->model->graph, &plan, &streams, &settings, group, n, a);
	for (size_t i = 0; i < n; i++) {
		qn_streams_override(&t->streams, group[i]->node->in[1], NULL);
		if (qn_node_has_in(group[i]->node, 2))
			qn_streams_override(&t->streams, group[i]->node->in[2], NULL);
	}
	return status;
}

/* The layer of a unit whose inputs tell how to round. */
static const qn_layer *reader(const qn_unit *u)
{
	for (size_t i = 0; i < u->n; i++)
		if (u->layers[i]->role != QN_ROLE_EMBEDDING)
			return u->layers[i];
	return u->layers[0];
}

qn_status qn_variants_make(qn_tuner *t, const qn_unit *u, const bool *wanted, qn_arena *a, qn_variant *out)
{
	qn_layer as[QN_MOST_CANDIDATES], *group[QN_MOST_CANDIDATES];
	size_t n = 0;
	bool samples_round = t->config->rounding == QN_ROUND_GPTQ && u->n == 1;
	for (int c = 0; c < u->n_candidates; c++) {
		if (!wanted[c])
			continue;
		as[c] = as_candidate(reader(u), &u->candidates[c], a);
		if (samples_round)
			qn_gptq_mark(&(qn_plan){.layers = &as[c], .n = 1, .arena = a}, "gptq", true);
		if (as[c].rounding)
			group[n++] = &as[c];
	}
	if (n)
		QN_TRY(by_inputs(t, group, n, a));
	for (int c = 0; c < u->n_candidates; c++) {
		if (!wanted[c])
			continue;
		out[c] = (qn_variant){.bias = as[c].ready_bias};
		if (as[c].ready_weight)
			out[c].weight = floats_of(t->ctx, a, &as[c], as[c].ready_weight, as[c].ready_scale ? as[c].ready_scale->data : NULL);
		else
			QN_TRY(plain(t, &as[c], a, &out[c]));
	}
	return QUERN_OK;
}
