/* rows.c - a selection of rows that does not depend on their order: those whose hashes are the smallest. */
#include "passes/stats.h"

#include <stdlib.h>

/* LANES hashes side by side, which the compiler works on as a vector, then one of them. */
enum { LANES = 16 };

static void mix_lanes(uint32_t *lane, const void *x)
{
	uint32_t u[LANES];
	memcpy(u, x, sizeof u);
#pragma omp simd
	for (int l = 0; l < LANES; l++) {
		lane[l] = (lane[l] ^ u[l]) * 0x85ebca6bu;
		lane[l] ^= lane[l] >> 15;
	}
}

static uint64_t hash_row(const float *x, int64_t n)
{
	uint32_t lane[LANES], rest[LANES] = {0};
	for (uint32_t l = 0; l < LANES; l++)
		lane[l] = 0x9e3779b9u * (l + 1);
	int64_t whole = n / LANES * LANES;
	for (int64_t i = 0; i < whole; i += LANES)
		mix_lanes(lane, x + i);
	if (whole < n) {
		memcpy(rest, x + whole, sizeof *rest * (size_t)(n - whole));
		mix_lanes(lane, rest);
	}
	uint64_t h = (uint64_t)n;
	for (int l = 0; l < LANES; l++) {
		h = (h ^ lane[l]) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	return h;
}

static int64_t largest_hash(const qn_stats *s)
{
	int64_t at = 0;
	for (int64_t i = 1; i < s->n_rows; i++)
		if (s->row_hash[i] > s->row_hash[at])
			at = i;
	return at;
}

static bool kept_already(const qn_stats *s, uint64_t h)
{
	for (int64_t i = 0; i < s->n_rows; i++)
		if (s->row_hash[i] == h)
			return true;
	return false;
}

void qn_stats_keep_rows(qn_stats *s, const float *x, int64_t rows, int half)
{
	int64_t worst = s->n_rows == QN_STATS_ROWS ? largest_hash(s) : -1;
	for (int64_t r = 0; r < rows; r++) {
		const float *row = x + r * s->channels;
		uint64_t h = hash_row(row, s->channels);
		if ((worst >= 0 && h >= s->row_hash[worst]) || kept_already(s, h))
			continue;
		int64_t to = worst >= 0 ? worst : s->n_rows++;
		s->row_hash[to] = h;
		s->row_half[to] = (uint8_t)half;
		memcpy(s->rows + to * s->channels, row, (size_t)s->channels * sizeof *row);
		worst = s->n_rows == QN_STATS_ROWS ? largest_hash(s) : -1;
	}
}

typedef struct place {
	uint64_t hash;
	int64_t from;
	uint8_t half;
} place;

static int by_hash(const void *a, const void *b)
{
	const place *x = a, *y = b;
	return x->hash < y->hash ? -1 : x->hash > y->hash;
}

void qn_stats_sort_rows(qn_stats *s, qn_arena *scratch)
{
	place *order = QN_NEW(scratch, place, s->n_rows + 1);
	float *rows = QN_NEW(scratch, float, s->n_rows * s->channels + 1);
	for (int64_t i = 0; i < s->n_rows; i++)
		order[i] = (place){s->row_hash[i], i, s->row_half[i]};
	qsort(order, (size_t)s->n_rows, sizeof *order, by_hash);
	for (int64_t i = 0; i < s->n_rows; i++)
		memcpy(rows + i * s->channels, s->rows + order[i].from * s->channels, (size_t)s->channels * sizeof *rows);
	for (int64_t i = 0; i < s->n_rows; i++) {
		s->row_hash[i] = order[i].hash;
		s->row_half[i] = order[i].half;
		memcpy(s->rows + i * s->channels, rows + i * s->channels, (size_t)s->channels * sizeof *rows);
	}
}
