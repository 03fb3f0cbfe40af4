/* rows.c - copies and means of rows in pieces. */
#include "passes/gptq/rows.h"

qn_rows qn_rows_of(qn_arena *a, const float *x, int64_t rows, int64_t width)
{
	qn_rows r = {QN_NEW(a, const float *, 1), QN_NEW(a, int64_t, 1), 1, rows, width};
	r.piece[0] = x;
	r.count[0] = rows;
	return r;
}

void qn_rows_copy(const qn_rows *r, int64_t from, int64_t n, const float *mean, float *out)
{
	for (size_t p = 0; p < r->n && n; p++) {
		if (from >= r->count[p]) {
			from -= r->count[p];
			continue;
		}
		int64_t here = r->count[p] - from < n ? r->count[p] - from : n;
		const float *x = r->piece[p] + from * r->width;
		if (!mean)
			memcpy(out, x, (size_t)(here * r->width) * sizeof *out);
		for (int64_t i = 0; i < here && mean; i++)
			for (int64_t k = 0; k < r->width; k++)
				out[i * r->width + k] = x[i * r->width + k] - mean[k];
		out += here * r->width;
		n -= here;
		from = 0;
	}
}

static void add_rows(const qn_rows *r, double sign, double *sum)
{
	for (size_t p = 0; p < r->n; p++)
		for (int64_t i = 0; i < r->count[p]; i++)
			for (int64_t k = 0; k < r->width; k++)
				sum[k] += sign * (double)r->piece[p][i * r->width + k];
}

void qn_rows_mean(qn_arena *scratch, const qn_rows *a, const qn_rows *b, float *mean)
{
	double *sum = QN_NEW(scratch, double, a->width);
	add_rows(a, 1, sum);
	if (b)
		add_rows(b, -1, sum);
	for (int64_t k = 0; k < a->width; k++)
		mean[k] = a->rows ? (float)(sum[k] / (double)a->rows) : 0;
}
