/* max_percentile.c - each sample gives its largest magnitudes to a pool; the range is a quantile of the pool. */
#include "passes/observe/observe.h"

#include <math.h>

typedef struct pool {
	const qn_calibration_config *config;
	float *v; /* [room] */
	int64_t n, room; /* more than max_total are held, so that cutting is rare */
	float least;     /* of the largest max_total at the last cut: what is not above it cannot enter */
} pool;

static void *start(const qn_calibration_config *c, qn_arena *a)
{
	pool *p = QN_NEW(a, pool, 1);
	int64_t room = (int64_t)c->max_total + c->max_total / 4 + c->max_each + 1;
	*p = (pool){.config = c, .v = QN_NEW(a, float, room), .room = room, .least = -1};
	return p;
}

/* What is dropped is smaller than all that stays, so the pool ends as the max_total largest of all values given, whatever their order. */
static void keep_largest(pool *p, qn_arena *scratch)
{
	int64_t most = p->config->max_total;
	if (p->n <= most)
		return;
	float *kept = QN_NEW(scratch, float, most + 1);
	qn_largest(p->v, p->n, most, kept, scratch);
	memcpy(p->v, kept, (size_t)most * sizeof *kept);
	p->n = most;
	p->least = most ? kept[most - 1] : INFINITY;
}

static void add(void *state, const float *v, int64_t n, qn_arena *scratch)
{
	pool *p = state;
	int64_t top = (int64_t)ceil(p->config->topk_ratio * (double)n), want = top < p->config->max_each ? top : p->config->max_each;
	if (!want)
		return;
	if (p->n + want > p->room)
		keep_largest(p, scratch);
	float *largest = QN_NEW(scratch, float, top);
	qn_largest(v, n, top, largest, scratch);
	for (int64_t i = 0; i < want; i++)
		if (largest[i * top / want] > p->least)
			p->v[p->n++] = largest[i * top / want];
}

/* Which values a sample would have given is not known. So the samples together give what they would have given one by one, in strides as
 * long. */
static void add_summary(void *state, const qn_summary *s, size_t samples, qn_arena *scratch)
{
	pool *p = state;
	int64_t tail = 0, all = s->n_rest;
	for (int64_t i = 0; i < s->n_tail; i++)
		all += s->tail[i].n;
	double top = ceil(p->config->topk_ratio * (double)all / (double)samples), want = fmin(top, p->config->max_each);
	double n = fmin(want * (double)samples, p->config->max_total), stands_for = (double)s->n_rest / (double)s->n_body;
	float *body = QN_NEW(scratch, float, s->n_body + 1);
	qn_largest(s->body, s->n_body, s->n_body, body, scratch);
	int64_t at = 0; /* of the tail, whose first `at` have `tail` values */
	for (double i = 0; i < n && i * top / want < (double)all; i++) {
		double rank = floor(i * top / want);
		for (; at < s->n_tail && (double)(tail + s->tail[at].n) <= rank; at++)
			tail += s->tail[at].n;
		p->v[p->n++] = at < s->n_tail ? s->tail[at].v : body[(int64_t)((rank - (double)tail) / stands_for)];
	}
}

static float range(const void *state, float largest, int bits, qn_arena *scratch)
{
	const pool *p = state;
	(void)bits;
	int64_t n = p->n < p->config->max_total ? p->n : p->config->max_total;
	if (!n)
		return largest;
	float *v = QN_NEW(scratch, float, n);
	qn_largest(p->v, p->n, n, v, scratch);
	double at = p->config->percentile * (double)(n - 1), below = floor(at);
	int64_t i = n - 1 - (int64_t)below; /* they fall */
	float next = v[i > 0 ? i - 1 : 0];
	return (float)((double)v[i] + (at - below) * ((double)next - (double)v[i]));
}

const qn_observer_kind qn_observe_max_percentile = {start, add, add_summary, range};
