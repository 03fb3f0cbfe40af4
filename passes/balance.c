/* balance.c - one positive factor for each channel of a tensor, by which its values are divided and the weights of the layers that read it multiplied.
 *
 * needs: calibrate (methods 1 and 3; else it does nothing). gives: stats->balance of tensors that gain by it; the graph is unchanged. The factors are those of
 * SmoothQuant (Xiao et al. 2022, arXiv 2211.10438), max|x_k|^alpha / max|w_k|^(1 - alpha), jointly over all layers that read the tensor; alpha is searched for each
 * tensor by the error of its layers' products, with weights and activations quantized to their widths, on the rows that calibration kept. */
#include "graph/ops/_gemm.h"
#include "passes/config.h"
#include "passes/observe/observe.h"
#include "passes/passes.h"
#include "passes/scales.h"
#include "passes/stats.h"

#include <math.h>

enum { MOST_LAYERS = 64, SEARCH_ROWS = 256 };
/* The error has one valley over alpha: these, then steps around the best. */
static const double COARSE[] = {0, 0.2, 0.4, 0.6, 0.8, 1}, FINE_STEPS[] = {0.1, 0.05, 0.025};
/* A balance that is not better than none by this factor is not worth a multiplication. */
static const double WORTHWHILE = 0.98;
/* Factors stay within this factor of their geometric mean. */
static const float WIDEST = 16384;
static const float MOST_F16 = 60000;

typedef struct member {
	qn_layer *l;
	const float *w;     /* [n, k] */
	const float *exact; /* [rows, n]: products in float */
} member;

/* A tensor and the layers that read it. */
typedef struct group {
	qn_graph *g;
	const quern_config *config;
	qn_stats *s;
	qn_arena *a;       /* lives as long as the group's search */
	member m[MOST_LAYERS];
	int n;
	int64_t rows;           /* that the search looks at */
	float *x_most, *w_most; /* by channel: the largest magnitudes, of weights over all layers */
	float *x, *q, *w, *y;   /* room for one candidate: rows, as codes say; a weight, its product */
} group;

static void multiply(group *h, const float *x, const float *w, int64_t n, float *y)
{
	const qn_stats *s = h->s;
	qn_gemm p = {.type = QN_F32, .tb = true, .m = h->rows, .n = n, .k = s->channels, .lda = s->channels, .ldb = s->channels, .ldc = n, .batch = 1};
	qn_gemm_run(&p, h->g->ctx->threads, x, w, y);
}

static qn_status add_member(group *h, qn_layer *l)
{
	member *m = &h->m[h->n++];
	m->l = l;
	const qn_tensor *t;
	QN_TRY(qn_graph_load(h->g, l->node->in[l->weight_in], h->a, &t));
	m->w = qn_tensor_f32(h->a, t);
	for (int64_t i = 0; i < l->n; i++)
		for (int64_t k = 0; k < l->k; k++)
			h->w_most[k] = fmaxf(h->w_most[k], fabsf(m->w[i * l->k + k]));
	float *y = QN_NEW(h->a, float, h->rows *l->n);
	multiply(h, h->s->rows, m->w, l->n, y);
	m->exact = y;
	return QUERN_OK;
}

static void column_bounds(group *h)
{
	const qn_stats *s = h->s;
	h->x_most = QN_NEW(h->a, float, s->channels);
	h->w_most = QN_NEW(h->a, float, s->channels);
	for (int64_t k = 0; k < s->channels; k++)
		h->x_most[k] = fmaxf(fabsf(s->channel_low[k]), fabsf(s->channel_high[k]));
}

static void divide_rows(const float *x, int64_t rows, int64_t n, const float *m, float *y)
{
	for (int64_t r = 0; r < rows; r++)
		for (int64_t k = 0; k < n; k++)
			y[r * n + k] = m ? x[r * n + k] / m[k] : x[r * n + k];
}

