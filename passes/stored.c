/* stored.c - weights become recipes that quantize when they are written, so that a large model never lies in memory as a whole. */
#include "passes/stored.h"

qn_status qn_store_source(qn_graph *g, const qn_store *s, qn_arena *scratch, const float **out)
{
	const qn_tensor *t;
	QN_TRY(qn_graph_load(g, s->source, scratch, &t));
	const float *all = qn_tensor_f32(scratch, t);
	*out = all;
	if (!s->rows)
		return QUERN_OK;
	float *taken = QN_NEW(scratch, float, s->n *s->k);
	for (int64_t i = 0; i < s->n; i++)
		memcpy(taken + i * s->k, all + s->rows[i] * s->k, (size_t)s->k * sizeof *taken);
	*out = taken;
	return QUERN_OK;
}

static qn_tensor *stored_tensor(const qn_fact *f, qn_arena *scratch)
{
	int64_t dim[QN_MAX_RANK];
	for (int i = 0; i < f->shape.rank; i++)
		dim[i] = f->shape.dim[i].k;
	return qn_tensor_new(scratch, f->type, f->shape.rank, dim);
}

typedef struct recipe {
	qn_store s;
	qn_value *value;
} recipe;

/* Of weights that a rounding by samples left alone: embeddings, operands of other operators. */
static qn_rounding plain_rounding(const quern_config *c) { return c->rounding > QN_ROUND_MSE ? QN_ROUND_MSE : c->rounding; }

static qn_status make_weight(qn_graph *g, void *arg, qn_arena *scratch, const qn_tensor **out)
{
	const recipe *r = arg;
	const qn_store *s = &r->s;
	const float *w;
	QN_TRY(qn_store_source(g, s, scratch, &w));
	qn_tensor *t = stored_tensor(&r->value->fact, scratch);
	void *data = (void *)(uintptr_t)t->data;
	qn_quant_report report;
	qn_q4_opts opts = {.percentile = s->config->percentile, .bits = s->bits < 4 ? s->bits : 4};
	float *scales;
	switch (s->form) {
	case QN_FORM_Q4_0:
		QN_TRY(qn_quantize_q4_0(g->ctx, w, s->n, s->k, plain_rounding(s->config), &opts, data, &report));
		break;
	case QN_FORM_Q8_1:
		QN_TRY(qn_quantize_q8_1(g->ctx, w, s->n * s->k, data, &report));
		break;
	case QN_FORM_I8:
		scales = QN_NEW(scratch, float, s->n);
		QN_TRY(qn_quantize_i8_rows(g->ctx, w, s->n, s->k, s->bits, s->scale_min, data, scales, &report));
		break;
	case QN_FORM_F16:
		QN_TRY(qn_quantize_f16(g->ctx, w, s->n * s->k, data, &report));
		break;
	case QN_FORM_F32:
		memcpy(data, w, qn_tensor_bytes(t));
		break;
	}
	*out = t;
	return QUERN_OK;
}

static const char *weight_name(const qn_store *s) { return s->source->weight ? s->source->weight : s->source->name; }

static qn_value *constant_of(qn_graph *g, const qn_store *s)
{
	static const qn_dtype types[] = {[QN_FORM_Q4_0] = QN_Q4_0, [QN_FORM_Q8_1] = QN_Q8_1, [QN_FORM_I8] = QN_I8, [QN_FORM_F16] = QN_F16,
		[QN_FORM_F32] = QN_F32};
	if (s->ready) {
		qn_value *v = qn_graph_const(g, weight_name(s), s->ready);
		v->weight = s->source->weight;
		return v;
	}
	qn_value *v = qn_graph_value(g, weight_name(s));
	recipe *r = QN_NEW(g->arena, recipe, 1);
	*r = (recipe){*s, v};
	v->is_const = true;
	v->weight = s->source->weight;
	v->fact = (qn_fact){types[s->form], s->source->fact.shape, NULL};
	v->fact.shape.dim[0] = qn_dim_const(s->n);
	v->make = make_weight;
	v->make_arg = r;
	return v;
}

qn_value *qn_store_weight(qn_graph *g, const qn_store *s)
{
	qn_plan *p = s->plan;
	qn_value *v = constant_of(g, s);
	QN_GROW(p->arena, p->stored, p->n_stored, p->cap_stored);
	p->stored[p->n_stored++] = (qn_stored_weight){s->layer, *s, v};
	return v;
}

static void sum_rows(const int8_t *codes, int64_t n, int64_t k, int64_t *sums)
{
	for (int64_t i = 0; i < n; i++) {
		int32_t sum = 0; /* holds 2^24 codes */
		for (int64_t j = 0; j < k; j++)
			sum += codes[i * k + j];
		sums[i] = sum;
	}
}

static qn_status scales_of(qn_graph *g, const qn_store *s, qn_arena *scratch, float *scales, int64_t *sums)
{
	if (s->ready) {
		memcpy(scales, s->ready_scale->data, (size_t)s->n * sizeof *scales);
		if (sums)
			sum_rows(s->ready->data, s->n, s->k, sums);
		return QUERN_OK;
	}
	const float *w;
	QN_TRY(qn_store_source(g, s, scratch, &w));
	qn_quant_report report;
	int8_t *codes = sums ? QN_NEW(scratch, int8_t, s->n *s->k) : NULL;
	QN_TRY(qn_quantize_i8_rows(g->ctx, w, s->n, s->k, s->bits, s->scale_min, codes, scales, &report));
	if (sums)
		sum_rows(codes, s->n, s->k, sums);
	return QUERN_OK;
}

qn_status qn_store_scales(qn_graph *g, const qn_store *s, qn_arena *a, float **scales, int64_t **sums)
{
	*scales = QN_NEW(a, float, s->n);
	if (sums)
		*sums = QN_NEW(a, int64_t, s->n);
	qn_arena scratch;
	qn_arena_init(&scratch, g->ctx);
	qn_status status = scales_of(g, s, &scratch, *scales, sums ? *sums : NULL);
	qn_arena_release(&scratch);
	return status;
}

qn_value *qn_store_vector(qn_graph *g, const char *name, const float *v, int64_t n)
{
	qn_tensor *t = QN_NEW(g->arena, qn_tensor, 1);
	*t = (qn_tensor){QN_F32, 1, {n}, v};
	qn_value *out = qn_graph_const(g, name, t);
	out->weight = out->name;
	return out;
}

qn_status qn_store_bias(qn_graph *g, const qn_store *s, qn_value *bias, qn_value **out)
{
	*out = bias;
	if (!bias || !s->rows)
		return QUERN_OK;
	qn_arena scratch;
	qn_arena_init(&scratch, g->ctx);
	const qn_tensor *t;
	qn_status status = qn_graph_load(g, bias, &scratch, &t);
	if (status == QUERN_OK) {
		const float *all = qn_tensor_f32(&scratch, t);
		float *taken = QN_NEW(g->arena, float, s->n);
		for (int64_t i = 0; i < s->n; i++)
			taken[i] = all[s->rows[i]];
		*out = qn_store_vector(g, bias->name, taken, s->n);
		(*out)->weight = bias->weight;
	}
	qn_arena_release(&scratch);
	return status;
}
