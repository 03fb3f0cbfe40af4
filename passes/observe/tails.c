/* tails.c - the largest magnitudes of each channel: whatever positive factors divide the channels later, the largest of all quotients are
 * among them. Each is kept once, with how often it was seen: first tokens and padding are the same in every sample. */
#include "graph/ops/_math.h"
#include "passes/observe/observe.h"

#include <stdlib.h>

enum { LANES = 16 }; /* channels that are looked at side by side */

qn_tails *qn_tails_new(int64_t channels, bool asymmetric, qn_arena *a)
{
	qn_tails *t = QN_NEW(a, qn_tails, 1);
	*t = (qn_tails){.channels = channels, .n_ends = asymmetric ? 2 : 1, .hit = QN_NEW(a, int64_t, channels / LANES + 1)};
	for (int e = 0; e < t->n_ends; e++) {
		t->least[e] = QN_NEW(a, float, channels);
		t->list[e] = QN_NEW(a, float, channels *QN_TAIL);
		t->times[e] = QN_NEW(a, int64_t, channels *QN_TAIL);
	}
	return t;
}

static float magnitude(const qn_tails *t, int end, float v)
{
	return t->n_ends == 1 ? fabsf(v) : end ? -v : v;
}

/* A magnitude that goes out was smaller than all that stay, and so will be all of its kind that come. So what stays has been counted in
 * full. */
static void enter(qn_tails *t, int end, int64_t channel, float v)
{
	float *restrict list = t->list[end] + channel * QN_TAIL;
	int64_t *times = t->times[end] + channel * QN_TAIL;
	int same = -1, at = -1;
	for (int i = 0; i < QN_TAIL; i++) {
		same = list[i] == v ? i : same;
		at = list[i] == t->least[end][channel] ? i : at;
	}
	if (same >= 0) {
		times[same]++;
		return;
	}
	list[at] = v;
	times[at] = 1;
	float least = v;
	for (int i = 0; i < QN_TAIL; i++)
		least = list[i] < least ? list[i] : least;
	t->least[end][channel] = least;
}

/* Numbers of the blocks of LANES channels in which some value may enter. */
QN_VECTOR static int64_t blocks_that_enter(const float *restrict x, const float *restrict least, int64_t blocks, int64_t *restrict hit)
{
	int64_t n = 0;
	for (int64_t b = 0; b < blocks; b++) {
		int any = 0;
#pragma omp simd reduction(| : any)
		for (int i = 0; i < LANES; i++)
			any |= (fabsf(x[b * LANES + i]) >= least[b * LANES + i]) & (x[b * LANES + i] != 0);
		hit[n] = b;
		n += any != 0;
	}
	return n;
}

static void enter_some(qn_tails *t, int end, const float *row, int64_t from, int64_t to)
{
	for (int64_t k = from; k < to; k++) {
		float v = magnitude(t, end, row[k]);
		if (v > 0 && v >= t->least[end][k])
			enter(t, end, k, v);
	}
}

void qn_tails_add(qn_tails *t, const float *x, int64_t rows)
{
	int64_t blocks = t->channels / LANES;
	for (int64_t r = 0; r < rows; r++)
		for (int e = 0; e < t->n_ends; e++) {
			const float *row = x + r * t->channels;
			int64_t n = blocks_that_enter(row, t->least[e], blocks, t->hit);
			for (int64_t i = 0; i < n; i++)
				enter_some(t, e, row, t->hit[i] * LANES, (t->hit[i] + 1) * LANES);
			enter_some(t, e, row, blocks * LANES, t->channels);
		}
}

/* Quotients above it are all in the lists. */
static float complete_above(const qn_tails *t, int end, const float *by)
{
	float bound = 0;
	for (int64_t k = 0; k < t->channels; k++)
		bound = fmaxf(bound, t->least[end][k] / by[k]);
	return bound;
}

static int falling(const void *a, const void *b)
{
	const qn_repeated *x = a, *y = b;
	return x->v > y->v ? -1 : x->v < y->v;
}

qn_summary qn_tails_summary(const qn_tails *t, int end, const float *by, const float *rows, int64_t n_rows, int64_t count, qn_arena *a)
{
	float bound = complete_above(t, end, by);
	qn_repeated *tail = QN_NEW(a, qn_repeated, t->channels *QN_TAIL + 1);
	float *body = QN_NEW(a, float, n_rows *t->channels + 1);
	qn_summary s = {.tail = tail, .body = body, .n_rest = count};
	for (int64_t i = 0; i < t->channels * QN_TAIL; i++) {
		qn_repeated q = {t->list[end][i] / by[i / QN_TAIL], t->times[end][i]};
		if (q.n && q.v >= bound) {
			tail[s.n_tail++] = q;
			s.n_rest -= q.n;
		}
	}
	qsort(tail, (size_t)s.n_tail, sizeof *tail, falling);
	for (int64_t r = 0; r < n_rows; r++)
		for (int64_t k = 0; k < t->channels; k++) {
			float v = fmaxf(magnitude(t, end, rows[r * t->channels + k] / by[k]), 0);
			if (v < bound)
				body[s.n_body++] = v;
		}
	if (!s.n_body)
		body[s.n_body++] = bound;
	return s;
}