/* --- one candidate ------------------------------------------------------------------------------------------------ */
/* The largest magnitude that x / m has to reach so that no layer's scale meets its lower bound. */
static float reach_wanted(const group *h)
{
	float reach = 0;
	for (int64_t k = 0; k < h->s->channels; k++)
		reach = fmaxf(reach, h->x_most[k]);
	for (int i = 0; i < h->n; i++) {
		const qn_layer *l = h->m[i].l;
		qn_act_codes c = qn_act_codes_for(l->act_bits, false, 0, 0, l->act_scale_min);
		reach = fmaxf(reach, l->act_scale_min * (float)c.most * (qn_method_asymmetric(h->config->calibration.method) ? 2.0f : 1.0f));
	}
	return reach;
}

static bool has_f16_scales(const qn_layer *l)
{
	bool has = l->form != QN_FORM_I8;
	for (int i = 0; i < l->n_parts; i++)
		has |= l->parts[i].form != QN_FORM_I8;
	return has;
}

/* Channels that are 0 in the samples or in all weights get a factor that lets them take no part in a range. */
static void factors(const group *h, double alpha, float *m)
{
	int64_t n = h->s->channels, live = 0;
	double sum = 0;
	for (int64_t k = 0; k < n; k++) {
		bool dead = !(h->x_most[k] > 0) || !(h->w_most[k] > 0);
		m[k] = dead ? 0 : (float)(pow((double)h->x_most[k], alpha) / pow((double)h->w_most[k], 1 - alpha));
		if (dead)
			continue;
		sum += log((double)m[k]);
		live++;
	}
	float middle = live ? (float)exp(sum / (double)live) : 1, reach = 0;
	for (int64_t k = 0; k < n; k++) {
		float least = middle / WIDEST, most = middle * WIDEST;
		m[k] = m[k] == 0 ? (h->x_most[k] > 0 ? most : middle) : m[k] < least ? least : m[k] > most ? most : m[k];
		reach = fmaxf(reach, h->x_most[k] / m[k]);
	}
	float by = reach > 0 ? reach / reach_wanted(h) : 1;
	bool f16 = false;
	for (int i = 0; i < h->n; i++)
		f16 |= has_f16_scales(h->m[i].l);
	for (int64_t k = 0; k < n; k++) {
		m[k] *= by;
		if (f16 && m[k] * h->w_most[k] > MOST_F16)
			m[k] = MOST_F16 / h->w_most[k];
	}
}

/* The range of the balanced rows as the configured estimator sees it; the maximum is known over all samples. */
static void estimate(const group *h, const qn_layer *l, const float *m, const float *x, qn_arena *scratch, float *low, float *high)
{
	const qn_stats *s = h->s;
	if (l->act_bits >= 16 || h->config->calibration.mode == QN_CALIB_MAX) {
		*low = *high = 0;
		for (int64_t k = 0; k < s->channels; k++) {
			*low = fminf(*low, s->channel_low[k] / (m ? m[k] : 1));
			*high = fmaxf(*high, s->channel_high[k] / (m ? m[k] : 1));
		}
		return;
	}
	if (!m) {
		qn_ranges_get(s->ranges, l->act_bits, l->min_clip_ratio, scratch, low, high);
		return;
	}
	qn_ranges *r = qn_ranges_new(&h->config->calibration, scratch);
	qn_ranges_add(r, x, h->rows * s->channels, scratch);
	qn_ranges_get(r, l->act_bits, l->min_clip_ratio, scratch, low, high);
}

/* To the nearest whole number, even ones first, of magnitudes below 2^22: adding the constant leaves no fraction. */
static inline float nearest(float x) { return (x + 12582912.0f) - 12582912.0f; }

