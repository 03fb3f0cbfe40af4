/* report.c - what a narrow form could not hold, counted without regard to order. */
#include "passes/quant/q4_block.h"

#include <math.h>
#include <omp.h>

void qn_report_init(qn_quant_report *r)
{
	*r = (qn_quant_report){.first_bad = -1, .first_weak = -1};
}

static int64_t earlier(int64_t a, int64_t b)
{
	if (a < 0 || b < 0)
		return a < 0 ? b : a;
	return a < b ? a : b;
}

static void widen(qn_quant_report *r, float low, float high)
{
	if (low > 0 && (r->scale_min == 0 || low < r->scale_min))
		r->scale_min = low;
	if (high > r->scale_max)
		r->scale_max = high;
}

void qn_report_scale(qn_quant_report *r, int64_t index, float exact, uint16_t stored, bool any)
{
	unsigned magnitude = stored & 0x7fffu;
	bool too_large = magnitude >= 0x7c00u || fabsf(exact) >= 65520; /* the least that rounds to infinity */
	r->scales++;
	if (magnitude >= 0x400u && !too_large) {
		float s = fabsf(qn_f16_to_f32(stored));
		widen(r, s, s);
		return;
	}
	bool flushed = magnitude == 0 && (any || exact != 0);
	if (too_large)
		r->overflowed++;
	else if (magnitude)
		r->subnormal++;
	else if (flushed)
		r->flushed++;
	if (magnitude || flushed || too_large)
		r->first_weak = earlier(r->first_weak, index);
	if (magnitude && magnitude < 0x7c00u) {
		float s = fabsf(qn_f16_to_f32(stored));
		widen(r, s, s);
	}
}

void qn_report_usual(qn_quant_report *r, int64_t n, uint16_t least, uint16_t most)
{
	r->scales += n;
	widen(r, qn_f16_to_f32(least), qn_f16_to_f32(most));
}

void qn_report_bad(qn_quant_report *r, const float *v, int64_t n, int64_t first)
{
	for (int64_t i = 0; i < n; i++) {
		if (isfinite(v[i]))
			continue;
		r->bad_values++;
		r->first_bad = earlier(r->first_bad, first + i);
	}
}

void qn_report_merge(qn_quant_report *into, const qn_quant_report *from)
{
	into->scales += from->scales;
	into->bad_values += from->bad_values;
	into->overflowed += from->overflowed;
	into->subnormal += from->subnormal;
	into->flushed += from->flushed;
	into->first_bad = earlier(into->first_bad, from->first_bad);
	into->first_weak = earlier(into->first_weak, from->first_weak);
	widen(into, from->scale_min, from->scale_max);
}

qn_status qn_quant_check(qn_ctx *ctx, const char *name, const qn_quant_report *r, bool strict)
{
	if (r->bad_values)
		QN_FAIL(ctx, QUERN_ERR_NUMERIC, "tensor '%s': %lld values are NaN or infinite, the first at flat index %lld", name,
			(long long)r->bad_values, (long long)r->first_bad);
	if (r->overflowed)
		QN_FAIL(ctx, QUERN_ERR_NUMERIC,
			"tensor '%s': %lld of %lld stored numbers are too large for f16 (largest 65504), the first is number %lld; use f32",
			name, (long long)r->overflowed, (long long)r->scales, (long long)r->first_weak);
	if (strict && r->subnormal + r->flushed)
		QN_FAIL(ctx, QUERN_ERR_NUMERIC,
			"tensor '%s': %lld of %lld stored numbers are too small for f16 (%lld of them became 0), the first is number %lld; "
			"use f32",
			name, (long long)(r->subnormal + r->flushed), (long long)r->scales, (long long)r->flushed,
			(long long)r->first_weak);
	return QUERN_OK;
}

qn_status qn_report_give(qn_ctx *ctx, const qn_quant_report *r, qn_quant_report *out)
{
	if (!out)
		return qn_quant_check(ctx, "weights", r, true);
	*out = *r;
	return QUERN_OK;
}

int qn_quant_threads(const qn_ctx *ctx)
{
	return ctx->threads > 0 ? ctx->threads : omp_get_max_threads();
}

void qn_quant_error(qn_ctx *ctx, const float *exact, const float *got, int64_t n, double *signal, double *noise)
{
	enum { PARTS = 256 };
	double s[PARTS], e[PARTS];
#pragma omp parallel for schedule(static) num_threads(qn_quant_threads(ctx)) if (n > 1 << 16)
	for (int p = 0; p < PARTS; p++) {
		int64_t end = n / PARTS * (p + 1) + (p == PARTS - 1 ? n % PARTS : 0);
		double sum = 0, error = 0;
		for (int64_t i = n / PARTS * p; i < end; i++) {
			double d = (double)exact[i] - (double)got[i];
			sum += (double)exact[i] * (double)exact[i];
			error += d * d;
		}
		s[p] = sum;
		e[p] = error;
	}
	*signal = *noise = 0;
	for (int p = 0; p < PARTS; p++) {
		*signal += s[p];
		*noise += e[p];
	}
}

double qn_snr_db(double signal, double noise)
{
	return noise == 0 ? INFINITY : 10 * log10(signal / noise);
}
