/* knapsack.c - frontier by merging sorted lists of sums, hull by sorting steps by what they gain a byte. */
#include "passes/tune/knapsack.h"

#include <math.h>
#include <stdlib.h>

typedef struct origin {
	uint32_t from; /* point of the step before */
	int32_t choice;
} origin;

struct qn_frontier_step {
	origin *of;
	size_t n;
};

/* --- frontier ------------------------------------------------------------------------------------------------------------- */
/* Of the lists "before + choice", the next sum: fewest bytes, then least error, then the earlier choice. */
static int next_list(const qn_frontier_point *before, size_t n, const qn_choices *g, const size_t *at)
{
	int best = -1;
	uint64_t bytes = 0;
	double error = 0;
	for (int c = 0; c < g->n; c++) {
		if (at[c] == n)
			continue;
		uint64_t b = before[at[c]].bytes + g->choice[c].bytes;
		double e = before[at[c]].error + g->choice[c].error;
		if (best < 0 || b < bytes || (b == bytes && e < error))
			best = c, bytes = b, error = e;
	}
	return best;
}

static size_t merge(const qn_frontier_point *before, size_t n, const qn_choices *g, size_t *at, qn_frontier_point *out, origin *of)
{
	size_t made = 0;
	memset(at, 0, (size_t)g->n * sizeof *at);
	for (int c; (c = next_list(before, n, g, at)) >= 0; at[c]++) {
		const qn_frontier_point p = {before[at[c]].bytes + g->choice[c].bytes, before[at[c]].error + g->choice[c].error};
		if (made && p.error >= out[made - 1].error)
			continue;
		out[made] = p;
		of[made++] = (origin){(uint32_t)at[c], c};
	}
	return made;
}

/* Every other point goes; the smallest and the largest stay. */
static size_t thin(qn_frontier_point *p, origin *of, size_t n)
{
	size_t kept = 0;
	for (size_t i = 0; i < n; i++)
		if (i % 2 == 0 || i == n - 1) {
			p[kept] = p[i];
			of[kept++] = of[i];
		}
	return kept;
}

void qn_frontier_make(qn_arena *a, const qn_choices *groups, size_t n, size_t most, qn_frontier *out)
{
	struct qn_frontier_step *steps = QN_NEW(a, struct qn_frontier_step, n + 1);
	qn_frontier_point *now = QN_NEW(a, qn_frontier_point, 1);
	size_t count = 1;
	*out = (qn_frontier){.exact = true, .steps = steps, .n_groups = n};
	for (size_t i = 0; i < n; i++) {
		qn_arena scratch;
		qn_arena_init(&scratch, a->ctx);
		size_t room = count * (size_t)groups[i].n;
		qn_frontier_point *next = QN_NEW(&scratch, qn_frontier_point, room);
		origin *of = QN_NEW(&scratch, origin, room);
		count = merge(now, count, &groups[i], QN_NEW(&scratch, size_t, groups[i].n), next, of);
		while (count > most && count > 2) {
			count = thin(next, of, count);
			out->exact = false;
		}
		steps[i] = (struct qn_frontier_step){QN_NEW(a, origin, count), count};
		memcpy(steps[i].of, of, count * sizeof *of);
		now = QN_NEW(a, qn_frontier_point, count);
		memcpy(now, next, count * sizeof *now);
		qn_arena_release(&scratch);
	}
	out->points = now;
	out->n = count;
}

void qn_frontier_choices(const qn_frontier *f, size_t point, int *choice)
{
	for (size_t i = f->n_groups; i-- > 0;) {
		const origin *o = &f->steps[i].of[point];
		choice[i] = o->choice;
		point = o->from;
	}
}

size_t qn_frontier_within_bytes(const qn_frontier *f, uint64_t bytes)
{
	size_t i = f->n;
	while (i > 0 && f->points[i - 1].bytes > bytes)
		i--;
	return i ? i - 1 : f->n;
}

size_t qn_frontier_within_error(const qn_frontier *f, double error)
{
	size_t i = 0;
	while (i < f->n && f->points[i].error > error)
		i++;
	return i;
}

/* --- hull ------------------------------------------------------------------------------------------------------------------- */
typedef struct step {
	size_t group;
	int choice, rank; /* rank: its place among the steps of the group */
	uint64_t bytes;   /* more than before */
	double error, slope; /* less than before; a byte */
} step;

/* Steps of different groups by gain; those of a group in their order, which is the same by convexity. */
static int by_gain(const void *x, const void *y)
{
	const step *a = x, *b = y;
	if (a->slope > b->slope || a->slope < b->slope)
		return a->slope > b->slope ? -1 : 1;
	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	return a->rank - b->rank;
}

/* The smallest choice, of equals the one of least error. */
static int smallest(const qn_choices *g)
{
	int at = 0;
	for (int c = 1; c < g->n; c++)
		if (g->choice[c].bytes < g->choice[at].bytes || (g->choice[c].bytes == g->choice[at].bytes && g->choice[c].error < g->choice[at].error))
			at = c;
	return at;
}

/* From `at` the choice that gains most a byte; -1: none gains. */
static int steepest(const qn_choices *g, int at, step *out)
{
	int best = -1;
	for (int c = 0; c < g->n; c++) {
		const qn_choice *from = &g->choice[at], *to = &g->choice[c];
		if (to->bytes <= from->bytes || to->error >= from->error)
			continue;
		double slope = (from->error - to->error) / (double)(to->bytes - from->bytes);
		if (best >= 0 && !(slope > out->slope || (slope >= out->slope && to->bytes > g->choice[best].bytes)))
			continue;
		best = c;
		*out = (step){.choice = c, .bytes = to->bytes - from->bytes, .error = from->error - to->error, .slope = slope};
	}
	return best;
}

size_t qn_hull_make(qn_arena *a, const qn_choices *groups, size_t n, int *choice, qn_hull_point **out)
{
	step *steps = NULL;
	size_t n_steps = 0, cap = 0;
	qn_hull_point first = {.group = SIZE_MAX};
	for (size_t i = 0; i < n; i++) {
		int at = choice[i] = smallest(&groups[i]), rank = 0;
		first.bytes += groups[i].choice[at].bytes;
		first.error += groups[i].choice[at].error;
		for (step s; (at = steepest(&groups[i], at, &s)) >= 0;) {
			s.group = i;
			s.rank = rank++;
			QN_GROW(a, steps, n_steps, cap);
			steps[n_steps++] = s;
		}
	}
	if (n_steps)
		qsort(steps, n_steps, sizeof *steps, by_gain);
	qn_hull_point *p = QN_NEW(a, qn_hull_point, n_steps + 1);
	p[0] = first;
	for (size_t i = 0; i < n_steps; i++)
		p[i + 1] = (qn_hull_point){p[i].bytes + steps[i].bytes, p[i].error - steps[i].error, steps[i].group, steps[i].choice};
	*out = p;
	return n_steps + 1;
}

double qn_hull_bound(const qn_hull_point *h, size_t n, uint64_t bytes)
{
	if (bytes < h[0].bytes)
		return INFINITY;
	for (size_t i = 1; i < n; i++)
		if (bytes < h[i].bytes)
			return h[i - 1].error + (h[i].error - h[i - 1].error) * (double)(bytes - h[i - 1].bytes) / (double)(h[i].bytes - h[i - 1].bytes);
	return h[n - 1].error;
}
