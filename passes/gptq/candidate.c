/* candidate.c - ways to round the weight of a layer. */
#include "passes/gptq/candidate.h"

qn_rounded qn_rounded_new(const qn_layer *l, qn_arena *stored, qn_arena *values)
{
	bool i8 = l->form == QN_FORM_I8;
	int64_t dim[] = {l->n, l->k};
	return (qn_rounded){qn_tensor_new(stored, i8 ? QN_I8 : QN_Q4_0, 2, dim), i8 ? QN_NEW(stored, float, l->n) : NULL, QN_NEW(values, float, l->n *l->k)};
}

static void values_of(qn_ctx *ctx, const qn_layer *l, qn_rounded *r)
{
	if (l->form == QN_FORM_Q4_0) {
		qn_dequantize_q4_0(ctx, r->stored->data, l->n * l->k, false, r->q);
		return;
	}
	const int8_t *codes = r->stored->data;
	for (int64_t i = 0; i < l->n * l->k; i++)
		r->q[i] = (float)codes[i] * r->scales[i / l->k];
}

qn_status qn_round_plainly(qn_ctx *ctx, const qn_layer *l, const float *w, qn_rounded *r)
{
	qn_quant_report report;
	void *data = (void *)(uintptr_t)r->stored->data;
	if (l->form == QN_FORM_I8)
		QN_TRY(qn_quantize_i8_rows(ctx, w, l->n, l->k, qn_form_levels(l->form, l->weight_bits), l->weight_scale_min, data, r->scales, &report));
	else
		QN_TRY(qn_quantize_q4_0(ctx, w, l->n, l->k, QN_ROUND_MSE, NULL, data, &report));
	values_of(ctx, l, r);
	return QUERN_OK;
}

qn_status qn_round_by_metric(qn_gptq_shared *h, const qn_layer *l, const float *target, qn_rounded *r)
{
	qn_ctx *ctx = h->g->ctx;
	void *data = (void *)(uintptr_t)r->stored->data;
	qn_arena scratch;
	qn_arena_init(&scratch, ctx);
	qn_status status = QUERN_OK;
	if (l->form == QN_FORM_I8) {
		qn_quant_report report;
		int bits = qn_form_levels(l->form, l->weight_bits);
		status = qn_quantize_i8_rows(ctx, target, l->n, l->k, bits, l->weight_scale_min, NULL, r->scales, &report);
		if (status == QUERN_OK)
			qn_gptq_i8(ctx, &scratch, &h->metric, target, l->n, bits, r->scales, data);
	} else {
		qn_gptq_q4_0(ctx, &scratch, &h->metric, target, l->n, &h->o->rounding, data);
	}
	qn_arena_release(&scratch);
	values_of(ctx, l, r);
	return status;
}
