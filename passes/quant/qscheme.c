/* qscheme.c - one f16 scale for each group of values: calibration, codes and back. */
#include "passes/quant/qscheme.h"

#include <math.h>
#include <omp.h>

qn_status qn_guarded(qn_ctx *ctx, qn_status (*fn)(qn_ctx *ctx, qn_arena *scratch, void *args), void *args)
{
	jmp_buf buf, *saved = ctx->on_memory;
	qn_arena scratch;
	volatile qn_status status = QUERN_OK;
	qn_arena_init(&scratch, ctx);
	if (setjmp(buf)) {
		status = qn_fail(ctx, QUERN_ERR_MEMORY, "out of memory");
	} else {
		ctx->on_memory = &buf;
		status = fn(ctx, &scratch, args);
	}
	ctx->on_memory = saved;
	qn_arena_release(&scratch);
	return status;
}

qn_status qn_floats_take(qn_ctx *ctx, qn_arena *a, const quern_floats *f, const float **values, int64_t *count)
{
	if (f->type != QUERN_F32 && f->type != QUERN_F16)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "element type %d is neither f32 nor f16", (int)f->type);
	if (f->rank < 0 || f->rank > QN_MAX_RANK)
		QN_FAIL(ctx, QUERN_ERR_SHAPE, "rank %d out of range: 0 to %d", f->rank, QN_MAX_RANK);
	int64_t n = 1;
	size_t bytes;
	for (int i = 0; i < f->rank; i++)
		if (f->dim[i] < 0 || __builtin_mul_overflow(n, f->dim[i], &n))
			QN_FAIL(ctx, QUERN_ERR_SHAPE, "axis %d of %lld items: negative, or the product of the axes overflows", i,
				(long long)f->dim[i]);
	if (!qn_dtype_bytes(QN_F32, n, &bytes))
		QN_FAIL(ctx, QUERN_ERR_SHAPE, "the product of the axes overflows");
	*count = n;
	*values = f->data;
	if (f->type == QUERN_F16 || (uintptr_t)f->data % sizeof(float)) {
		float *copy = QN_NEW(a, float, n);
		qn_convert(f->data, f->type == QUERN_F16 ? QN_F16 : QN_F32, copy, QN_F32, n);
		*values = copy;
	}
	return QUERN_OK;
}

void qn_report_public(const qn_quant_report *r, quern_scale_report *out)
{
	*out = (quern_scale_report){r->scales, r->subnormal, r->flushed, r->first_weak, r->scale_min, r->scale_max};
}

void qn_report_warn(qn_ctx *ctx, const char *what, const qn_quant_report *r)
{
	if (r->subnormal || r->flushed)
		qn_log(ctx, QUERN_LOG_WARN,
			"%s: %lld of %lld stored numbers are too small for f16: %lld lost bits, %lld became 0; the first is number %lld",
			what, (long long)(r->subnormal + r->flushed), (long long)r->scales, (long long)r->subnormal, (long long)r->flushed,
			(long long)r->first_weak);
}

/* --- making ------------------------------------------------------------------------------------------ */

static qn_status scheme_alloc(qn_ctx *ctx, int bits, int64_t group, int64_t n, quern_qscheme **out)
{
	size_t bytes;
	if (bits < 1 || bits > 8)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "n_bits %d out of range: 1 to 8", bits);
	if (group < 1)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "group size %lld out of range: 1 or more", (long long)group);
	if (n < 0 || !qn_mul_size((size_t)n, sizeof(uint16_t), &bytes) || !qn_add_size(bytes, sizeof(quern_qscheme), &bytes))
		QN_FAIL(ctx, QUERN_ERR_SHAPE, "%lld groups: negative, or too many for memory", (long long)n);
	quern_qscheme *s = qn_heap(ctx, NULL, 0, bytes);
	*s = (quern_qscheme){.ctx = ctx, .bytes = bytes, .bits = bits, .group = group, .n = n};
	qn_report_init(&s->report);
	*out = s;
	return QUERN_OK;
}

typedef struct making {
	const quern_floats *values;
	const uint16_t *scales;
	const quern_qscheme *from;
	int bits;
	int64_t group, n;
	double number; /* percentile or factor */
	quern_qscheme **out;
} making;

