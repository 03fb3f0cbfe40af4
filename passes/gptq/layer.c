/* layer.c - one group of layers that read one tensor: rounding against its targets, bias, and what falls back. */
#include "passes/gptq/candidate.h"

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

static void hand_over(qn_gptq_shared *h, qn_plan *plan, const qn_gptq_target *t, const qn_rounded *r, qn_tensor *bias, qn_arena *values)
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
	if (!bias)
		return;
	l->ready_bias = bias;
	qn_streams_override(h->s, l->node->in[2], bias);
}

/* Targets may move a row's weights by this share of them, in the root mean square of what both do to its result. Layers that make good what
 * rounding did to others move theirs by 0.01 to 0.1. Beyond, the stream's error is out of proportion to what the layer adds to it, and weights
 * that are blown up to cancel it on the samples would add to it on other inputs. */
static const double MOST_MOVED = 0.25;

static void bound_moves(const qn_gptq_target *t, const qn_metric *m, float *target)
{
	for (int64_t r = 0; r < t->l->n; r++) {
		const float *w = t->w + r * m->n;
		float *to = target + r * m->n;
		double before = 0, moved = 0;
		for (int64_t i = 0; i < m->n; i++) {
			double h = (double)m->h[i * m->n + i], d = (double)to[i] - (double)w[i];
			before += h * (double)w[i] * (double)w[i];
			moved += h * d * d;
		}
		double part = moved > 0 ? MOST_MOVED * sqrt(before / moved) : 1;
		for (int64_t i = 0; i < m->n && part < 1; i++)
			to[i] = (float)((double)w[i] + part * ((double)to[i] - (double)w[i]));
	}
}

static qn_status round_layer(qn_gptq_shared *h, qn_plan *plan, const qn_gptq_target *t, qn_arena *values)
{
	qn_layer *l = t->l;
	qn_arena scratch;
	qn_arena_init(&scratch, h->g->ctx);
	float *target = QN_NEW(&scratch, float, l->n *l->k);
	memcpy(target, t->w, (size_t)(l->n * l->k) * sizeof *target);
	if (t->exc) {
		qn_metric_compensate(h->g->ctx, &scratch, &h->metric, t->exc, h->o->alpha, target, l->n);
		bound_moves(t, &h->metric, target);
	}
	qn_rounded r = qn_rounded_new(l, plan->arena, values);
	qn_status status = qn_round_by_metric(h, l, target, &r);
	qn_arena_release(&scratch);
	qn_tensor *bias = h->o->centre ? qn_tensor_new(plan->arena, QN_F32, 1, &l->n) : NULL;
	if (status == QUERN_OK && bias)
		correct_bias(h, t, r.q, (float *)(uintptr_t)bias->data);
	qn_verdict verdict = QN_BETTER;
	if (status == QUERN_OK)
		status = qn_rounded_judge(h, t, r.q, bias ? bias->data : t->bias, &verdict);
	if (status == QUERN_OK && verdict != QN_BETTER) {
		l->rounding = NULL;
		l->rounding_note = verdict == QN_WORSE ? "plain rounding has the smaller error on the layer's own inputs" :
			"plain rounding has the smaller error in most rows: few are very large";
		status = qn_round_plainly(h->g->ctx, l, t->w, &r);
	}
	if (verdict == QN_WORSE_BY_ROW)
		bias = NULL; /* what is large in few rows is in the mean too */
	if (status == QUERN_OK && bias)
		correct_bias(h, t, r.q, (float *)(uintptr_t)bias->data);
	if (status == QUERN_OK)
		hand_over(h, plan, t, &r, bias, values);
	if (status == QUERN_OK && verdict == QN_BETTER && h->o->residual && h->o->sequential && !t->rounded.rows)
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
			group[i]->rounding_note = h.few_rows ? QN_TOO_FEW_ROWS : "the second moment of its inputs is singular";
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
