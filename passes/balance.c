/* balance.c - one positive factor for each channel of a tensor, by which its values are divided and the weights of the layers that read it
 * multiplied.
 *
 * needs: calibrate (methods 1 and 3; else it does nothing). gives: stats->balance of tensors that gain by it; the graph is unchanged. The
 * factors are those of SmoothQuant (Xiao et al. 2022, arXiv 2211.10438), max|x_k|^alpha / max|w_k|^(1 - alpha), jointly over all layers
 * that read the tensor, with the maxima of x lifted by a part of their mean: a channel that was quiet in a few samples need not stay so.
 * Both parameters are searched for each tensor. */
#include "passes/balance.h"

#include "passes/observe/observe.h"
#include "passes/passes.h"

#include <math.h>

/* A balance that is not better than none by this factor is not worth a multiplication. */
static const double WORTHWHILE = 0.98;

/* The search walks along alpha as long as that is better, then goes on in ever smaller steps of both parameters. */
static const double START_ALPHA = 0.75, START_LIFT = 0.3, WALK = 0.25;
static const struct step {
	double alpha, lift;
} steps[] = {{0.125, 3}, {0.06, 1.7}};

typedef struct best {
	qn_balance_choice choice;
	double error;
} best;

static qn_status attempt(qn_balance *b, double alpha, double lift, best *to)
{
	if (alpha < 0 || alpha > 1)
		return QUERN_OK;
	qn_balance_choice c = {alpha, lift};
	double error;
	QN_TRY(qn_balance_error(b, &c, &error));
	if (error < to->error)
		*to = (best){c, error};
	return QUERN_OK;
}

static qn_status search(qn_balance *b, qn_arena *keep)
{
	double plain;
	QN_TRY(qn_balance_error(b, NULL, &plain));
	best found = {{0, 0}, INFINITY};
	QN_TRY(attempt(b, START_ALPHA, START_LIFT, &found));
	QN_TRY(attempt(b, START_ALPHA + WALK, START_LIFT, &found));
	for (double alpha = START_ALPHA - WALK; alpha >= 0 && found.choice.alpha == alpha + WALK; alpha -= WALK)
		QN_TRY(attempt(b, alpha, START_LIFT, &found));
	for (size_t i = 0; i < QN_LEN(steps); i++) {
		qn_balance_choice c = found.choice;
		QN_TRY(attempt(b, c.alpha, c.lift / steps[i].lift, &found));
		QN_TRY(attempt(b, c.alpha, c.lift * steps[i].lift, &found));
		c = found.choice;
		QN_TRY(attempt(b, c.alpha - steps[i].alpha, c.lift, &found));
		QN_TRY(attempt(b, c.alpha + steps[i].alpha, c.lift, &found));
	}
	bool better = found.error < plain * WORTHWHILE;
	qn_log(b->g->ctx, QUERN_LOG_DEBUG, "balance of '%s': alpha %.3f, lift %.3f, error %.3g, without %.3g%s", b->s->value->name,
		found.choice.alpha, found.choice.lift, found.error, plain, better ? "" : "; left alone");
	if (!better)
		return QUERN_OK;
	float *m = QN_NEW(keep, float, b->s->channels);
	qn_balance_factors(b, b->s->channel_low, b->s->channel_high, found.choice, m);
	b->s->balance = m;
	return QUERN_OK;
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
	qn_balance b;
	qn_balance_start(&b, g, p->config, s, &a);
	qn_status status = QUERN_OK;
	for (size_t i = 0; i < p->n && status == QUERN_OK && b.n < QN_BALANCE_LAYERS; i++) {
		qn_layer *l = &p->layers[i];
		if (l->node && l->node->in[0] == s->value && l->act_scale == 0 && qn_layer_needs_range(l, p->config))
			status = qn_balance_add(&b, l);
	}
	if (status == QUERN_OK && b.n) {
		qn_balance_ready(&b);
		status = search(&b, p->arena);
	}
	qn_arena_release(&a);
	return status;
}

/* --- ranges of what was balanced ------------------------------------------------------------------------------------- */
/* The samples are not run again: what calibration kept of the tensor tells its largest quotients, and its rows the others. */
static void estimate_balanced(qn_graph *g, const qn_calibration *c, qn_stats *s, qn_plan *p)
{
	qn_arena scratch;
	qn_arena_init(&scratch, g->ctx);
	qn_summary end[2];
	for (int e = 0; e < s->tails->n_ends; e++)
		end[e] = qn_tails_summary(s->tails, e, s->balance, s->rows, s->n_rows, s->count + s->masked, &scratch);
	s->balanced = qn_ranges_new(&p->config->calibration, p->arena);
	qn_ranges_add_summary(s->balanced, end, c->samples, &scratch);
	qn_arena_release(&scratch);
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
	for (size_t i = 0; i < c->n; i++) {
		qn_stats *s = &c->stats[i];
		QN_TRY(balance_tensor(g, env, s));
		if (needs_ranges(env->plan, s))
			estimate_balanced(g, c, s, env->plan);
		if (g->ctx->progress && !g->ctx->progress(g->ctx->progress_user, "balance", i + 1, c->n))
			QN_FAIL(g->ctx, QUERN_ERR_CANCELLED, "stopped");
	}
	return QUERN_OK;
}
