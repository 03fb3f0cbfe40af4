/* search.c - factors of the form x^a / w^b, x the root mean square of a channel and w that of the weights which read it, for a few
 * exponents: those with which the layers' weights, rounded, make the smallest error of the results. */
#include "passes/config.h"
#include "passes/equalize/equalize.h"
#include "passes/fold.h"
#include "passes/gptq/layer.h"

#include <float.h>
#include <math.h>

enum { MOST_ROWS = 256 }; /* of a weight, evenly strided: more do not change which factors are best */
/* Factors that are not better than none by this are not worth it, and none is further than this from their mean. */
static const double WORTHWHILE = 0.98, WIDEST = 16;
static const double exponents[] = {0, 0.25, 0.5};

/* Some rows of a reader's weight. */
typedef struct sampled {
	const qn_layer *l;
	float *w; /* [n, k] */
	int64_t n;
	double signal; /* sum of (w x)^2 */
} sampled;

typedef struct search {
	qn_graph *g;
	const qn_plan *p;
	const qn_equal_group *e;
	qn_arena *a;
	sampled of[QN_EQUAL_READERS];
	size_t n;
	double *x; /* [k] mean square of each channel */
	float *w, *q, *importance;
	void *codes;
} search;

static bool is_narrow(const qn_layer *l)
{
	return l->form == QN_FORM_Q4_0 || l->form == QN_FORM_I8;
}

/* --- what channels are like ------------------------------------------------------------------------------------------------ */
/* A norm's result before gain and bias has a variance of 1. */
static qn_status guess_of_norm(search *s)
{
	const qn_node *n = s->e->norm;
	const float *gain = NULL, *bias = NULL;
	int64_t channels = qn_equal_channels(s->e);
	QN_TRY(qn_fold_numbers(s->g, n->in[1], channels, s->a, &gain));
	if (qn_node_has_in(n, 2))
		QN_TRY(qn_fold_numbers(s->g, n->in[2], channels, s->a, &bias));
	for (int64_t k = 0; k < s->e->k; k++) {
		double g = gain ? (double)gain[s->e->channel[k]] : 1, b = bias ? (double)bias[s->e->channel[k]] : 0;
		s->x[k] = g * g + b * b;
	}
	return QUERN_OK;
}

/* A linear layer's result for inputs that are all alike. */
static qn_status guess_of_layer(search *s)
{
	const qn_layer *m = s->e->maker;
	const qn_tensor *t;
	QN_TRY(qn_graph_load(s->g, m->node->in[1], s->a, &t));
	const float *w = qn_tensor_f32(s->a, t);
	for (int64_t k = 0; k < s->e->k; k++)
		for (int64_t i = 0; i < m->k; i++) {
			double v = (double)w[s->e->channel[k] * m->k + i];
			s->x[k] += v * v;
		}
	return QUERN_OK;
}

static qn_status find_squares(search *s, const qn_moments *m)
{
	s->x = QN_NEW(s->a, double, s->e->k);
	if (!m || !m->rows)
		return s->e->norm ? guess_of_norm(s) : guess_of_layer(s);
	for (int64_t k = 0; k < s->e->k; k++)
		s->x[k] = m->square[k] / (double)m->rows;
	return QUERN_OK;
}

/* --- weights ------------------------------------------------------------------------------------------------------------------ */
static qn_status take_rows(search *s, const qn_layer *l)
{
	qn_arena scratch;
	qn_arena_init(&scratch, s->g->ctx);
	const qn_tensor *t;
	qn_status status = qn_graph_load(s->g, l->node->in[1], &scratch, &t);
	if (status == QUERN_OK) {
		const float *w = qn_tensor_f32(&scratch, t);
		sampled *to = &s->of[s->n++];
		*to = (sampled){.l = l, .n = l->n < MOST_ROWS ? l->n : MOST_ROWS};
		to->w = QN_NEW(s->a, float, to->n * l->k);
		for (int64_t i = 0; i < to->n; i++)
			memcpy(to->w + i * l->k, w + i * l->n / to->n * l->k, (size_t)l->k * sizeof *w);
		for (int64_t i = 0; i < to->n * l->k; i++)
			to->signal += (double)to->w[i] * (double)to->w[i] * s->x[i % l->k];
	}
	qn_arena_release(&scratch);
	return status;
}

/* Mean square of each column; every layer counts alike. */
static double *column_squares(const search *s)
{
	double *c = QN_NEW(s->a, double, s->e->k);
	for (size_t r = 0; r < s->n; r++) {
		const sampled *of = &s->of[r];
		double all = 0;
		for (int64_t i = 0; i < of->n * s->e->k; i++)
			all += (double)of->w[i] * (double)of->w[i];
		for (int64_t i = 0; all > 0 && i < of->n * s->e->k; i++)
			c[i % s->e->k] += (double)of->w[i] * (double)of->w[i] / all;
	}
	return c;
}

/* --- one choice -------------------------------------------------------------------------------------------------------------- */
static qn_status round_rows(search *s, const sampled *of, const float *f)
{
	const quern_config *c = s->p->config;
	const qn_layer *l = of->l;
	int64_t k = s->e->k;
	qn_quant_report report;
	if (l->form == QN_FORM_I8) {
		float *scales = QN_NEW(s->a, float, of->n);
		QN_TRY(qn_quantize_i8_rows(s->g->ctx, s->w, of->n, k, qn_form_levels(l->form, l->weight_bits), l->weight_scale_min,
			s->codes, scales, &report));
		for (int64_t i = 0; i < of->n * k; i++)
			s->q[i] = (float)((const int8_t *)s->codes)[i] * scales[i / k];
		return QUERN_OK;
	}
	bool weighted = c->rounding >= QN_ROUND_IMPORTANCE;
	qn_q4_opts opts = {.percentile = c->percentile,
		.bits = l->weight_bits < 4 ? l->weight_bits : 4,
		.importance = weighted ? s->importance : NULL};
	for (int64_t i = 0; i < k; i++)
		s->importance[i] = (float)(s->x[i] / ((double)f[i] * (double)f[i]));
	QN_TRY(qn_quantize_q4_0(s->g->ctx, s->w, of->n, k, weighted ? QN_ROUND_IMPORTANCE : c->rounding, &opts, s->codes, &report));
	qn_dequantize_q4_0(s->g->ctx, s->codes, of->n * k, false, s->q);
	return QUERN_OK;
}

