/* balance_measure.c - what a choice of factors costs: products with quantized weights and activations beside the exact ones. */
#include "graph/ops/_gemm.h"
#include "passes/balance.h"
#include "passes/observe/observe.h"
#include "passes/scales.h"

#include <math.h>

/* Errors are measured on so many rows of each half of the samples and so many of a layer's outputs, evenly strided: more do not change
 * which factors are best, and cost in proportion. */
enum { FOLD_ROWS = 256, MOST_OUTPUTS = 256 };
/* Factors stay within this factor of their geometric mean. */
static const float WIDEST = 16384;
static const float MOST_F16 = 60000;

/* --- folds ------------------------------------------------------------------------------------------------------------ */
/* The first rows of a half; which come first is by their hashes. */
static const float *rows_of(const qn_stats *s, int half, qn_arena *a, int64_t *n)
{
	float *rows = QN_NEW(a, float, FOLD_ROWS * s->channels);
	*n = 0;
	for (int64_t i = 0; i < s->n_rows && *n < FOLD_ROWS; i++)
		if (s->row_half[i] == half)
			memcpy(rows + (*n)++ * s->channels, s->rows + i * s->channels, (size_t)s->channels * sizeof *rows);
	return rows;
}

void qn_balance_start(qn_balance *b, qn_graph *g, const quern_config *config, qn_stats *s, qn_arena *a)
{
	*b = (qn_balance){.g = g, .config = config, .s = s, .a = a, .n_folds = 2, .w_most = QN_NEW(a, float, s->channels)};
	for (int h = 0; h < 2; h++) {
		qn_balance_fold *f = &b->fold[h], *other = &b->fold[1 - h];
		f->rows = rows_of(s, h, a, &f->n);
		other->other_rows = f->rows;
		other->n_other = f->n;
		other->low = s->half_low[h];
		other->high = s->half_high[h];
	}
	if (b->fold[0].n && b->fold[1].n)
		return;
	b->n_folds = 1;
	int64_t n = s->n_rows < 2 * FOLD_ROWS ? s->n_rows : 2 * FOLD_ROWS;
	b->fold[0] = (qn_balance_fold){s->rows, n, s->rows, n, s->channel_low, s->channel_high};
}

static void multiply(const qn_balance *b, const float *x, int64_t rows, const float *w, int64_t n, float *y)
{
	int64_t k = b->s->channels;
	qn_gemm p = {.type = QN_F32, .tb = true, .m = rows, .n = n, .k = k, .lda = k, .ldb = k, .ldc = n, .batch = 1};
	qn_gemm_run(&p, b->g->ctx->threads, x, w, y);
}

static void largest_of(const float *restrict w, int64_t n, float *restrict most)
{
	for (int64_t k = 0; k < n; k++) {
		float v = fabsf(w[k]);
		most[k] = v > most[k] ? v : most[k];
	}
}

qn_status qn_balance_add(qn_balance *b, qn_layer *l)
{
	qn_balance_layer *to = &b->layer[b->n++];
	to->l = l;
	const qn_tensor *t;
	QN_TRY(qn_graph_load(b->g, l->node->in[l->weight_in], b->a, &t));
	const float *w = qn_tensor_f32(b->a, t);
	for (int64_t i = 0; i < l->n; i++)
		largest_of(w + i * l->k, l->k, b->w_most);
	to->n = l->n < MOST_OUTPUTS ? l->n : MOST_OUTPUTS;
	to->w = QN_NEW(b->a, float, to->n *l->k);
	for (int64_t i = 0; i < to->n; i++)
		memcpy(to->w + i * l->k, w + i * l->n / to->n * l->k, (size_t)l->k * sizeof *w);
	for (int f = 0; f < b->n_folds; f++) {
		float *y = QN_NEW(b->a, float, b->fold[f].n * to->n);
		multiply(b, b->fold[f].rows, b->fold[f].n, to->w, to->n, y);
		to->exact[f] = y;
	}
	return QUERN_OK;
}

void qn_balance_ready(qn_balance *b)
{
	int64_t widest = 0, rows = b->fold[0].n > b->fold[1].n ? b->fold[0].n : b->fold[1].n, k = b->s->channels;
	rows = rows > FOLD_ROWS ? rows : FOLD_ROWS;
	for (int i = 0; i < b->n; i++)
		widest = b->layer[i].n > widest ? b->layer[i].n : widest;
	b->m = QN_NEW(b->a, float, k);
	b->x = QN_NEW(b->a, float, rows *k);
	b->q = QN_NEW(b->a, float, rows *k);
	b->w = QN_NEW(b->a, float, widest *k);
	b->y = QN_NEW(b->a, float, rows *widest);
}

