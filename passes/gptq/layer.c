/* layer.c - one group of layers that read one tensor: rounding against its targets, bias, and what falls back. */
#include "passes/gptq/layer.h"

#include "graph/op.h"

#include <math.h>

/* --- which layers ------------------------------------------------------------------------------------------------------- */
bool qn_gptq_shares_weight(const qn_plan *p, const qn_layer *l)
{
	qn_value *w = l->node->in[l->weight_in], *root = qn_value_root(w);
	if (l->tied)
		return true;
	for (const qn_layer *o = p->layers; o < p->layers + p->n; o++) {
		if (o == l || !o->node)
			continue;
		qn_value *other = o->node->in[o->weight_in];
		if (other == w || (root && qn_value_root(other) == root))
			return true;
	}
	return false;
}

static const char *refusal(const qn_plan *p, const qn_layer *l)
{
	for (int i = 1; i < l->n_parts; i++)
		if (l->parts[i].form != l->parts[0].form || l->parts[i].weight_bits != l->parts[0].weight_bits)
			return "the parts of the fused weight have different widths";
	if (l->node->op != qn_op_find("quern", "Linear"))
		return "only linear layers are rounded by samples";
	if (l->form == QN_FORM_Q4_0 && l->weight_bits != 4)
		return "widths below 4 bits are not rounded by samples";
	return qn_gptq_shares_weight(p, l) ? "another layer has the same weight" : NULL;
}

void qn_gptq_mark(qn_plan *p, const char *name, bool i8)
{
	for (qn_layer *l = p->layers; l < p->layers + p->n; l++) {
		if (!l->node || l->ready_weight || (l->form != QN_FORM_Q4_0 && !(i8 && l->form == QN_FORM_I8)))
			continue;
		l->rounding_note = refusal(p, l);
		l->rounding = l->rounding_note ? NULL : name;
	}
}

size_t qn_gptq_group(qn_plan *plan, qn_layer *first, qn_layer **group, size_t most)
{
	size_t n = 0;
	for (qn_layer *l = first; l < plan->layers + plan->n && n < most; l++)
		if (l->rounding && l->node->in[0] == first->node->in[0])
			group[n++] = l;
	return n;
}

qn_value *qn_gptq_residual(const qn_layer *l)
{
	const qn_value *y = l->node->out[0];
	while (y->n_uses == 1 && !y->is_output && (y->uses[0].node->op->traits & QN_LAYOUT) && y->uses[0].input == 0)
		y = y->uses[0].node->out[0];
	if (y->n_uses != 1 || y->is_output)
		return NULL;
	const qn_node *add = y->uses[0].node;
	if (!qn_node_is(add, "Add"))
		return NULL;
	qn_value *r = add->in[1 - y->uses[0].input];
	const qn_shape *a = &r->fact.shape, *b = &l->node->out[0]->fact.shape;
	bool same_width = a->rank >= 1 && qn_shape_equal(a, &y->fact.shape) && qn_dim_equal(a->dim[a->rank - 1], b->dim[b->rank - 1]);
	return r->is_const || !same_width ? NULL : r;
}

/* --- rounding ------------------------------------------------------------------------------------------------------------ */
/* Codes and values of one way to round. */
typedef struct rounded {
	qn_tensor *stored;
	float *scales; /* of i8 */
	float *q;      /* [n, k] */
} rounded;

static qn_tensor *new_tensor(qn_arena *a, qn_dtype type, int64_t n, int64_t k)
{
	int64_t dim[] = {n, k};
	return qn_tensor_new(a, type, k ? 2 : 1, dim);
}

static rounded new_rounded(const qn_layer *l, qn_arena *stored, qn_arena *values)
{
	bool i8 = l->form == QN_FORM_I8;
	return (rounded){new_tensor(stored, i8 ? QN_I8 : QN_Q4_0, l->n, l->k), i8 ? QN_NEW(stored, float, l->n) : NULL, QN_NEW(values, float, l->n *l->k)};
}

static void values_of(qn_ctx *ctx, const qn_layer *l, rounded *r)
{
	if (l->form == QN_FORM_Q4_0) {
		qn_dequantize_q4_0(ctx, r->stored->data, l->n * l->k, false, r->q);
		return;
	}
	const int8_t *codes = r->stored->data;
	for (int64_t i = 0; i < l->n * l->k; i++)
		r->q[i] = (float)codes[i] * r->scales[i / l->k];
}

static qn_status round_plainly(qn_ctx *ctx, const qn_layer *l, const float *w, rounded *r)
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

static qn_status round_by_metric(qn_gptq_shared *h, const qn_layer *l, const float *target, rounded *r)
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

/* --- is it better? ------------------------------------------------------------------------------------------------------ */
/* By how much plain rounding's error on the layer's own inputs is above q's, over every step-th row. */
typedef struct gain {
	double sum, squares;
	int64_t rows;
} gain;

static qn_status measure_gain(qn_gptq_shared *h, const qn_gptq_target *t, const float *q, int64_t step, gain *out)
{
	const qn_layer *l = t->l;
	int64_t rows = (l->n + step - 1) / step, k = l->k;
	qn_arena a;
	qn_arena_init(&a, h->g->ctx);
	qn_layer part = *l;
	part.n = rows;
	float *w = QN_NEW(&a, float, rows *k), *mine = QN_NEW(&a, float, rows *k);
	double *exc = t->exc ? QN_NEW(&a, double, rows *k) : NULL, *won = QN_NEW(&a, double, rows), *before = QN_NEW(&a, double, rows);
	for (int64_t r = 0; r < rows; r++) {
		memcpy(w + r * k, t->w + r * step * k, (size_t)k * sizeof *w);
		memcpy(mine + r * k, q + r * step * k, (size_t)k * sizeof *w);
		if (exc)
			memcpy(exc + r * k, t->exc + r * step * k, (size_t)k * sizeof *exc);
	}
	rounded plain = new_rounded(&part, &a, &a);
	qn_status status = round_plainly(h->g->ctx, &part, w, &plain);
	qn_metric_loss(h->g->ctx, &a, &h->metric, w, mine, exc, rows, won);
	qn_metric_loss(h->g->ctx, &a, &h->metric, w, plain.q, exc, rows, before);
	*out = (gain){.rows = rows};
	for (int64_t r = 0; r < rows; r++) {
		out->sum += before[r] - won[r];
		out->squares += (before[r] - won[r]) * (before[r] - won[r]);
	}
	qn_arena_release(&a);
	return status;
}