static qn_status make(qn_ctx *ctx, qn_status (*fn)(qn_ctx *ctx, qn_arena *scratch, void *args), making *m)
{
	*m->out = NULL;
	qn_status status = qn_guarded(ctx, fn, m);
	if (status != QUERN_OK) {
		quern_qscheme_free(*m->out);
		*m->out = NULL;
	}
	return status;
}

/* Copies given scales, each divided by the factor, and looks at what f16 makes of them. */
static qn_status from_scales(qn_ctx *ctx, qn_arena *scratch, void *args)
{
	(void)scratch;
	making *m = args;
	float factor = (float)m->number;
	if (!isfinite(factor) || factor == 0)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "scale factor %g is no finite number other than 0", m->number);
	QN_TRY(scheme_alloc(ctx, m->bits, m->group, m->n, m->out));
	quern_qscheme *s = *m->out;
	for (int64_t i = 0; i < s->n; i++) {
		float exact = qn_f16_to_f32(m->scales[i]) / factor;
		if (isnan(exact))
			QN_FAIL(ctx, QUERN_ERR_NUMERIC, "scale %lld is NaN", (long long)i);
		s->scale[i] = factor == 1 ? m->scales[i] : qn_f32_to_f16(exact);
		qn_report_scale(&s->report, i, exact, s->scale[i], false);
	}
	return qn_quant_check(ctx, "scheme", &s->report, false);
}

static void calibrate_group(quern_qscheme *s, const float *v, int64_t g, float rank, float *magnitude, qn_quant_report *r)
{
	float most = 0;
	bool finite = true;
	for (int64_t i = 0; i < s->group; i++) {
		float a = fabsf(v[i]);
		finite &= a < INFINITY;
		most = a > most ? a : most;
		if (magnitude)
			magnitude[i] = a;
	}
	if (!finite)
		qn_report_bad(r, v, s->group, g * s->group);
	float x = finite && magnitude ? qn_quantile(magnitude, s->group, rank) : most;
	float exact = finite ? x / -(float)(1 << (s->bits - 1)) : 0;
	s->scale[g] = qn_f32_to_f16(exact);
	qn_report_scale(r, g, exact, s->scale[g], finite && most != 0);
}

static qn_status min_max(qn_ctx *ctx, qn_arena *scratch, void *args)
{
	making *m = args;
	const float *v;
	int64_t count;
	if (!(m->number > 0 && m->number <= 1))
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "percentile %g out of range: above 0, at most 1", m->number);
	QN_TRY(qn_floats_take(ctx, scratch, m->values, &v, &count));
	if (m->group > 0 && count % m->group)
		QN_FAIL(ctx, QUERN_ERR_SHAPE, "%lld values are no whole number of groups of %lld", (long long)count, (long long)m->group);
	QN_TRY(scheme_alloc(ctx, m->bits, m->group, m->group > 0 ? count / m->group : 0, m->out));
	quern_qscheme *s = *m->out;
	float rank = (float)m->number * (float)(s->group - 1);
	int threads = qn_quant_threads(ctx);
	float *magnitude = m->number < 1 ? qn_arena_array(scratch, (size_t)threads * (size_t)s->group, sizeof(float)) : NULL;
	qn_quant_report all = s->report;
#pragma omp parallel num_threads(threads) if (count > 1 << 14)
	{
		qn_quant_report r;
		qn_report_init(&r);
		float *mine = magnitude ? magnitude + omp_get_thread_num() * s->group : NULL;
#pragma omp for schedule(static) nowait
		for (int64_t g = 0; g < s->n; g++)
			calibrate_group(s, v + g * s->group, g, rank, mine, &r);
#pragma omp critical(qn_quant_report)
		qn_report_merge(&all, &r);
	}
	s->report = all;
	return qn_quant_check(ctx, "values", &all, false);
}

quern_status quern_qscheme_new(
	quern_context *c, int n_bits, int64_t group_size, const uint16_t *scales, int64_t n_groups, quern_qscheme **out)
{
	making m = {.scales = scales, .bits = n_bits, .group = group_size, .n = n_groups, .number = 1, .out = out};
	return make(&c->ctx, from_scales, &m);
}

