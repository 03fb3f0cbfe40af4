/* max.c - the range is the largest magnitude. */
#include "passes/observe/observe.h"

static void *start(const qn_calibration_config *c, qn_arena *a)
{
	(void)c;
	(void)a;
	return NULL;
}

static void add(void *state, const float *v, int64_t n, qn_arena *scratch)
{
	(void)state;
	(void)v;
	(void)n;
	(void)scratch;
}

static void add_summary(void *state, const qn_summary *s, size_t samples, qn_arena *scratch)
{
	(void)state;
	(void)s;
	(void)samples;
	(void)scratch;
}

static float range(const void *state, float largest, int bits, qn_arena *scratch)
{
	(void)state;
	(void)bits;
	(void)scratch;
	return largest;
}

const qn_observer_kind qn_observe_max = {start, add, add_summary, range};