static void quantize_rows(const group *h, const qn_layer *l, const float *m, qn_arena *scratch)
{
	float low, high;
	estimate(h, l, m, h->x, scratch, &low, &high);
	qn_act_codes c = qn_act_codes_for(l->act_bits, qn_method_asymmetric(h->config->calibration.method), low, high, l->act_scale_min);
	float zero = (float)c.zero_point, least = (float)c.least - zero, most = (float)c.most - zero, by = 1 / c.scale;
	const float *restrict x = h->x;
	float *restrict q = h->q;
	for (int64_t i = 0; i < h->rows * h->s->channels; i++) {
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

/* h->w becomes the layer's weight times m, as its form holds it. */
static qn_status quantize_weight(const group *h, const member *of, const float *m, qn_arena *scratch)
{
	const qn_layer *l = of->l;
	qn_ctx *ctx = h->g->ctx;
	float most = l->form == QN_FORM_I8 ? (float)((1 << (l->weight_bits - 1)) - 1) : 0;
	int threads = qn_threads_for(ctx->threads, (double)(l->n * l->k));
#pragma omp parallel for num_threads(threads) if (threads > 1)
	for (int64_t i = 0; i < l->n; i++) {
		if (l->form == QN_FORM_I8) {
			i8_row(of->w + i * l->k, m, l->k, most, l->weight_scale_min, h->w + i * l->k);
			continue;
		}
		for (int64_t k = 0; k < l->k; k++)
			h->w[i * l->k + k] = of->w[i * l->k + k] * (m ? m[k] : 1);
	}
	if (l->form != QN_FORM_Q4_0)
		return QUERN_OK;
	int64_t count = l->n * l->k;
	qn_quant_report report;
	qn_q4_opts opts = {.bits = l->weight_bits < 4 ? l->weight_bits : 4};
	uint8_t *blocks = QN_NEW(scratch, uint8_t, count / QN_BLOCK * QN_Q4_0_BYTES);
	QN_TRY(qn_quantize_q4_0(ctx, h->w, l->n, l->k, QN_ROUND_SIGNED, &opts, blocks, &report)); /* the fastest; mse ranks alike */
	qn_dequantize_q4_0(ctx, blocks, count, false, h->w);
	return QUERN_OK;
}

/* Error of all products relative to the products, summed over the layers. m NULL: no balance. */
static qn_status measure(group *h, const float *m, double *error)
{
	const qn_stats *s = h->s;
	qn_arena scratch;
	qn_arena_init(&scratch, h->g->ctx);
	divide_rows(s->rows, h->rows, s->channels, m, h->x);
	*error = 0;
	qn_status status = QUERN_OK;
	for (int i = 0; i < h->n && status == QUERN_OK; i++) {
		const qn_layer *l = h->m[i].l;
		if (!i || l->act_bits != h->m[i - 1].l->act_bits || l->act_scale_min != h->m[i - 1].l->act_scale_min)
			quantize_rows(h, l, m, &scratch);
		status = quantize_weight(h, &h->m[i], m, &scratch);
		multiply(h, h->q, h->w, l->n, h->y);
		double signal, noise;
		qn_quant_error(h->g->ctx, h->m[i].exact, h->y, h->rows * l->n, &signal, &noise);
		*error += signal > 0 ? noise / signal : 0;
	}
	qn_arena_release(&scratch);
	return status;
}

/* --- the search --------------------------------------------------------------------------------------------------- */
typedef struct best {
	double alpha, error;
	float *m;
} best;

static qn_status try_alpha(group *h, double alpha, float *work, best *b)
{
	if (alpha < 0 || alpha > 1)
		return QUERN_OK;
	double error;
	factors(h, alpha, work);
	QN_TRY(measure(h, work, &error));
	if (error >= b->error)
		return QUERN_OK;
	*b = (best){alpha, error, b->m};
	memcpy(b->m, work, (size_t)h->s->channels * sizeof *work);
	return QUERN_OK;
}

static qn_status search(group *h, qn_arena *keep)
{
	double plain;
	QN_TRY(measure(h, NULL, &plain));
	float *work = QN_NEW(h->a, float, h->s->channels);
	best b = {0, INFINITY, QN_NEW(keep, float, h->s->channels)};
	for (size_t i = 0; i < QN_LEN(COARSE); i++)
		QN_TRY(try_alpha(h, COARSE[i], work, &b));
	for (size_t i = 0; i < QN_LEN(FINE_STEPS); i++) {
		double around = b.alpha;
		QN_TRY(try_alpha(h, around - FINE_STEPS[i], work, &b));
		QN_TRY(try_alpha(h, around + FINE_STEPS[i], work, &b));
	}
	bool better = b.error < plain * WORTHWHILE;
	qn_log(h->g->ctx, QUERN_LOG_DEBUG, "balance of '%s': alpha %.3f, error %.3g, without %.3g%s", h->s->value->name, b.alpha, b.error, plain,
		better ? "" : "; left alone");
	if (better)
		h->s->balance = b.m;
	return QUERN_OK;
}

static void make_room(group *h)
{
	int64_t widest = 0;
	for (int i = 0; i < h->n; i++)
		widest = h->m[i].l->n > widest ? h->m[i].l->n : widest;
	h->x = QN_NEW(h->a, float, h->rows *h->s->channels);
	h->q = QN_NEW(h->a, float, h->rows *h->s->channels);
	h->w = QN_NEW(h->a, float, widest *h->s->channels);
	h->y = QN_NEW(h->a, float, h->rows *widest);
}

/* What other layers that read the tensor were given by an allocation file holds for it. */
static bool take_given(const qn_plan *p, qn_stats *s)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->layers[i].node && p->layers[i].act_scale != 0 && p->layers[i].node->in[0] == s->value) {
			s->balance = p->layers[i].balance;
			return true;
		}
	return false;
}