/* --- factors ---------------------------------------------------------------------------------------------------------- */
/* The largest magnitude that x / m has to reach so that no layer's scale meets its lower bound. */
static float reach_wanted(const qn_balance *b, float largest)
{
	float ends = qn_method_asymmetric(b->config->calibration.method) ? 2 : 1;
	for (int i = 0; i < b->n; i++) {
		const qn_layer *l = b->layer[i].l;
		qn_act_codes c = qn_act_codes_for(l->act_bits, false, 0, 0, l->act_scale_min);
		largest = fmaxf(largest, l->act_scale_min * (float)c.most * ends);
	}
	return largest;
}

static bool has_f16_scales(const qn_layer *l)
{
	bool has = l->form != QN_FORM_I8;
	for (int i = 0; i < l->n_parts; i++)
		has |= l->parts[i].form != QN_FORM_I8;
	return has;
}

/* Within bounds, and scaled to the reach that is wanted. */
static void settle(const qn_balance *b, const float *x, float *m)
{
	int64_t n = b->s->channels, live = 0;
	double sum = 0;
	for (int64_t k = 0; k < n; k++)
		if (m[k] > 0) {
			sum += log((double)m[k]);
			live++;
		}
	float middle = live ? (float)exp(sum / (double)live) : 1, reach = 0, largest = 0;
	bool f16 = false;
	for (int64_t k = 0; k < n; k++) {
		float least = middle / WIDEST, most = middle * WIDEST;
		/* a channel that is 0 in the samples keeps out of the weights' way, one that is 0 in the weights out of the range's */
		m[k] = !(m[k] > 0) ? (x[k] > 0 ? most : middle) : m[k] < least ? least : m[k] > most ? most : m[k];
		reach = fmaxf(reach, x[k] / m[k]);
		largest = fmaxf(largest, x[k]);
	}
	for (int i = 0; i < b->n; i++)
		f16 |= has_f16_scales(b->layer[i].l);
	float by = reach > 0 ? reach / reach_wanted(b, largest) : 1;
	for (int64_t k = 0; k < n; k++) {
		m[k] *= by;
		if (f16 && m[k] * b->w_most[k] > MOST_F16)
			m[k] = MOST_F16 / b->w_most[k];
		m[k] = fminf(fmaxf(m[k], QN_LEAST_FACTOR), QN_MOST_FACTOR);
	}
}

void qn_balance_factors(const qn_balance *b, const float *low, const float *high, qn_balance_choice c, float *m)
{
	int64_t n = b->s->channels;
	qn_arena scratch;
	qn_arena_init(&scratch, b->g->ctx);
	float *x = QN_NEW(&scratch, float, n);
	double mean = 0;
	for (int64_t k = 0; k < n; k++) {
		x[k] = fmaxf(fabsf(low[k]), fabsf(high[k]));
		mean += (double)x[k] / (double)n;
	}
	for (int64_t k = 0; k < n; k++) {
		double lifted = (double)x[k] + c.lift * mean;
		bool live = lifted > 0 && b->w_most[k] > 0;
		m[k] = live ? (float)(pow(lifted, c.alpha) / pow((double)b->w_most[k], 1 - c.alpha)) : 0;
	}
	settle(b, x, m);
	qn_arena_release(&scratch);
}

/* --- one candidate ---------------------------------------------------------------------------------------------------- */
static void divide_rows(const float *restrict x, int64_t rows, int64_t n, const float *restrict m, float *restrict y)
{
	for (int64_t r = 0; r < rows; r++)
		for (int64_t k = 0; k < n; k++)
			y[r * n + k] = m ? x[r * n + k] / m[k] : x[r * n + k];
}

/* The range of the other samples over m as the configured estimator sees it. */
static void estimate(
	const qn_balance *b, const qn_balance_fold *f, const qn_layer *l, const float *m, qn_arena *scratch, float *low, float *high)
{
	int64_t n = b->s->channels;
	if (l->act_bits >= 16 || b->config->calibration.mode == QN_CALIB_MAX) {
		*low = *high = 0;
		for (int64_t k = 0; k < n; k++) {
			*low = fminf(*low, f->low[k] / (m ? m[k] : 1));
			*high = fmaxf(*high, f->high[k] / (m ? m[k] : 1));
		}
		return;
	}
	float *x = QN_NEW(scratch, float, f->n_other *n);
	divide_rows(f->other_rows, f->n_other, n, m, x);
	qn_ranges *r = qn_ranges_new(&b->config->calibration, scratch);
	qn_ranges_add(r, x, f->n_other * n, scratch);
	qn_ranges_get(r, l->act_bits, l->min_clip_ratio, scratch, low, high);
}

/* To the nearest whole number, even ones first, of magnitudes below 2^22: adding the constant leaves no fraction. */
static inline float nearest(float x)
{
	return (x + 12582912.0f) - 12582912.0f;
}

