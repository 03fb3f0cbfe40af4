/* search.c - the point of the frontier that the options ask for. A size is a matter of the frontier alone. An accuracy is not: errors do not quite add up, and the
 * final rounding does better than a layer's alone. So the point that should do is executed, the frontier's errors are corrected by what came out, and so on. */
#include "passes/tune/search.h"

#include <math.h>

enum { MOST_TRIALS = 6 };
static const double ENOUGH = 0.7; /* of the error that is allowed: what uses so much of it is worth no further trials */

/* Of an error that is allowed, activations may have so much for each part that weights have. */
static double act_share(const qn_tuner *t) { return t->options->activations ? t->options->act_share : 0; }

static qn_status execute(qn_tuner *t, qn_solution *s, size_t point, double act_limit, double *measured)
{
	qn_output_error e;
	qn_solution_choose(t, s, point, act_limit);
	QN_TRY(qn_verify(t, &e));
	*measured = qn_error_of(t, &e);
	qn_log(t->ctx, QUERN_LOG_INFO, "%.3f bits a weight executed: %s %.6f (%.6f by the model of costs)", qn_bits_a_weight(t, s->frontier.points[point].bytes),
		t->kl ? "divergence" : "cosine", t->kl ? *measured : 1 - *measured,
		t->kl ? qn_solution_error(s) : 1 - qn_solution_error(s));
	return QUERN_OK;
}

/* Between a point known to fail (or none: SIZE_MAX) and one known to do (or none: n), the smallest that should do. */
static qn_status least_for(qn_tuner *t, qn_solution *s, double target, double *measured)
{
	const qn_frontier *f = &s->frontier;
	size_t fails = SIZE_MAX, does = f->n;
	double ratio = 1, least = INFINITY, limit = 0; /* limit: of the activations of `does` */
	for (int trial = 0; trial < MOST_TRIALS; trial++) {
		size_t low = fails == SIZE_MAX ? 0 : fails + 1, at = qn_frontier_within_error(f, target / ratio / (1 + act_share(t)));
		at = at < low ? low : at;
		if (at >= does && does == f->n)
			at = f->n - 1;
		else if (at >= does && *measured < ENOUGH * target) /* the model of costs misjudges what lies between: halve it */
			at = low + (does - low) / 2;
		if (at >= does || at == fails)
			break;
		double e;
		QN_TRY(execute(t, s, at, fmax(target / ratio - f->points[at].error, 0), &e));
		least = e < least ? e : least;
		if (qn_solution_error(s) > 0 && e > 0)
			ratio = e / qn_solution_error(s);
		if (e <= target)
			does = at, *measured = e, limit = s->act_limit;
		else if (qn_solution_act_error(s) > 0 && ratio * f->points[at].error < target) /* wider activations may do */
			fails = at > low ? at - 1 : fails;
		else
			fails = at;
	}
	if (does == f->n && fails != f->n - 1) {
		double e;
		QN_TRY(execute(t, s, f->n - 1, 0, &e));
		least = e < least ? e : least;
		if (e <= target)
			does = f->n - 1, *measured = e, limit = 0;
	}
	if (does == f->n)
		QN_FAIL(t->ctx, QUERN_ERR_CONFIG, "no widths of these layers reach a cosine of %.9g: the best that was executed has %.9g", 1 - target, 1 - least);
	qn_solution_choose(t, s, does, limit);
	return QUERN_OK;
}

static qn_status too_few(const qn_tuner *t, uint64_t smallest, uint64_t bytes)
{
	const char *tables = t->options->embeddings || !t->uncounted_bytes ? "" : "; embedding tables keep their width unless they are tuned too (--embeddings)";
	if (t->options->max_bytes)
		QN_FAIL(t->ctx, QUERN_ERR_CONFIG, "a size of %llu bytes is too small: the smallest widths take %llu%s", (unsigned long long)t->options->max_bytes,
			(unsigned long long)bytes, tables);
	QN_FAIL(t->ctx, QUERN_ERR_CONFIG, "%g bits a weight are too few: the smallest widths take %.4g", t->options->max_bits, qn_bits_a_weight(t, smallest));
}

