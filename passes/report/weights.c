/* weights.c - what is stored of each weight against the floats that it was made from, one weight in memory at a time. */
#include "passes/report/measure.h"
#include "passes/stored.h"

#include <math.h>

static void see_scale(qn_weight_figures *w, double scale)
{
	scale = fabs(scale);
	if (!(scale > 0))
		return;
	w->scale_min = w->scale_min < scale ? w->scale_min : scale; /* NAN gives way */
	w->scale_max = w->scale_max > scale ? w->scale_max : scale;
}

static void block_scales(qn_weight_figures *w, const uint8_t *blocks, int64_t n, size_t bytes)
{
	for (int64_t i = 0; i < n; i++)
		see_scale(w, (double)qn_f16_to_f32(qn_get_u16(blocks + (size_t)i * bytes)));
}

/* The stored weight as floats. */
static qn_status stored_floats(qn_graph *g, const qn_stored_weight *s, qn_arena *a, qn_weight_figures *w, const float **out)
{
	const qn_tensor *t;
	QN_TRY(qn_graph_load(g, s->value, a, &t));
	int64_t n = s->made.n, k = s->made.k;
	float *q = QN_NEW(a, float, n *k), *scales;
	*out = q;
	switch (s->made.form) {
	case QN_FORM_Q4_0:
		block_scales(w, t->data, n * k / QN_BLOCK, QN_Q4_0_BYTES);
		qn_dequantize_q4_0(g->ctx, t->data, n * k, false, q);
		break;
	case QN_FORM_Q8_1:
		block_scales(w, t->data, n * k / QN_BLOCK, QN_Q8_1_BYTES);
		qn_dequantize_q8_1(g->ctx, t->data, n * k, q);
		break;
	case QN_FORM_I8:
		QN_TRY(qn_store_scales(g, &s->made, a, &scales, NULL));
		for (int64_t r = 0; r < n; r++) {
			see_scale(w, (double)scales[r]);
			for (int64_t i = 0; i < k; i++)
				q[r * k + i] = (float)((const int8_t *)t->data)[r * k + i] * scales[r];
		}
		break;
	case QN_FORM_F16:
	case QN_FORM_F32:
		*out = qn_tensor_f32(a, t);
		break;
	}
	return QUERN_OK;
}

static qn_status look(qn_graph *g, const qn_stored_weight *s, qn_arena *a, qn_weight_figures *w)
{
	const float *exact, *got;
	double signal, noise;
	QN_TRY(qn_store_source(g, &s->made, a, &exact));
	QN_TRY(stored_floats(g, s, a, w, &got));
	qn_quant_error(g->ctx, exact, got, s->made.n * s->made.k, &signal, &noise);
	w->signal += signal;
	w->noise += noise;
	return QUERN_OK;
}

qn_status qn_report_weights(quern_model *m, qn_arena *a, qn_weight_figures **out)
{
	qn_weight_figures *w = *out = QN_NEW(a, qn_weight_figures, m->plan.n);
	for (size_t i = 0; i < m->plan.n; i++)
		w[i] = (qn_weight_figures){0, 0, NAN, NAN};
	for (size_t i = 0; i < m->plan.n_stored; i++) {
		const qn_stored_weight *s = &m->plan.stored[i];
		qn_arena scratch;
		qn_arena_init(&scratch, m->ctx);
		qn_status status = look(m->graph, s, &scratch, &w[s->layer]);
		qn_arena_release(&scratch);
		if (status != QUERN_OK)
			return qn_prefix(m->ctx, status, "layer '%s'", m->plan.layers[s->layer].name);
		if (m->ctx->progress && !m->ctx->progress(m->ctx->progress_user, "report", i + 1, m->plan.n_stored))
			QN_FAIL(m->ctx, QUERN_ERR_CANCELLED, "stopped");
	}
	return QUERN_OK;
}
