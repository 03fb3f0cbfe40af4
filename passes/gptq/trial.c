/* trial.c - vectors over candidates or over rows, so that the sequential rounding of a block is the same few instructions for all of them. */
#include "passes/gptq/trial.h"

#include <math.h>

enum { B = QN_BLOCK, L = QN_LANES, C = QN_GPTQ_CANDIDATES, REFITS = 3, WIDE = 8, V = L / WIDE };
_Static_assert(C == L && V == 4, "one kernel serves candidates and rows, in four vectors");
/* candidates reach from FIRST to FIRST + RANGE times (largest magnitude) / 8, in both signs */
static const float FIRST = 0.62f, RANGE = 0.62f;

typedef float vec __attribute__((vector_size(WIDE * sizeof(float)), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(WIDE * sizeof(int32_t)), aligned(4), may_alias));
#define INLINE static inline __attribute__((always_inline))
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define CLONES __attribute__((target_clones("avx2", "default")))
#else
#define CLONES
#endif

/* All lanes of one column: four vectors that stay in registers. */
typedef struct lanes {
	vec a, b, c, d;
} lanes;

INLINE void load(lanes *to, const float *from)
{
	to->a = *(const vec *)from;
	to->b = *(const vec *)(from + WIDE);
	to->c = *(const vec *)(from + 2 * WIDE);
	to->d = *(const vec *)(from + 3 * WIDE);
}

INLINE void store(float *to, const lanes *from)
{
	*(vec *)to = from->a;
	*(vec *)(to + WIDE) = from->b;
	*(vec *)(to + 2 * WIDE) = from->c;
	*(vec *)(to + 3 * WIDE) = from->d;
}

/* s - sum over k < j of u[k] x[k] */
INLINE void subtract_before(lanes *s, const float *u, const float x[B][L], int j)
{
	for (int k = 0; k < j; k++) {
		lanes e;
		load(&e, x[k]);
		s->a -= u[k] * e.a;
		s->b -= u[k] * e.b;
		s->c -= u[k] * e.c;
		s->d -= u[k] * e.d;
	}
}

/* The code for *v / scale, to *v; then the error that it leaves, as U^-T sees it, in *e, and its square in *cost. */
INLINE void round_one(vec *v, vec *e, vec *cost, vec scale, vec inverse, float low, float top, float reciprocal)
{
	const vec none = *v - *v, tops = none + top;
	vec t = *v * inverse + (0.5f - low);
	ivec above = t > tops, inside = t > none;
	t = (vec)(((ivec)tops & above) | ((ivec)t & ~above & inside));
	vec c = __builtin_convertvector(__builtin_convertvector(t, ivec), vec) + low;
	*e = (*v - c * scale) * reciprocal;
	*cost += *e * *e;
	*v = c;
}

/* The kernel. row: all lanes round this one row; NULL: each its own of v. code may be NULL. */
INLINE void round_lanes(const qn_block_factor *f, float low, float high, const float *row, const float v[B][L], const float *d, float *cost,
	float code[B][L], float error[B][L])
{
	lanes scale, inverse, sum = {0};
	float by[L];
	for (int i = 0; i < L; i++)
		by[i] = d[i] < 0 || d[i] > 0 ? 1 / d[i] : 0;
	load(&scale, d);
	load(&inverse, by);
	for (int j = 0; j < B; j++) {
		lanes s = {0}, e;
		if (row)
			s.a += row[j], s.b += row[j], s.c += row[j], s.d += row[j];
		else
			load(&s, v[j]);
		subtract_before(&s, f->column[j], error, j);
		round_one(&s.a, &e.a, &sum.a, scale.a, inverse.a, low, high - low, f->reciprocal[j]);
		round_one(&s.b, &e.b, &sum.b, scale.b, inverse.b, low, high - low, f->reciprocal[j]);
		round_one(&s.c, &e.c, &sum.c, scale.c, inverse.c, low, high - low, f->reciprocal[j]);
		round_one(&s.d, &e.d, &sum.d, scale.d, inverse.d, low, high - low, f->reciprocal[j]);
		store(error[j], &e);
		if (code)
			store(code[j], &s);
	}
	store(cost, &sum);
}

CLONES static void candidate_costs(const qn_block_factor *f, const float *row, const float *d, float *cost)
{
	float error[B][L];
	round_lanes(f, -8, 7, row, NULL, d, cost, NULL, error);
}

CLONES static void round_rows(const qn_block_factor *f, float low, float high, const float v[B][L], const float *d, float *cost, float code[B][L],
	float error[B][L])
{
	round_lanes(f, low, high, NULL, v, d, cost, code, error);
}

