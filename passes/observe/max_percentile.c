/* max_percentile.c - each sample gives its largest magnitudes to a pool; the range is a quantile of the pool. */
#include "passes/observe/observe.h"

#include <math.h>
#include <stdlib.h>

typedef struct pool {
	const qn_calibration_config *config;
	float *v; /* room for max_total + max_each */
	int64_t n;
} pool;

static void *start(const qn_calibration_config *c, qn_arena *a)
{
	pool *p = QN_NEW(a, pool, 1);
	*p = (pool){c, QN_NEW(a, float, (int64_t)c->max_total + c->max_each + 1), 0};
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
}

static void add(void *state, const float *v, int64_t n, qn_arena *scratch)
{
	pool *p = state;
	int64_t top = (int64_t)ceil(p->config->topk_ratio * (double)n), want = top < p->config->max_each ? top : p->config->max_each;
	if (!want)
		return;
	float *largest = QN_NEW(scratch, float, top);
	qn_largest(v, n, top, largest, scratch);
	for (int64_t i = 0; i < want; i++)
		p->v[p->n++] = largest[i * top / want];
	keep_largest(p, scratch);
}

static int ascending(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return x < y ? -1 : x > y;
}

static float range(const void *state, float largest, int bits, qn_arena *scratch)
{
	const pool *p = state;
	(void)bits;
	if (!p->n)
		return largest;
	float *v = QN_NEW(scratch, float, p->n);
	memcpy(v, p->v, (size_t)p->n * sizeof *v);
	qsort(v, (size_t)p->n, sizeof *v, ascending);
	double at = p->config->percentile * (double)(p->n - 1), below = floor(at);
	int64_t i = (int64_t)below;
	float next = v[i + 1 < p->n ? i + 1 : i];
	return (float)((double)v[i] + (at - below) * ((double)next - (double)v[i]));
}

const qn_observer_kind qn_observe_max_percentile = {start, add, range};
