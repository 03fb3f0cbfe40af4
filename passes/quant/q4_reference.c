/* q4_reference.c - the plain Q4_0 quantizer, the definition of the bytes. One value at a time, in the order written; q4_fast.c must agree
 * bit for bit. */
#include "passes/quant/q4_block.h"

#include <math.h>

static float half_rounded(float f)
{
	return qn_f16_to_f32(qn_f32_to_f16(f));
}

/* Orders m so that m[k] is what a sort would put there, nothing smaller after it and nothing larger before it. */
static void select_place(float *m, int64_t n, int64_t k)
{
	int64_t from = 0, to = n - 1;
	while (from < to) {
		float pivot = m[from + (to - from) / 2];
		int64_t i = from, j = to;
		while (i <= j) {
			while (m[i] < pivot)
				i++;
			while (m[j] > pivot)
				j--;
			if (i <= j) {
				float swap = m[i];
				m[i++] = m[j];
				m[j--] = swap;
			}
		}
		if (k <= j)
			to = j;
		else if (k >= i)
			from = i;
		else
			return;
	}
}

/* The `want` largest, in falling order, at the front; for a few of them this beats a selection. */
static void keep_largest(float *m, int64_t n, int64_t want)
{
	for (int64_t i = 1; i < n; i++) {
		float x = m[i];
		int64_t at = i < want ? i : want - 1;
		if (i >= want && x <= m[at])
			continue;
		for (; at > 0 && m[at - 1] < x; at--)
			m[at] = m[at - 1];
		m[at] = x;
	}
}

float qn_quantile(float *m, int64_t n, float rank)
{
	enum { FEW = 8 };
	int64_t low = (int64_t)rank, want = n - low;
	float weight = rank - (float)low, below, above;
	if (want <= FEW) {
		keep_largest(m, n, want);
		below = m[want - 1];
		above = want > 1 ? m[want - 2] : below;
	} else {
		select_place(m, n, low);
		below = m[low];
		above = m[low + 1];
		for (int64_t i = low + 2; i < n; i++)
			if (m[i] < above)
				above = m[i];
	}
	if (weight == 0)
		return below;
	/* interpolated from the nearer end with one rounding, as PyTorch's lerp does */
	return weight < 0.5f ? fmaf(weight, above - below, below) : fmaf(weight - 1, above - below, above);
}

static float largest(const float *v)
{
	float m = 0;
	for (int i = 0; i < QN_BLOCK; i++)
		if (fabsf(v[i]) > m)
			m = fabsf(v[i]);
	return m;
}

/* 0x8000 and the middle code: what both published rules give for zeros */
static uint16_t zero_block(uint8_t *codes)
{
	memset(codes, 8, QN_BLOCK);
	return 0x8000;
}

void qn_group_codes(const float *v, int64_t n, uint16_t stored, int bits, bool half_source, uint8_t *codes)
{
	float scale = qn_f16_to_f32(stored), inverse = scale == 0 ? scale : half_rounded(1 / scale);
	float add = ((float)(1 << bits) + 1) / 2, last = (float)((1 << bits) - 1);
	for (int64_t i = 0; i < n; i++) {
		float t = v[i] * inverse;
		t = half_source ? half_rounded(half_rounded(t) + add) : t + add;
		t = floorf(t);
		/* 0 times an infinite inverse is NaN, which that rule's conversion to an integer makes 0 */
		codes[i] = (uint8_t)(t > 0 ? fminf(t, last) : 0);
	}
}

static uint16_t minmax(const qn_q4_job *job, const float *v, float *exact, uint8_t *codes)
{
	float m[QN_BLOCK];
	for (int i = 0; i < QN_BLOCK; i++)
		m[i] = fabsf(v[i]);
	float x = job->rank < QN_BLOCK - 1 ? qn_quantile(m, QN_BLOCK, job->rank) : largest(v);
	*exact = x / -job->half;
	uint16_t stored = qn_f32_to_f16(*exact);
	qn_group_codes(v, QN_BLOCK, stored, job->bits, job->half_source, codes);
	for (int i = 0; i < QN_BLOCK; i++)
		codes[i] = (uint8_t)(codes[i] + 8 - (int)job->half);
	return stored;
}

static uint16_t signed_rule(const qn_q4_job *job, const float *v, float *exact, uint8_t *codes)
{
	float m = 0, d;
	for (int i = 0; i < QN_BLOCK; i++)
		if (fabsf(v[i]) > fabsf(m))
			m = v[i];
	d = m / -job->half;
	*exact = d;
	float inverse = d == 0 ? 0 : 1 / d;
	if (isinf(inverse))
		inverse = 0; /* the scale is 0 in f16, whatever the codes */
	int low = 8 - (int)job->half;
	for (int i = 0; i < QN_BLOCK; i++) {
		int c = (int)(v[i] * inverse + (job->half + 0.5f));
		codes[i] = (uint8_t)(low + (c < 0 ? 0 : c > 2 * job->half - 1 ? (int)(2 * job->half - 1) : c));
	}
	return qn_f32_to_f16(d);
}

/* --- search ---------------------------------------------------------------------------------------- */

/* A scale as f16 can hold it, never infinite */
static float storable(float d)
{
	return half_rounded(d > 65504 ? 65504 : d < -65504 ? -65504 : d);
}

/* A scale of 0 makes every level worth 0, so its inverse is free */
static float inverse_of(float d)
{
	return 1 / (d == 0 ? 1 : d);
}