/* x with U^T x = v */
CLONES static void solve_rows(const qn_block_factor *f, const float v[B][L], float x[B][L])
{
	for (int j = 0; j < B; j++) {
		lanes s;
		load(&s, v[j]);
		subtract_before(&s, f->column[j], x, j);
		s.a *= f->reciprocal[j], s.b *= f->reciprocal[j], s.c *= f->reciprocal[j], s.d *= f->reciprocal[j];
		store(x[j], &s);
	}
}

static float as_f16(float d)
{
	d = fabsf(d) > 65504 ? copysignf(65504, d) : d;
	return qn_f16_to_f32(qn_f32_to_f16(d));
}

/* The scale that suits the codes best in the metric: (y . z) / (y . y) for y = U^-T c and z = U^-T v. */
static void fitted_scales(const float y[B][L], const float z[B][L], const float *present, float *d)
{
	float yz[L] = {0}, yy[L] = {0};
	for (int j = 0; j < B; j++)
		for (int i = 0; i < L; i++) {
			yz[i] += y[j][i] * z[j][i];
			yy[i] += y[j][i] * y[j][i];
		}
	for (int i = 0; i < L; i++) {
		d[i] = yy[i] > 0 ? as_f16(yz[i] / yy[i]) : 0;
		if (!(fabsf(d[i]) > 0))
			d[i] = present[i];
	}
}

/* Lane i of `t` becomes that of `next`, or keeps its codes and takes the scale d (errors z - d y). */
static void take_lane(qn_trials *t, int i, const qn_trials *next, float d, float cost, const float z[B][L], const float y[B][L])
{
	t->scale[i] = d;
	t->cost[i] = next ? next->cost[i] : cost;
	for (int j = 0; j < B; j++) {
		t->code[j][i] = next ? next->code[j][i] : t->code[j][i];
		t->error[j][i] = next ? next->error[j][i] : z[j][i] - d * y[j][i];
	}
}

static void refit(const qn_block_factor *f, qn_trials *t)
{
	float z[B][L], y[B][L];
	qn_trials next;
	solve_rows(f, t->v, z);
	for (int round = 0; round < REFITS; round++) {
		float kept[L] = {0};
		bool changed = false;
		solve_rows(f, t->code, y);
		fitted_scales(y, z, t->scale, next.scale);
		round_rows(f, -8, 7, t->v, next.scale, next.cost, next.code, next.error);
		for (int j = 0; j < B; j++)
			for (int i = 0; i < L; i++) {
				float e = z[j][i] - next.scale[i] * y[j][i];
				kept[i] += e * e;
			}
		for (int i = 0; i < L; i++) {
			bool anew = next.cost[i] < t->cost[i] && next.cost[i] <= kept[i];
			if (anew || kept[i] < t->cost[i]) {
				take_lane(t, i, anew ? &next : NULL, next.scale[i], kept[i], z, y);
				changed = true;
			}
		}
		if (!changed)
			return;
	}
}

void qn_block_factor_load(const float *upper, int64_t stride, int64_t size, qn_block_factor *out)
{
	for (int64_t j = 0; j < B; j++) {
		for (int64_t k = 0; k < B; k++)
			out->column[j][k] = k > j || j >= size ? (float)(j == k) : upper[k * stride + j];
		out->reciprocal[j] = 1 / out->column[j][j];
	}
}

void qn_trials_round(const qn_block_factor *f, float low, float high, qn_trials *t)
{
	round_rows(f, low, high, t->v, t->scale, t->cost, t->code, t->error);
}

void qn_trials_search(const qn_block_factor *f, int rows, qn_trials *t)
{
	memset(t->scale, 0, sizeof t->scale);
	for (int r = 0; r < rows; r++) {
		float row[B], d[C], cost[C], largest = 0;
		for (int j = 0; j < B; j++) {
			row[j] = t->v[j][r];
			largest = fabsf(row[j]) > largest ? fabsf(row[j]) : largest;
		}
		for (int i = 0; i < C; i++)
			d[i] = (i < C / 2 ? largest : -largest) / 8 * (FIRST + RANGE * (float)(i % (C / 2)) / (C / 2 - 1));
		candidate_costs(f, row, d, cost);
		int least = 0;
		for (int i = 1; i < C; i++)
			if (cost[i] < cost[least])
				least = i;
		t->scale[r] = as_f16(d[least]);
	}
	qn_trials_round(f, -8, 7, t);
	refit(f, t);
}
