/* largest.c - the largest of many magnitudes, without sorting all of them. */
#include "graph/ops/_math.h"
#include "passes/observe/observe.h"

enum { BUCKETS = 2048, BUCKET_SHIFT = 20 }; /* exponent and three bits of fraction: floats that are not negative order as their bits do */
enum { RUN = 16 };                          /* values of which one maximum is taken */

/* Falling, one byte of the bits after the other from the lowest on (an LSD radix sort). */
static void sort_falling(float *v, int64_t n, qn_arena *scratch)
{
	float *from = v, *to = QN_NEW(scratch, float, n + 1);
	for (int shift = 0; shift < 32; shift += 8) {
		int64_t first[256] = {0}, at = 0;
		for (int64_t i = 0; i < n; i++)
			first[255 - (qn_bits_of(from[i]) >> shift & 255)]++;
		for (int b = 0; b < 256; b++) {
			int64_t here = first[b];
			first[b] = at;
			at += here;
		}
		for (int64_t i = 0; i < n; i++)
			to[first[255 - (qn_bits_of(from[i]) >> shift & 255)]++] = from[i];
		float *other = from;
		from = to, to = other;
	}
}

/* The first bits of the lower end of a bucket such that n values, or all, are in it and above. */
static uint32_t floor_of(const float *v, int64_t count, int64_t n, qn_arena *scratch)
{
	int64_t *bucket = QN_NEW(scratch, int64_t, BUCKETS), above = 0;
	for (int64_t i = 0; i < count; i++)
		bucket[qn_bits_of(v[i]) >> BUCKET_SHIFT & (BUCKETS - 1)]++;
	uint32_t from = BUCKETS;
	while (from > 0 && above < n)
		above += bucket[--from];
	return from << BUCKET_SHIFT;
}

QN_INLINE float most_of_run(const float *v)
{
	float most = 0;
#pragma omp simd reduction(max : most)
	for (int i = 0; i < RUN; i++)
		most = v[i] > most ? v[i] : most;
	return most;
}

QN_VECTOR static void find_most(const float *restrict v, int64_t runs, float *restrict most)
{
	for (int64_t r = 0; r < runs; r++)
		most[r] = most_of_run(v + r * RUN);
}

/* Of whole runs, the values from `least` bits on; n of them are to be found. Each of n runs with so large a maximum has one. */
static int64_t from_runs(const float *v, int64_t runs, int64_t n, float *out, qn_arena *scratch)
{
	float *most = QN_NEW(scratch, float, runs);
	find_most(v, runs, most);
	uint32_t least = floor_of(most, runs, n, scratch);
	int64_t k = 0;
	for (int64_t r = 0; r < runs; r++)
		for (int64_t i = r * RUN; qn_bits_of(most[r]) >= least && i < (r + 1) * RUN; i++)
			if (qn_bits_of(v[i]) >= least)
				out[k++] = v[i];
	return k;
}

void qn_largest(const float *v, int64_t count, int64_t n, float *out, qn_arena *scratch)
{
	int64_t runs = count / RUN;
	if (n < runs / 2) {
		float *some = QN_NEW(scratch, float, count);
		int64_t k = from_runs(v, runs, n, some, scratch), rest = count - runs * RUN;
		memcpy(some + k, v + runs * RUN, (size_t)rest * sizeof *v);
		v = some, count = k + rest;
	}
	uint32_t least = floor_of(v, count, n, scratch);
	float *taken = QN_NEW(scratch, float, count + 1);
	int64_t k = 0;
	for (int64_t i = 0; i < count; i++)
		if (qn_bits_of(v[i]) >= least)
			taken[k++] = v[i];
	sort_falling(taken, k, scratch); /* four swaps: it ends where it began */
	memcpy(out, taken, (size_t)(n < k ? n : k) * sizeof *out);
}