/* The grid's level nearest to v / d */
static float level_of(const qn_q4_grid *g, float v, float d)
{
	float t = (v * inverse_of(d) - g->low) * (1 / g->step);
	t = t > 0 ? t : 0;
	t = t < g->last ? t : g->last;
	return g->low + g->step * ((t + 12582912.0f) - 12582912.0f); /* to nearest even: the sum has no bits below 1 */
}

static float squared(float v, float level, float d, float w)
{
	float e = v - level * d;
	return w * (e * e);
}

static float tree_sum(float *p)
{
	for (int s = QN_BLOCK / 2; s; s /= 2)
		for (int i = 0; i < s; i++)
			p[i] += p[i + s];
	return p[0];
}

typedef struct trial {
	float d, error;
	float level[QN_BLOCK]; /* low + step * k */
} trial;

static void try_scale(const qn_q4_grid *g, const float *v, const float *w, float d, trial *t)
{
	float p[QN_BLOCK];
	t->d = d;
	for (int i = 0; i < QN_BLOCK; i++) {
		t->level[i] = level_of(g, v[i], d);
		p[i] = squared(v[i], t->level[i], d, w[i]);
	}
	t->error = tree_sum(p);
}

/* Codes and scale in turn, as long as the error falls */
static void refine(const qn_q4_grid *g, const float *v, const float *w, trial *now)
{
	for (int n = 0; n < QN_Q4_REFITS; n++) {
		float vl[QN_BLOCK], ll[QN_BLOCK];
		for (int i = 0; i < QN_BLOCK; i++) {
			vl[i] = w[i] * now->level[i] * v[i];
			ll[i] = w[i] * now->level[i] * now->level[i];
		}
		float below = tree_sum(ll), fit = below > 0 ? storable(tree_sum(vl) / below) : now->d;
		trial next;
		if (fit == now->d)
			return;
		try_scale(g, v, w, fit, &next);
		if (!(next.error < now->error))
			return;
		*now = next;
	}
}

static void search_grid(const qn_q4_grid *g, const float *v, const float *w, float amax, trial *best)
{
	float d[QN_Q4_CANDIDATES], error[QN_Q4_CANDIDATES];
	for (int c = 0; c < QN_Q4_CANDIDATES; c++) {
		d[c] = storable(amax * g->factor[c]);
		error[c] = 0;
		for (int i = 0; i < QN_BLOCK; i++)
			error[c] += squared(v[i], level_of(g, v[i], d[c]), d[c], w[i]);
	}
	for (int from = 0; from < QN_Q4_CANDIDATES; from += g->split) {
		int least = from;
		for (int c = from; c < from + g->split; c++)
			if (error[c] < error[least])
				least = c;
		if (!(error[least] * QN_Q4_HOPE < best->error))
			continue;
		trial t;
		try_scale(g, v, w, d[least], &t);
		refine(g, v, w, &t);
		if (t.error < best->error)
			*best = t;
	}
}

/* Starts from the signed rule's scale, so that the result is never worse; the odd levels, of which the first grid has none, go first. */
static uint16_t search(const qn_q4_job *job, const float *v, const float *w, float *exact, uint8_t *codes)
{
	float amax = largest(v);
	int extreme = 0;
	while (fabsf(v[extreme]) < amax)
		extreme++;
	trial best;
	try_scale(&job->grid[0], v, w, storable(v[extreme] / -job->half), &best);
	for (int i = job->n_grids - 1; i >= 0; i--)
		search_grid(&job->grid[i], v, w, amax, &best);
	*exact = amax / job->half;
	if (best.d == 0 || !(best.error < INFINITY)) /* too small for f16, or too large to measure */
		return zero_block(codes);
	for (int i = 0; i < QN_BLOCK; i++)
		codes[i] = (uint8_t)(8 + (int)best.level[i]);
	return qn_f32_to_f16(best.d);
}

static bool all_finite(const float *v)
{
	for (int i = 0; i < QN_BLOCK; i++)
		if (!isfinite(v[i]))
			return false;
	return true;
}

void qn_q4_reference_blocks(const qn_q4_job *job, const float *w, int64_t first, int64_t n, uint8_t *out, qn_quant_report *r)
{
	for (int64_t b = first; b < first + n; b++) {
		const float *v = w + b * QN_BLOCK;
		float weight[QN_BLOCK], exact = 0;
		uint8_t codes[QN_BLOCK];
		uint16_t stored;
		for (int i = 0; i < QN_BLOCK; i++) {
			weight[i] = job->weight ? job->weight[b * QN_BLOCK % job->cols + i] : 1;
			if (weight[i] < job->weight_floor)
				weight[i] = job->weight_floor;
		}
		bool finite = all_finite(v);
		if (!finite)
			qn_report_bad(r, v, QN_BLOCK, b * QN_BLOCK);
		if (!finite || largest(v) == 0)
			stored = zero_block(codes);
		else if (job->rounding == QN_ROUND_MINMAX)
			stored = minmax(job, v, &exact, codes);
		else if (job->rounding == QN_ROUND_SIGNED)
			stored = signed_rule(job, v, &exact, codes);
		else
			stored = search(job, v, weight, &exact, codes);
		qn_report_scale(r, b, exact, stored, finite && largest(v) != 0);
		qn_put_u16(out + b * QN_Q4_0_BYTES, stored);
		qn_q4_0_pack(codes, out + b * QN_Q4_0_BYTES + 2);
	}
}