quern_status quern_qscheme_divided(const quern_qscheme *s, double factor, quern_qscheme **out)
{
	making m = {.scales = s->scale, .bits = s->bits, .group = s->group, .n = s->n, .number = factor, .out = out};
	return make(s->ctx, from_scales, &m);
}

quern_status quern_qscheme_min_max(
	quern_context *c, const quern_floats *values, int n_bits, int64_t group_size, double percentile, quern_qscheme **out)
{
	making m = {.values = values, .bits = n_bits, .group = group_size, .number = percentile, .out = out};
	QN_TRY(make(&c->ctx, min_max, &m));
	qn_report_warn(&c->ctx, "q-tensor", &(*out)->report);
	return QUERN_OK;
}

void quern_qscheme_free(quern_qscheme *s)
{
	if (s)
		qn_heap(s->ctx, s, s->bytes, 0);
}

int quern_qscheme_bits(const quern_qscheme *s)
{
	return s->bits;
}
int64_t quern_qscheme_group_size(const quern_qscheme *s)
{
	return s->group;
}
int64_t quern_qscheme_groups(const quern_qscheme *s)
{
	return s->n;
}
const uint16_t *quern_qscheme_scales(const quern_qscheme *s)
{
	return s->scale;
}
void quern_qscheme_report(const quern_qscheme *s, quern_scale_report *out)
{
	qn_report_public(&s->report, out);
}

/* --- use --------------------------------------------------------------------------------------------- */

static qn_status check_count(const quern_qscheme *s, int64_t count)
{
	int64_t want;
	if (__builtin_mul_overflow(s->n, s->group, &want) || count != want)
		QN_FAIL(s->ctx, QUERN_ERR_SHAPE, "%lld values for a scheme of %lld groups of %lld", (long long)count, (long long)s->n,
			(long long)s->group);
	return QUERN_OK;
}

typedef struct coding {
	const quern_qscheme *scheme;
	const quern_floats *values;
	uint8_t *codes;
} coding;

static qn_status quantize(qn_ctx *ctx, qn_arena *scratch, void *args)
{
	coding *c = args;
	const quern_qscheme *s = c->scheme;
	const float *v;
	int64_t count, bad = -1;
	QN_TRY(qn_floats_take(ctx, scratch, c->values, &v, &count));
	QN_TRY(check_count(s, count));
	for (int64_t i = 0; i < count && bad < 0; i++)
		if (!isfinite(v[i]))
			bad = i;
	if (bad >= 0)
		QN_FAIL(ctx, QUERN_ERR_NUMERIC, "value %lld is %s", (long long)bad, isnan(v[bad]) ? "NaN" : "infinite");
	int threads = qn_quant_threads(ctx);
#pragma omp parallel for schedule(static) num_threads(threads) if (count > 1 << 14)
	for (int64_t g = 0; g < s->n; g++)
		qn_group_codes(v + g * s->group, s->group, s->scale[g], s->bits, c->values->type == QUERN_F16, c->codes + g * s->group);
	return QUERN_OK;
}

quern_status quern_qscheme_quantize(const quern_qscheme *scheme, const quern_floats *values, uint8_t *codes)
{
	coding c = {scheme, values, codes};
	return qn_guarded(scheme->ctx, quantize, &c);
}

static bool host_is_arm(void)
{
#if defined(__arm__) || defined(__aarch64__)
	return true;
#else
	return false;
#endif
}

quern_status quern_qscheme_dequantize(
	const quern_qscheme *s, const uint8_t *codes, int64_t n, quern_machine machine, quern_element type, float *values)
{
	QN_TRY(check_count(s, n));
	bool half = type == QUERN_F16 || machine == QUERN_MACHINE_ARM || (machine == QUERN_MACHINE_HOST && host_is_arm());
	int middle = 1 << (s->bits - 1), threads = qn_quant_threads(s->ctx);
#pragma omp parallel for schedule(static) num_threads(threads) if (n > 1 << 14)
	for (int64_t g = 0; g < s->n; g++) {
		float scale = qn_f16_to_f32(s->scale[g]);
		for (int64_t i = g * s->group; i < (g + 1) * s->group; i++) {
			float v = (float)(codes[i] - middle) * scale;
			values[i] = half ? qn_f16_to_f32(qn_f32_to_f16(v)) : v;
		}
	}
	return QUERN_OK;
}