static void quantize_rows(const qn_balance *b, const qn_balance_fold *f, const qn_layer *l, const float *m, qn_arena *scratch)
{
	float low, high;
	estimate(b, f, l, m, scratch, &low, &high);
	qn_act_codes c = qn_act_codes_for(l->act_bits, qn_method_asymmetric(b->config->calibration.method), low, high, l->act_scale_min);
	float least = (float)(c.least - c.zero_point), most = (float)(c.most - c.zero_point), by = 1 / c.scale;
	const float *restrict x = b->x;
	float *restrict q = b->q;
	for (int64_t i = 0; i < f->n * b->s->channels; i++) {
		float v = x[i] * by;
		v = v < least ? least : v > most ? most : v;
		q[i] = nearest(v) * c.scale;
	}
}

/* One row of w m as its int8 codes hold it. */
static void i8_row(const float *restrict w, const float *restrict m, int64_t n, float most, float scale_min, float *restrict q)
{
	float top = 0;
	for (int64_t k = 0; k < n; k++) {
		q[k] = m ? w[k] * m[k] : w[k];
		float a = fabsf(q[k]);
		top = a > top ? a : top;
	}
	float scale = top / most > scale_min ? top / most : scale_min, by = scale > 0 ? 1 / scale : 0;
	for (int64_t k = 0; k < n; k++)
		q[k] = nearest(q[k] * by) * scale;
}

/* b->w becomes the layer's rows times m, as its form holds them. */
static qn_status quantize_weight(const qn_balance *b, const qn_balance_layer *of, const float *m, qn_arena *scratch)
{
	const qn_layer *l = of->l;
	qn_ctx *ctx = b->g->ctx;
	float most = l->form != QN_FORM_I8 ? 0 : l->weight_bits > 1 ? (float)((1 << (l->weight_bits - 1)) - 1) : 1;
	int threads = qn_threads_for(ctx->threads, (double)(of->n * l->k));
#pragma omp parallel for num_threads(threads) if (threads > 1)
	for (int64_t i = 0; i < of->n; i++) {
		if (l->form == QN_FORM_I8) {
			i8_row(of->w + i * l->k, m, l->k, most, l->weight_scale_min, b->w + i * l->k);
			continue;
		}
		for (int64_t k = 0; k < l->k; k++)
			b->w[i * l->k + k] = of->w[i * l->k + k] * (m ? m[k] : 1);
	}
	if (l->form != QN_FORM_Q4_0)
		return QUERN_OK;
	int64_t count = of->n * l->k;
	qn_quant_report report;
	qn_q4_opts opts = {.bits = l->weight_bits < 4 ? l->weight_bits : 4};
	uint8_t *blocks = QN_NEW(scratch, uint8_t, count / QN_BLOCK * QN_Q4_0_BYTES);
	QN_TRY(qn_quantize_q4_0(ctx, b->w, of->n, l->k, QN_ROUND_SIGNED, &opts, blocks, &report)); /* the fastest; mse ranks alike */
	qn_dequantize_q4_0(ctx, blocks, count, false, b->w);
	return QUERN_OK;
}

static bool same_codes(const qn_layer *a, const qn_layer *b)
{
	return a->act_bits == b->act_bits && a->act_scale_min == b->act_scale_min && a->min_clip_ratio == b->min_clip_ratio;
}

static qn_status fold_error(qn_balance *b, int fold, const float *m, qn_arena *scratch, double *error)
{
	const qn_balance_fold *f = &b->fold[fold];
	divide_rows(f->rows, f->n, b->s->channels, m, b->x);
	for (int i = 0; i < b->n; i++) {
		const qn_balance_layer *of = &b->layer[i];
		if (!i || !same_codes(of->l, b->layer[i - 1].l))
			quantize_rows(b, f, of->l, m, scratch);
		QN_TRY(quantize_weight(b, of, m, scratch));
		multiply(b, b->q, f->n, b->w, of->n, b->y);
		double signal, noise;
		qn_quant_error(b->g->ctx, of->exact[fold], b->y, f->n * of->n, &signal, &noise);
		*error += signal > 0 ? noise / signal : 0;
	}
	return QUERN_OK;
}

qn_status qn_balance_error(qn_balance *b, const qn_balance_choice *c, double *error)
{
	*error = 0;
	qn_status status = QUERN_OK;
	for (int f = 0; f < b->n_folds && status == QUERN_OK; f++) {
		qn_arena scratch;
		qn_arena_init(&scratch, b->g->ctx);
		if (c)
			qn_balance_factors(b, b->fold[f].low, b->fold[f].high, *c, b->m);
		status = fold_error(b, f, c ? b->m : NULL, &scratch, error);
		qn_arena_release(&scratch);
	}
	return status;
}