static qn_status balance_tensor(qn_graph *g, qn_pass_env *env, qn_stats *s)
{
	qn_plan *p = env->plan;
	if (take_given(p, s) || !s->n_rows)
		return QUERN_OK;
	qn_arena a;
	qn_arena_init(&a, g->ctx);
	group h = {.g = g, .config = p->config, .s = s, .a = &a, .rows = s->n_rows < SEARCH_ROWS ? s->n_rows : SEARCH_ROWS};
	column_bounds(&h);
	qn_status status = QUERN_OK;
	for (size_t i = 0; i < p->n && status == QUERN_OK && h.n < MOST_LAYERS; i++) {
		qn_layer *l = &p->layers[i];
		if (l->node && l->node->in[0] == s->value && l->act_scale == 0 && qn_layer_needs_range(l, p->config))
			status = add_member(&h, l);
	}
	if (status == QUERN_OK && h.n) {
		make_room(&h);
		status = search(&h, p->arena);
	}
	qn_arena_release(&a);
	return status;
}

/* --- ranges of what was balanced ------------------------------------------------------------------------------------- */
static void see_balanced(void *user, qn_stats *s, const float *x, int64_t rows, const float *clean, int64_t n, qn_arena *scratch)
{
	(void)user;
	(void)clean;
	(void)n;
	if (!s->balanced)
		return;
	float *y = QN_NEW(scratch, float, rows *s->channels);
	divide_rows(x, rows, s->channels, s->balance, y);
	qn_ranges_add(s->balanced, y, rows * s->channels, scratch);
}

/* Whether some layer's range is more than the maximum, which the channels' maxima tell. */
static bool needs_ranges(const qn_plan *p, const qn_stats *s)
{
	bool below_16 = false;
	for (size_t i = 0; i < p->n; i++)
		below_16 |= p->layers[i].node && p->layers[i].node->in[0] == s->value && p->layers[i].act_bits < 16;
	return s->balance && below_16 && p->config->calibration.mode != QN_CALIB_MAX;
}

qn_status qn_pass_balance(qn_graph *g, qn_pass_env *env)
{
	qn_calibration *c = env->calibration;
	const quern_config *config = env->plan->config;
	if (!c || !qn_method_balances(config->calibration.method))
		return QUERN_OK;
	bool again = false;
	for (size_t i = 0; i < c->n; i++) {
		qn_stats *s = &c->stats[i];
		QN_TRY(balance_tensor(g, env, s));
		if (needs_ranges(env->plan, s)) {
			s->balanced = qn_ranges_new(&config->calibration, env->plan->arena);
			again = true;
		}
		if (g->ctx->progress && !g->ctx->progress(g->ctx->progress_user, "balance", i + 1, c->n))
			QN_FAIL(g->ctx, QUERN_ERR_CANCELLED, "stopped");
	}
	return again ? qn_calibration_run(g, env, "ranges", see_balanced, NULL) : QUERN_OK;
}
