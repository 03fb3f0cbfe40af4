/* layer.c - one group of layers that read one tensor: metric, targets, rounding, bias. */
#include "passes/gptq/layer.h"

#include "graph/op.h"

#include <cblas.h>
#include <math.h>

enum { FEWEST_ROWS = 32 };

bool qn_gptq_takes_part(const qn_layer *l)
{
	bool whole = true;
	for (int i = 1; i < l->n_parts; i++)
		whole &= l->parts[i].form == l->parts[0].form && l->parts[i].weight_bits == l->parts[0].weight_bits;
	bool linear = l->node && l->node->op == qn_op_find("quern", "Linear");
	return linear && whole && !l->ready_weight && (l->form == QN_FORM_I8 || (l->form == QN_FORM_Q4_0 && l->weight_bits == 4));
}

size_t qn_gptq_group(qn_plan *plan, qn_layer *first, qn_layer **group, size_t most)
{
	size_t n = 0;
	for (qn_layer *l = first; l < plan->layers + plan->n && n < most; l++)
		if (qn_gptq_takes_part(l) && l->node->in[0] == first->node->in[0])
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

/* What all layers of a group share. */
typedef struct shared {
	qn_graph *g;
	qn_streams *s;
	const qn_gptq_settings *o;
	qn_arena *a;
	int64_t rows, k;
	const float *exact, *rounded; /* inputs, [rows, k] */
	float *mean_exact;            /* [k] */
	qn_metric metric;
	double *drift;                /* [k, k]: (exact - rounded)^T centred; NULL when there is none */
} shared;

static void column_means(const float *x, int64_t rows, int64_t k, float *mean, double *sum)
{
	memset(sum, 0, (size_t)k * sizeof *sum);
	for (int64_t r = 0; r < rows; r++)
		for (int64_t i = 0; i < k; i++)
			sum[i] += (double)x[r * k + i];
	for (int64_t i = 0; i < k; i++)
		mean[i] = (float)(sum[i] / (double)rows);
}

/* d^T xc over all rows, [m, k]: d [rows, m], xc the centred rounded inputs. A chunk at a time, summed in f64. */
static void cross_moment(shared *h, const float *d, int64_t m, double *out)
{
	enum { CHUNK = 512 };
	qn_arena scratch;
	qn_arena_init(&scratch, h->g->ctx);
	float *xc = QN_NEW(&scratch, float, CHUNK *h->k), *part = QN_NEW(&scratch, float, m *h->k);
	for (int64_t from = 0; from < h->rows; from += CHUNK) {
		int64_t n = h->rows - from < CHUNK ? h->rows - from : CHUNK;
		for (int64_t r = 0; r < n; r++)
			for (int64_t i = 0; i < h->k; i++)
				xc[r * h->k + i] = h->rounded[(from + r) * h->k + i] - h->metric.mean[i];
		cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)m, (int)h->k, (int)n, 1, d + from * m, (int)m, xc, (int)h->k, 0, part, (int)h->k);
		for (int64_t i = 0; i < m * h->k; i++)
			out[i] += (double)part[i];
	}
	qn_arena_release(&scratch);
}

static void difference(float *out, const float *a, const float *b, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = a[i] - b[i];
}

static qn_status prepare(shared *h, qn_value *x)
{
	int64_t rows;
	h->exact = qn_streams_rows(h->s, x, false, h->a, &h->rows);
	h->rounded = h->o->sequential ? qn_streams_rows(h->s, x, true, h->a, &rows) : h->exact;
	if (!h->exact || !h->rounded || h->rows < FEWEST_ROWS)
		return QUERN_ERR_NUMERIC;
	QN_TRY(qn_metric_make(h->g->ctx, h->a, h->rounded, h->rows, h->k, h->o->damping, h->o->mean_only, h->o->centre, &h->metric));
	h->mean_exact = QN_NEW(h->a, float, h->k);
	column_means(h->exact, h->rows, h->k, h->mean_exact, QN_NEW(h->a, double, h->k));
	if (h->o->compensate && h->exact != h->rounded) {
		float *d = QN_NEW(h->a, float, h->rows *h->k);
		difference(d, h->exact, h->rounded, h->rows * h->k);
		h->drift = QN_NEW(h->a, double, h->k * h->k);
		cross_moment(h, d, h->k, h->drift);
	}
	return QUERN_OK;
}