/* Squared error of the results over their squares, summed over the layers. */
static qn_status error_with(search *s, const float *f, double *error)
{
	int64_t k = s->e->k;
	*error = 0;
	for (size_t r = 0; r < s->n; r++) {
		const sampled *of = &s->of[r];
		double noise = 0;
		for (int64_t i = 0; i < of->n * k; i++)
			s->w[i] = of->w[i] * f[i % k];
		QN_TRY(round_rows(s, of, f));
		for (int64_t i = 0; i < of->n * k; i++) {
			double d = ((double)s->q[i] - (double)s->w[i]) / (double)f[i % k];
			noise += d * d * s->x[i % k];
		}
		*error += of->signal > 0 ? noise / of->signal : 0;
	}
	return QUERN_OK;
}

void qn_equal_settle(const qn_equal_group *e, qn_arena *scratch, double *log_s)
{
	double mean = 0;
	int64_t n = qn_equal_channels(e);
	double *sum = QN_NEW(scratch, double, n), *count = QN_NEW(scratch, double, n);
	for (int64_t k = 0; k < e->k; k++) {
		sum[e->channel[k]] += log_s[k];
		count[e->channel[k]]++;
	}
	for (int64_t k = 0; k < e->k; k++)
		log_s[k] = sum[e->channel[k]] / count[e->channel[k]];
	for (int64_t k = 0; k < e->k; k++)
		mean += log_s[k] / (double)e->k;
	for (int64_t k = 0; k < e->k; k++)
		log_s[k] = fmin(fmax(log_s[k] - mean, -log(WIDEST)), log(WIDEST));
}

/* Channels without values or without weights keep the mean. */
static void factors(const search *s, const double *columns, double a, double b, float *f)
{
	int64_t k = s->e->k, live = 0;
	double *v = QN_NEW(s->a, double, k), mean = 0;
	for (int64_t i = 0; i < k; i++)
		if (s->x[i] > 0 && columns[i] > 0) {
			v[i] = 0.5 * (a * log(s->x[i]) - b * log(columns[i]));
			mean += v[i];
			live++;
		}
	for (int64_t i = 0; i < k; i++)
		v[i] -= s->x[i] > 0 && columns[i] > 0 ? mean / (double)live : 0;
	qn_equal_settle(s->e, s->a, v);
	for (int64_t i = 0; i < k; i++)
		f[i] = (float)exp(v[i]);
}

static qn_status choose(search *s, float *best, double *ratio)
{
	const double *columns = column_squares(s);
	int64_t k = s->e->k;
	float *f = QN_NEW(s->a, float, k);
	double plain, error, least = INFINITY;
	for (int64_t i = 0; i < k; i++)
		f[i] = 1;
	QN_TRY(error_with(s, f, &plain));
	for (size_t a = 0; a < QN_LEN(exponents); a++)
		for (size_t b = 0; b < QN_LEN(exponents); b++) {
			if (!a && !b)
				continue;
			factors(s, columns, exponents[a], exponents[b], f);
			QN_TRY(error_with(s, f, &error));
			if (error < least) {
				least = error;
				memcpy(best, f, (size_t)k * sizeof *f);
			}
		}
	*ratio = plain > 0 ? least / plain : 1;
	return QUERN_OK;
}

/* Whether squares over those of factors are what f32 holds. */
static bool has_sizes(const search *s)
{
	bool fine = true;
	for (int64_t k = 0; k < s->e->k; k++)
		fine &= s->x[k] < (double)FLT_MAX / (WIDEST * WIDEST);
	return fine;
}

static qn_status search_group(search *s, const qn_moments *m, float *best, double *ratio)
{
	int64_t most = 0;
	QN_TRY(find_squares(s, m));
	*ratio = NAN;
	if (!has_sizes(s))
		return QUERN_OK;
	for (size_t i = 0; i < s->e->n; i++)
		if (is_narrow(s->e->readers[i])) {
			QN_TRY(take_rows(s, s->e->readers[i]));
			most = s->of[s->n - 1].n > most ? s->of[s->n - 1].n : most;
		}
	s->w = QN_NEW(s->a, float, most * s->e->k);
	s->q = QN_NEW(s->a, float, most * s->e->k);
	s->codes = QN_NEW(s->a, uint8_t, most * s->e->k);
	s->importance = QN_NEW(s->a, float, s->e->k);
	return choose(s, best, ratio);
}

qn_status qn_equal_search(qn_graph *g, const qn_plan *p, qn_equal_group *e, const qn_moments *m)
{
	qn_arena a;
	qn_arena_init(&a, g->ctx);
	search s = {.g = g, .p = p, .e = e, .a = &a};
	float *best = QN_NEW(p->arena, float, e->k);
	qn_status status = search_group(&s, m, best, &e->error);
	qn_arena_release(&a);
	QN_TRY(status);
	if (isnan(e->error))
		e->why = "its values or the weights that read it are no numbers, or too large for their squares to be";
	else if (e->error < WORTHWHILE)
		e->s = best;
	else
		e->why = "no factors lower the rounding error of the layers that read it by 2 %";
	return QUERN_OK;
}