/* A sample of the rows decides where it leaves no doubt, else all rows. */
static qn_status is_better(qn_gptq_shared *h, const qn_gptq_target *t, const float *q, bool *better)
{
	enum { SAMPLE = 96, DEVIATIONS = 4 };
	gain g;
	int64_t step = t->l->n / SAMPLE > 1 ? t->l->n / SAMPLE : 1;
	QN_TRY(measure_gain(h, t, q, step, &g));
	double spread = g.squares - g.sum * g.sum / (double)g.rows;
	if (step > 1 && !(g.sum > 0 && g.sum * g.sum > DEVIATIONS * DEVIATIONS * spread))
		QN_TRY(measure_gain(h, t, q, 1, &g));
	*better = g.sum >= 0;
	return QUERN_OK;
}

/* --- one layer ------------------------------------------------------------------------------------------------------------ */
/* Mean error of the layer's result, which its bias makes good: mean(T) - Q mean(x). */
static void correct_bias(const qn_gptq_shared *h, const qn_gptq_target *t, const float *q, float *out)
{
	int64_t k = t->l->k;
	for (int64_t r = 0; r < t->l->n; r++) {
		double s = t->bias ? (double)t->bias[r] : 0;
		for (int64_t i = 0; i < k; i++)
			s += (double)t->w[r * k + i] * (double)h->mean_exact[i] - (double)q[r * k + i] * (double)h->metric.mean[i];
		out[r] = (float)(s + (double)t->mean_residual[r]);
	}
}

static void hand_over(qn_gptq_shared *h, qn_plan *plan, const qn_gptq_target *t, const rounded *r, qn_arena *values)
{
	qn_layer *l = t->l;
	l->ready_weight = r->stored;
	if (r->scales) {
		qn_tensor *scale = QN_NEW(plan->arena, qn_tensor, 1);
		*scale = (qn_tensor){QN_F32, 1, {l->n}, r->scales};
		l->ready_scale = scale;
	}
	qn_tensor *seen = QN_NEW(values, qn_tensor, 1);
	*seen = (qn_tensor){QN_F32, 2, {l->n, l->k}, r->q};
	qn_streams_override(h->s, l->node->in[1], seen);
	if (!h->o->centre)
		return;
	qn_tensor *b = new_tensor(plan->arena, QN_F32, l->n, 0);
	correct_bias(h, t, r->q, (float *)(uintptr_t)b->data);
	l->ready_bias = b;
	qn_streams_override(h->s, l->node->in[2], b);
}

static qn_status round_layer(qn_gptq_shared *h, qn_plan *plan, const qn_gptq_target *t, qn_arena *values)
{
	qn_layer *l = t->l;
	qn_arena scratch;
	qn_arena_init(&scratch, h->g->ctx);
	float *target = QN_NEW(&scratch, float, l->n *l->k);
	memcpy(target, t->w, (size_t)(l->n * l->k) * sizeof *target);
	if (t->exc)
		qn_metric_compensate(h->g->ctx, &scratch, &h->metric, t->exc, h->o->alpha, target, l->n);
	rounded r = new_rounded(l, plan->arena, values);
	qn_status status = round_by_metric(h, l, target, &r);
	qn_arena_release(&scratch);
	bool better = true;
	if (status == QUERN_OK)
		status = is_better(h, t, r.q, &better);
	if (status == QUERN_OK && !better) {
		l->rounding = NULL;
		l->rounding_note = "plain rounding has the smaller error on the layer's own inputs";
		status = round_plainly(h->g->ctx, l, t->w, &r);
	}
	if (status == QUERN_OK)
		hand_over(h, plan, t, &r, values);
	if (status == QUERN_OK && better && h->o->residual && h->o->sequential && !t->rounded.rows)
		l->rounding_note = "its result is added to no stream: the plain target is used";
	return status;
}

qn_status qn_gptq_round_group(qn_graph *g, qn_plan *plan, qn_streams *s, const qn_gptq_settings *o, qn_layer **group, size_t n, qn_arena *values)
{
	qn_arena a;
	qn_arena_init(&a, g->ctx);
	qn_gptq_shared h = {.g = g, .s = s, .o = o, .a = &a, .t = QN_NEW(&a, qn_gptq_target, n), .n = n};
	for (size_t i = 0; i < n; i++)
		h.t[i].l = group[i];
	qn_status status = qn_gptq_targets(&h);
	if (status == QUERN_ERR_NUMERIC) {
		for (size_t i = 0; i < n; i++) {
			group[i]->rounding = NULL;
			group[i]->rounding_note = h.metric.rows < QN_GPTQ_FEWEST_ROWS ? "the samples give it too few rows" : "the second moment of its inputs is singular";
		}
		status = QUERN_OK;
	} else {
		for (size_t i = 0; i < n && status == QUERN_OK; i++) {
			status = round_layer(&h, plan, &h.t[i], values);
			if (status != QUERN_OK)
				qn_prefix(g->ctx, status, "layer '%s'", group[i]->name);
		}
	}
	qn_arena_release(&a);
	return status;
}
