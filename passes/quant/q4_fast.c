/* q4_fast.c - the Q4_0 quantizer in loops that compilers turn into vector code; same bytes as q4_reference.c.
 *
 * Every loop runs over a whole block or over all candidate scales, without branches. Sums keep the reference's order: over candidates
 * side by side, value after value; over a block as a tree. The bodies are compiled once for the base instruction set and once for a wide
 * one, and once for each rule, so that the rule's constants are known. */
#include "passes/quant/q4_block.h"

#include <math.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-trapping-math") /* lets both sides of a choice be computed; no value changes */
#define WHOLE _Pragma("GCC unroll 1")    /* taken apart before it is vectorized, a short loop ends as scalar code */
#else
#define WHOLE
#endif
#define INLINE static inline __attribute__((always_inline))
enum { N = QN_BLOCK, C = QN_Q4_CANDIDATES };
_Static_assert(N == C, "one loop length serves values and candidates");

typedef int32_t __attribute__((may_alias)) bits32; /* a float seen as its bits */

enum { F32_INF = 0x7f800000, F16_LEAST = 0x38800000, F16_LARGEST = 0x477fe000 }; /* the last two: 2^-14 and 65504 as f32 bits */

INLINE float from_bits(int32_t bits)
{
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

INLINE int32_t to_bits(float f)
{
	int32_t bits;
	memcpy(&bits, &f, sizeof bits);
	return bits;
}

/* qn_f32_to_f16 with its usual case in line */
INLINE uint16_t to_half(float f)
{
	int32_t u = to_bits(f), a = u & 0x7fffffff;
	if (a < F16_LEAST || a > F16_LARGEST)
		return qn_f32_to_f16(f);
	return (uint16_t)(((u >> 16) & 0x8000) | ((a + 0xfff + ((a >> 13) & 1) - (112 << 23)) >> 13));
}

INLINE float from_half(uint16_t h)
{
	int32_t a = h & 0x7fff;
	if (a < 0x400 || a >= 0x7c00)
		return qn_f16_to_f32(h);
	return from_bits((int32_t)((uint32_t)(h & 0x8000) << 16) | ((a << 13) + (112 << 23)));
}

/* Each value rounded to what f16 can hold */
INLINE void half_round(float *x)
{
	bits32 *bits = (bits32 *)x;
	for (int i = 0; i < N; i++) {
		int32_t u = bits[i], a = u & 0x7fffffff;
		float magnitude = fabsf(x[i]),
		      small = (magnitude + 0.75f) - 0.75f; /* here one unit of the sum is one unit of a subnormal */
		int32_t r = to_bits(small), normal = (a + 0xfff + ((a >> 13) & 1)) & ~0x1fff;
		normal = normal > F16_LARGEST ? F32_INF : normal;
		normal = a > F32_INF ? a : normal;
		r = a < F16_LEAST ? r : normal;
		bits[i] = r | (u & (int32_t)0x80000000);
	}
}

/* Bits of the largest magnitude, and the first value that has it. NaN and infinity are the largest of all. */
INLINE int32_t largest(const bits32 *v, float *extreme)
{
	int32_t plus = v[0];
	uint32_t minus = (uint32_t)v[0];
	for (int i = 0; i < N; i++) { /* floats of one sign compare as their bits do */
		plus = v[i] > plus ? v[i] : plus;
		minus = (uint32_t)v[i] > minus ? (uint32_t)v[i] : minus;
	}
	int32_t below = minus >> 31 ? (int32_t)(minus & 0x7fffffff) : 0;
	plus = plus > 0 ? plus : 0;
	int32_t top = plus > below ? plus : below;
	*extreme = from_bits(below > plus ? (int32_t)minus : plus);
	if (plus == below) {
		int i = 0;
		while ((v[i] & 0x7fffffff) != top)
			i++;
		*extreme = from_bits(v[i]);
	}
	return top;
}

INLINE void store(const int32_t *code, uint8_t *bytes)
{
	WHOLE
	for (int i = 0; i < N / 2; i++)
		bytes[i] = (uint8_t)(code[i] | code[i + N / 2] << 4);
}

INLINE uint16_t minmax(const qn_q4_job *job, bool whole_range, const float *v, float amax, float *exact, int32_t *code)
{
	float x = amax, t[N], last = 2 * job->half - 1, add = job->half + 0.5f;
	int32_t low = 8 - (int32_t)job->half;
	if (!whole_range) {
		for (int i = 0; i < N; i++)
			t[i] = fabsf(v[i]);
		x = qn_quantile(t, N, job->rank);
	}
	*exact = x / -job->half;
	uint16_t stored = to_half(*exact);
	float scale = from_half(stored), inverse = scale == 0 ? scale : from_half(to_half(1 / scale));
	for (int i = 0; i < N; i++)
		t[i] = v[i] * inverse;
	if (job->half_source)
		half_round(t);
	for (int i = 0; i < N; i++)
		t[i] += add;
	if (job->half_source)
		half_round(t);
	for (int i = 0; i < N; i++) {
		float f = t[i] > 0 ? t[i] : 0;
		f = f < last ? f : last;
		code[i] = low + (int32_t)f;
	}
	return stored;
}

INLINE uint16_t signed_rule(const qn_q4_job *job, const float *v, float extreme, float *exact, int32_t *code)
{
	float d = extreme / -job->half, inverse = 1 / d, add = job->half + 0.5f;
	int32_t low = 8 - (int32_t)job->half, last = 2 * (int32_t)job->half - 1;
	inverse = fabsf(inverse) < INFINITY ? inverse : 0;
	for (int i = 0; i < N; i++) {
		int32_t c = (int32_t)(v[i] * inverse + add);
		c = c > 0 ? c : 0;
		code[i] = low + (c < last ? c : last);
	}
	*exact = d;
	return to_half(d);
}

/* --- search ---------------------------------------------------------------------------------------- */

INLINE float tree_sum(float *p)
{
	WHOLE
	for (int i = 0; i < 16; i++)
		p[i] += p[i + 16];
	WHOLE
	for (int i = 0; i < 8; i++)
		p[i] += p[i + 8];
	float a = p[0] + p[4], b = p[1] + p[5], c = p[2] + p[6], d = p[3] + p[7];
	return (a + c) + (b + d);
}

typedef struct trial {
	float d, error;
	float level[N];
} trial;

INLINE float storable(float d)
{
	return from_half(to_half(d > 65504 ? 65504 : d < -65504 ? -65504 : d));
}

INLINE float inverse_of(float d)
{
	return 1 / (d == 0 ? 1 : d);
}

/* The grid's level nearest to v / d */
INLINE float level_of(const qn_q4_grid *g, float step, float v, float inverse)
{
	float t = (v * inverse - g->low) * (1 / step);
	t = t > 0 ? t : 0;
	t = t < g->last ? t : g->last;
	return g->low + step * ((t + 12582912.0f) - 12582912.0f);
}

INLINE void try_scale(const qn_q4_grid *g, float step, const float *v, const float *w, float d, trial *t)
{
	float p[N], inverse = inverse_of(d);
	for (int i = 0; i < N; i++) {
		float level = level_of(g, step, v[i], inverse), e = v[i] - level * d;
		t->level[i] = level;
		p[i] = w[i] * (e * e);
	}
	t->d = d;
	t->error = tree_sum(p);
}

INLINE void refine(const qn_q4_grid *g, float step, const float *v, const float *w, trial *now)
{
	for (int n = 0; n < QN_Q4_REFITS; n++) {
		float vl[N], ll[N];
		for (int i = 0; i < N; i++) {
			float wl = w[i] * now->level[i];
			vl[i] = wl * v[i];
			ll[i] = wl * now->level[i];
		}
		float below = tree_sum(ll), fit = below > 0 ? storable(tree_sum(vl) / below) : now->d;
		trial next;
		if (fit == now->d)
			return;
		try_scale(g, step, v, w, fit, &next);
		if (!(next.error < now->error))
			return;
		*now = next;
	}
}

INLINE void score(const qn_q4_grid *g, float step, const float *v, const float *w, const float *d, float *error)
{
	enum { LANES = 16 };
	float inverse[C];
	for (int c = 0; c < C; c++)
		inverse[c] = inverse_of(d[c]);
	for (int part = 0; part < C; part += LANES) {
		float sum[LANES] = {0};
		for (int i = 0; i < N; i++)
			for (int c = 0; c < LANES; c++) {
				float e = v[i] - level_of(g, step, v[i], inverse[part + c]) * d[part + c];
				sum[c] += w[i] * (e * e);
			}
		memcpy(error + part, sum, sizeof sum);
	}
}

INLINE void search_grid(const qn_q4_grid *g, float step, const float *v, const float *w, float amax, trial *best)
{
	float d[C], error[C];
	for (int c = 0; c < C; c++) {
		float x = amax * g->factor[c];
		x = x < 65504 ? x : 65504;
		d[c] = x > -65504 ? x : -65504;
	}
	half_round(d);
	score(g, step, v, w, d, error);
	for (int from = 0; from < C; from += g->split) {
		int least = from;
		for (int c = from; c < from + g->split; c++)
			least = error[c] < error[least] ? c : least;
		if (!(error[least] * QN_Q4_HOPE < best->error))
			continue;
		trial t;
		try_scale(g, step, v, w, d[least], &t);
		refine(g, step, v, w, &t);
		if (t.error < best->error)
			*best = t;
	}
}

INLINE uint16_t search(const qn_q4_job *job, const float *v, const float *w, float extreme, float *exact, int32_t *code)
{
	trial best;
	try_scale(&job->grid[0], 1, v, w, storable(extreme / -job->half), &best);
	if (job->n_grids > 1)
		search_grid(&job->grid[1], 2, v, w, fabsf(extreme), &best);
	search_grid(&job->grid[0], 1, v, w, fabsf(extreme), &best);
	*exact = fabsf(extreme) / job->half;
	bool none = best.d == 0 || !(best.error < INFINITY);
	for (int i = 0; i < N; i++)
		code[i] = none ? 8 : 8 + (int32_t)best.level[i];
	return none ? 0x8000 : to_half(best.d);
}

/* --- strips of blocks -------------------------------------------------------------------------------- */

INLINE void weights_of(const qn_q4_job *job, int64_t col, float *w)
{
	for (int i = 0; i < N; i++) {
		float x = job->weight[col + i];
		w[i] = x < job->weight_floor ? job->weight_floor : x;
	}
}

/* The report's usual case: f16 scales compare as their bits do */
typedef struct usual {
	int64_t n;
	int32_t least, most;
} usual;

INLINE void note(usual *u, qn_quant_report *r, int64_t block, float exact, uint16_t stored, bool any)
{
	int32_t a = stored & 0x7fff;
	if (a < 0x400 || a >= 0x7c00 || !(fabsf(exact) < 65520)) {
		qn_report_scale(r, block, exact, stored, any);
		return;
	}
	u->n++;
	u->least = a < u->least ? a : u->least;
	u->most = a > u->most ? a : u->most;
}

INLINE void strip(
	const qn_q4_job *job, qn_rounding rule, bool plain, const float *w, int64_t first, int64_t n, uint8_t *out, qn_quant_report *r)
{
	usual u = {0, 0x7fff, 0};
	float weight[N];
	for (int i = 0; i < N; i++)
		weight[i] = 1;
	for (int64_t b = first; b < first + n; b++) {
		const float *v = w + b * N;
		int32_t code[N];
		float exact = 0, extreme;
		uint16_t stored = 0x8000;
		int32_t top = largest((const bits32 *)v, &extreme);
		bool usable = top > 0 && top < F32_INF;
		if (!usable) {
			if (top)
				qn_report_bad(r, v, N, b * N);
			for (int i = 0; i < N; i++)
				code[i] = 8;
		} else if (rule == QN_ROUND_MINMAX) {
			stored = minmax(job, plain, v, from_bits(top), &exact, code);
		} else if (rule == QN_ROUND_SIGNED) {
			stored = signed_rule(job, v, extreme, &exact, code);
		} else {
			if (!plain)
				weights_of(job, b * N % job->cols, weight);
			stored = search(job, v, weight, extreme, &exact, code);
		}
		qn_put_u16(out + b * QN_Q4_0_BYTES, stored);
		store(code, out + b * QN_Q4_0_BYTES + 2);
		note(&u, r, b, exact, stored, usable);
	}
	if (u.n)
		qn_report_usual(r, u.n, (uint16_t)u.least, (uint16_t)u.most);
}

INLINE void blocks(const qn_q4_job *job, const float *w, int64_t first, int64_t n, uint8_t *out, qn_quant_report *r)
{
	if (job->rounding == QN_ROUND_MINMAX && job->rank == N - 1)
		strip(job, QN_ROUND_MINMAX, true, w, first, n, out, r);
	else if (job->rounding == QN_ROUND_MINMAX)
		strip(job, QN_ROUND_MINMAX, false, w, first, n, out, r);
	else if (job->rounding == QN_ROUND_SIGNED)
		strip(job, QN_ROUND_SIGNED, true, w, first, n, out, r);
	else
		strip(job, QN_ROUND_MSE, !job->weight, w, first, n, out, r);
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE 1
__attribute__((target("avx2"))) static void blocks_avx2(
	const qn_q4_job *job, const float *w, int64_t first, int64_t n, uint8_t *out, qn_quant_report *r)
{
	blocks(job, w, first, n, out, r);
}

__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"))) static void search_avx512(
	const qn_q4_job *job, const float *w, int64_t first, int64_t n, uint8_t *out, qn_quant_report *r)
{
	strip(job, QN_ROUND_MSE, !job->weight, w, first, n, out, r);
}

static bool has_avx512(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("avx512vl");
}
#endif

void qn_q4_fast_blocks(const qn_q4_job *job, const float *w, int64_t first, int64_t n, uint8_t *out, qn_quant_report *r)
{
#ifdef WIDE
	if (job->rounding >= QN_ROUND_MSE && has_avx512()) {
		search_avx512(job, w, first, n, out, r);
		return;
	}
	if (__builtin_cpu_supports("avx2")) {
		blocks_avx2(job, w, first, n, out, r);
		return;
	}
#endif
	blocks(job, w, first, n, out, r);
}