/* e^T xc of the error that earlier layers left: w (drift), and what the stream lacks. mean_residual [n] is the stream's mean error. */
static void target_moment(shared *h, const qn_layer *l, const float *w, double *exc, float *mean_residual)
{
	if (h->drift) {
		double *wide = QN_NEW(h->a, double, l->n *h->k);
		for (int64_t i = 0; i < l->n * h->k; i++)
			wide[i] = (double)w[i];
		cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)l->n, (int)h->k, (int)h->k, 1, wide, (int)h->k, h->drift, (int)h->k, 0, exc,
			(int)h->k);
	}
	qn_value *stream = h->o->residual && h->o->sequential ? qn_gptq_residual(l) : NULL;
	int64_t rows_f, rows_q;
	const float *f = stream ? qn_streams_rows(h->s, stream, false, h->a, &rows_f) : NULL;
	const float *q = f ? qn_streams_rows(h->s, stream, true, h->a, &rows_q) : NULL;
	if (!q || rows_f != h->rows || rows_q != h->rows)
		return;
	float *d = QN_NEW(h->a, float, h->rows *l->n);
	difference(d, f, q, h->rows * l->n);
	column_means(d, h->rows, l->n, mean_residual, QN_NEW(h->a, double, l->n));
	if (h->o->compensate)
		cross_moment(h, d, l->n, exc);
}

/* Mean error of the layer's result, which its bias makes good: mean(T) - Q mean(x). */
static void correct_bias(shared *h, const qn_layer *l, const float *w, const float *q, const float *bias, const float *mean_residual, float *out)
{
	for (int64_t r = 0; r < l->n; r++) {
		double s = bias ? (double)bias[r] : 0;
		for (int64_t i = 0; i < h->k; i++)
			s += (double)w[r * h->k + i] * (double)h->mean_exact[i] - (double)q[r * h->k + i] * (double)h->metric.mean[i];
		out[r] = (float)(s + (double)mean_residual[r]);
	}
}

static qn_tensor *new_tensor(qn_arena *a, qn_dtype type, int64_t n, int64_t k)
{
	int64_t dim[] = {n, k};
	return qn_tensor_new(a, type, k ? 2 : 1, dim);
}

/* Rounds `target` into the layer's form; values go to q. */
static qn_status round_rows(shared *h, const qn_layer *l, const float *target, bool plain, qn_tensor *stored, float *scales, float *q)
{
	qn_ctx *ctx = h->g->ctx;
	void *data = (void *)(uintptr_t)stored->data;
	qn_quant_report report;
	if (l->form == QN_FORM_I8) {
		QN_TRY(qn_quantize_i8_rows(ctx, target, l->n, l->k, l->weight_bits, 1e-6f, data, scales, &report));
		for (int64_t i = 0; i < l->n * l->k; i++)
			q[i] = (float)((const int8_t *)data)[i] * scales[i / l->k];
		return QUERN_OK;
	}
	if (plain)
		QN_TRY(qn_quantize_q4_0(ctx, target, l->n, l->k, QN_ROUND_MSE, NULL, data, &report));
	else
		qn_gptq_q4_0(ctx, h->a, &h->metric, target, l->n, &h->o->rounding, data);
	qn_dequantize_q4_0(ctx, data, l->n * l->k, false, q);
	return QUERN_OK;
}