qn_status qn_search_can_meet(const qn_tuner *t)
{
	uint64_t smallest = 0, budget;
	for (size_t i = 0; i < t->n; i++)
		smallest += t->units[i].candidates[0].bytes;
	return qn_budget(t, &budget) && smallest > budget ? too_few(t, smallest, qn_total_bytes(t, smallest)) : QUERN_OK;
}

static qn_status count_at(qn_tuner *t, qn_solution *s, size_t point, uint64_t *bytes)
{
	qn_solution_choose(t, s, point, act_share(t) * s->frontier.points[point].error);
	QN_TRY(qn_size_count(t, bytes));
	qn_log(t->ctx, QUERN_LOG_INFO, "%.3f bits a weight: %llu bytes as stored", qn_bits_a_weight(t, s->frontier.points[point].bytes), (unsigned long long)*bytes);
	return QUERN_OK;
}

/* The constants beside the weights are known once an allocation is counted, and other allocations have some more or less. So what should fit is counted, and with what is
 * known then chosen anew, between a point known to fit (or none: SIZE_MAX) and one known not to (or none: n). */
static qn_status within_bytes(qn_tuner *t, qn_solution *s)
{
	const uint64_t most = t->options->max_bytes;
	const size_t n = s->frontier.n;
	size_t fits = SIZE_MAX, exceeds = n, at = n;
	uint64_t budget, bytes = 0;
	for (int trial = 0; trial < MOST_TRIALS; trial++) {
		size_t low = fits == SIZE_MAX ? 0 : fits + 1, next;
		qn_budget(t, &budget);
		next = qn_frontier_within_bytes(&s->frontier, budget);
		next = next == n ? 0 : next >= exceeds ? exceeds - 1 : next;
		if (next < low || low == exceeds)
			break;
		at = next;
		QN_TRY(count_at(t, s, at, &bytes));
		*(bytes <= most ? &fits : &exceeds) = at;
		if (exceeds == 0 || (fits == at && t->realised)) /* compiling takes long: what fits will do */
			break;
	}
	size_t chosen = fits == SIZE_MAX ? 0 : fits;
	if (at != chosen)
		QN_TRY(count_at(t, s, chosen, &bytes));
	return bytes <= most ? QUERN_OK : too_few(t, s->frontier.points[0].bytes, bytes);
}

static qn_status within_bits(qn_tuner *t, qn_solution *s)
{
	uint64_t budget;
	qn_budget(t, &budget);
	size_t at = qn_frontier_within_bytes(&s->frontier, budget);
	qn_solution_choose(t, s, at, act_share(t) * s->frontier.points[at].error);
	return QUERN_OK;
}

qn_status qn_search(qn_tuner *t, qn_solution *s, double *measured)
{
	uint64_t bytes;
	*measured = NAN;
	if (t->options->max_bytes)
		return within_bytes(t, s);
	QN_TRY(t->options->max_bits > 0 ? within_bits(t, s) : least_for(t, s, 1 - t->options->min_cosine, measured));
	return qn_size_count(t, &bytes);
}

/* The hull's first p + 1 points as choices. */
static void choose_on_hull(qn_tuner *t, const qn_solution *s, size_t p)
{
	for (size_t i = 0; i < t->n; i++) {
		t->units[i].chosen = s->first[i];
		t->units[i].act_bits = 16; /* the curve is that of weights */
	}
	for (size_t i = 1; i <= p; i++)
		t->units[s->hull[i].group].chosen = s->hull[i].choice;
}

qn_status qn_check_curve(qn_tuner *t, qn_solution *s, qn_tuning *u)
{
	size_t n = (size_t)t->options->checks < u->n ? (size_t)t->options->checks : u->n;
	for (size_t i = 0; i < n; i++) {
		size_t at = n > 1 ? i * (u->n - 1) / (n - 1) : u->n / 2;
		qn_output_error e;
		choose_on_hull(t, s, at);
		QN_TRY(qn_verify(t, &e));
		u->points[at].measured = qn_error_of(t, &e);
		if (t->ctx->progress && !t->ctx->progress(t->ctx->progress_user, "checks", i + 1, n))
			QN_FAIL(t->ctx, QUERN_ERR_CANCELLED, "stopped");
	}
	qn_solution_choose(t, s, s->at, s->act_limit);
	return QUERN_OK;
}