static qn_status round_layer(shared *h, qn_plan *plan, qn_layer *l)
{
	qn_graph *g = h->g;
	const qn_tensor *wt, *bt = NULL;
	QN_TRY(qn_consts_get(h->s->consts, l->node->in[1], &wt));
	if (qn_node_has_in(l->node, 2))
		QN_TRY(qn_consts_get(h->s->consts, l->node->in[2], &bt));
	const float *w = wt->data, *bias = bt ? bt->data : NULL;
	int64_t size = l->n * l->k;
	float *target = QN_NEW(h->a, float, size), *q = QN_NEW(h->a, float, size), *plain = QN_NEW(h->a, float, size);
	float *mean_residual = QN_NEW(h->a, float, l->n);
	memcpy(target, w, (size_t)size * sizeof *w);
	double *exc = QN_NEW(h->a, double, size);
	target_moment(h, l, w, exc, mean_residual);
	if (h->o->compensate)
		qn_metric_compensate(g->ctx, h->a, &h->metric, exc, h->o->alpha, target, l->n);
	qn_dtype type = l->form == QN_FORM_I8 ? QN_I8 : QN_Q4_0;
	qn_tensor *stored = new_tensor(plan->arena, type, l->n, l->k), *scale = new_tensor(plan->arena, QN_F32, l->n, 0);
	qn_tensor *other = new_tensor(h->a, type, l->n, l->k);
	QN_TRY(round_rows(h, l, target, false, stored, (float *)(uintptr_t)scale->data, q));
	if (l->form == QN_FORM_Q4_0) {
		QN_TRY(round_rows(h, l, w, true, other, NULL, plain));
		double won = qn_metric_loss(g->ctx, h->a, &h->metric, target, q, l->n), before = qn_metric_loss(g->ctx, h->a, &h->metric, target, plain, l->n);
		if (!(won <= before)) {
			qn_log(g->ctx, QUERN_LOG_INFO, "layer '%s' keeps plain rounding: %.3g by its inputs, %.3g without", l->name, won, before);
			memcpy((void *)(uintptr_t)stored->data, other->data, qn_tensor_bytes(other));
			memcpy(q, plain, (size_t)size * sizeof *q);
		}
	}
	l->ready_weight = stored;
	l->ready_scale = l->form == QN_FORM_I8 ? scale : NULL;
	qn_tensor *values = new_tensor(h->s->arena, QN_F32, l->n, l->k);
	memcpy((void *)(uintptr_t)values->data, q, (size_t)size * sizeof *q);
	qn_streams_override(h->s, l->node->in[1], values);
	if (h->o->centre) {
		qn_tensor *b = new_tensor(plan->arena, QN_F32, l->n, 0);
		correct_bias(h, l, w, q, bias, mean_residual, (float *)(uintptr_t)b->data);
		l->ready_bias = b;
		qn_streams_override(h->s, l->node->in[2], b);
	}
	return QUERN_OK;
}

qn_status qn_gptq_round_group(qn_graph *g, qn_plan *plan, qn_streams *s, const qn_gptq_settings *o, qn_layer **group, size_t n)
{
	qn_arena a;
	qn_arena_init(&a, g->ctx);
	shared h = {.g = g, .s = s, .o = o, .a = &a, .k = group[0]->k};
	qn_status status = prepare(&h, group[0]->node->in[0]);
	if (status == QUERN_ERR_NUMERIC) {
		for (size_t i = 0; i < n; i++)
			qn_log(g->ctx, QUERN_LOG_INFO, "layer '%s' keeps plain rounding: %s", group[i]->name,
				h.rows < FEWEST_ROWS ? "its samples have too few rows" : "the second moment of its inputs is singular");
		status = QUERN_OK;
	} else {
		for (size_t i = 0; i < n && status == QUERN_OK; i++) {
			status = round_layer(&h, plan, group[i]);
			if (status != QUERN_OK)
				qn_prefix(g->ctx, status, "layer '%s'", group[i]->name);
		}
	}
	qn_arena_release(&a);
	return status;
}
