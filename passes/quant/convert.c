/* convert.c - one .npy file to one .dat file. */
#include "graph/npy.h"
#include "passes/quant/qscheme.h"

#include <math.h>
#include <unistd.h>

typedef enum form { FORM_Q4_0, FORM_Q4_0_LEGACY, FORM_Q8_1, FORM_I8, FORM_F16, FORM_F32, FORMS } form;
static const char *const form_names[FORMS] = {"q4_0", "q4_0-legacy", "q8_1", "i8", "f16", "f32"};
static const char *const rounding_names[] = {[QN_ROUND_MINMAX] = "minmax", [QN_ROUND_SIGNED] = "signed", [QN_ROUND_MSE] = "mse"};

typedef struct job {
	const char *npy, *dat;
	const quern_convert_options *options;
	quern_convert_summary *summary;
	form form;
	qn_rounding rounding;
	qn_tensor in;
	const float *w; /* the values as f32 */
	int64_t count, rows;
	qn_quant_report report;
} job;

void quern_convert_defaults(quern_convert_options *o)
{
	*o = (quern_convert_options){.format = "q4_0", .percentile = 1};
}

static qn_status pick(qn_ctx *ctx, const char *what, const char *name, const char *const *names, size_t n, int *out)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(name, names[i])) {
			*out = (int)i;
			return QUERN_OK;
		}
	qn_text all = {0};
	qn_arena a;
	qn_arena_init(&a, ctx);
	all.arena = &a;
	for (size_t i = 0; i < n; i++)
		qn_text_add(&all, "%s%s", i ? ", " : "", names[i]);
	const char *near = qn_nearest(name, names, n);
	qn_status status = qn_fail(ctx, QUERN_ERR_CONFIG, "%s '%s' is not known%s%s%s; there are %s", what, name,
		near ? ", did you mean '" : "", near ? near : "", near ? "'" : "", all.s);
	qn_arena_release(&a);
	return status;
}

static bool is_q4(form f)
{
	return f == FORM_Q4_0 || f == FORM_Q4_0_LEGACY;
}

static qn_status check_options(qn_ctx *ctx, job *j)
{
	const quern_convert_options *o = j->options;
	int number = 0, rounding = QN_ROUND_SIGNED;
	QN_TRY(pick(ctx, "format", o->format, form_names, FORMS, &number));
	j->form = (form)number;
	if (o->rounding)
		QN_TRY(pick(ctx, "rounding", o->rounding, rounding_names, QN_LEN(rounding_names), &rounding));
	j->rounding = (qn_rounding)rounding;
	if (o->rounding && !is_q4(j->form))
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "rounding '%s' is for q4_0, format '%s' has one rule of its own", o->rounding, o->format);
	if (!(o->percentile > 0 && o->percentile <= 1))
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "percentile %g out of range: above 0, at most 1", o->percentile);
	if (o->percentile != 1 && (!is_q4(j->form) || j->rounding != QN_ROUND_MINMAX))
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "percentile %g needs rounding 'minmax' of q4_0", o->percentile);
	int least = is_q4(j->form) ? 1 : 2, most = is_q4(j->form) ? 4 : 8;
	if (o->bits && !is_q4(j->form) && j->form != FORM_I8)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "bits %d: format '%s' has a fixed width", o->bits, o->format);
	if (o->bits && (o->bits < least || o->bits > most))
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "bits %d out of range for %s: %d to %d", o->bits, o->format, least, most);
	return QUERN_OK;
}

static qn_status load(qn_ctx *ctx, qn_arena *a, job *j)
{
	QN_TRY(qn_npy_load(ctx, a, j->npy, &j->in));
	if (!qn_dtype_is_float(j->in.type))
		QN_FAIL(ctx, QUERN_ERR_UNSUPPORTED, "'%s' holds %s; only float arrays are quantized", j->npy, qn_dtype_name(j->in.type));
	size_t bytes;
	j->count = qn_tensor_count(&j->in);
	if (!qn_dtype_bytes(QN_F32, j->count, &bytes))
		QN_FAIL(ctx, QUERN_ERR_SHAPE, "'%s' is too large for memory", j->npy);
	int rank = j->in.rank;
	bool blocks = is_q4(j->form) || j->form == FORM_Q8_1;
	j->rows = rank ? j->in.dim[0] : 1;
	if (j->form == FORM_I8 && rank == 0)
		QN_FAIL(ctx, QUERN_ERR_SHAPE, "'%s' is a scalar; i8 needs an axis for its scales", j->npy);
	int64_t cols = j->rows ? j->count / j->rows : 0;
	if (blocks && (rank < 2 || cols % QN_BLOCK))
		QN_FAIL(ctx, QUERN_ERR_SHAPE,
			"'%s': %s needs at least 2 axes, those after the first a multiple of %d values (here %lld); use i8 or f16", j->npy,
			j->options->format, QN_BLOCK, (long long)(rank < 2 ? 0 : cols));
	j->w = qn_tensor_f32(a, &j->in);
	return QUERN_OK;
}

/* The tensor to store; its data is in the arena. *back: what it stands for. */
static qn_status encode(qn_ctx *ctx, qn_arena *a, job *j, qn_tensor *out, qn_tensor *scales, float **back)
{
	static const qn_dtype types[FORMS] = {QN_Q4_0, QN_Q4_0, QN_Q8_1, QN_I8, QN_F16, QN_F32};
	const quern_convert_options *o = j->options;
	int64_t cols = j->rows ? j->count / j->rows : 0;
	*out = j->in;
	out->type = types[j->form];
	uint8_t *data = qn_arena_alloc(a, qn_tensor_bytes(out));
	float *v = *back = QN_NEW(a, float, j->count);
	out->data = data;
	switch (j->form) {
	case FORM_Q4_0:
	case FORM_Q4_0_LEGACY: {
		qn_q4_opts q = {.percentile = o->percentile, .bits = o->bits, .half_source = j->in.type == QN_F16};
		QN_TRY(qn_quantize_q4_0(ctx, j->w, j->rows, cols, j->rounding, &q, data, &j->report));
		qn_dequantize_q4_0(ctx, data, j->count, false, v);
		break;
	}
	case FORM_Q8_1:
		QN_TRY(qn_quantize_q8_1(ctx, j->w, j->count, data, &j->report));
		qn_dequantize_q8_1(ctx, data, j->count, v);
		break;
	case FORM_I8: {
		float *s = QN_NEW(a, float, j->rows);
		*scales = (qn_tensor){.type = QN_F32, .rank = j->in.rank, .data = s};
		for (int i = 0; i < scales->rank; i++)
			scales->dim[i] = i ? 1 : j->rows;
		QN_TRY(qn_quantize_i8_rows(ctx, j->w, j->rows, cols, o->bits ? o->bits : 8, 0, (int8_t *)data, s, &j->report));
		for (int64_t i = 0; i < j->count; i++)
			v[i] = (float)(int8_t)data[i] * s[i / cols];
		break;
	}
	case FORM_F16:
		QN_TRY(qn_quantize_f16(ctx, j->w, j->count, (uint16_t *)(void *)data, &j->report));
		qn_convert(data, QN_F16, v, QN_F32, j->count);
		break;
	default:
		qn_report_init(&j->report);
		qn_report_bad(&j->report, j->w, j->count, 0);
		if (j->count) {
			memcpy(data, j->w, (size_t)j->count * sizeof *v);
			memcpy(v, j->w, (size_t)j->count * sizeof *v);
		}
	}
	return QUERN_OK;
}

/* f16 and f32 hold NaN and infinity as such, so they pass with a warning; elsewhere they, and scales beyond f16, are failures. */
static qn_status judge(qn_ctx *ctx, job *j)
{
	qn_quant_report r = j->report;
	if (j->form == FORM_F16 || j->form == FORM_F32) {
		if (r.bad_values)
			qn_log(ctx, QUERN_LOG_WARN, "'%s': %lld values are NaN or infinite, the first at flat index %lld", j->npy,
				(long long)r.bad_values, (long long)r.first_bad);
		r.bad_values = 0;
	}
	QN_TRY(qn_quant_check(ctx, j->npy, &r, false));
	qn_report_warn(ctx, j->npy, &r);
	return QUERN_OK;
}

/* OUT.dat gives OUT.scale.dat */
static const char *scales_path(qn_arena *a, const char *dat)
{
	size_t n = strlen(dat), stem = n > 4 && !strcmp(dat + n - 4, ".dat") ? n - 4 : n;
	return qn_arena_printf(a, "%.*s.scale.dat", (int)stem, dat);
}

static qn_status write_files(qn_ctx *ctx, qn_arena *a, const job *j, const qn_tensor *t, const qn_tensor *scales)
{
	uint8_t *file, *scale_file;
	size_t n, n_scales;
	QN_TRY(qn_dat_file(ctx, a, j->dat, t, j->form == FORM_Q4_0_LEGACY, &file, &n));
	if (j->form != FORM_I8)
		return qn_file_replace(ctx, a, j->dat, file, n);
	const char *path = scales_path(a, j->dat);
	QN_TRY(qn_dat_file(ctx, a, path, scales, false, &scale_file, &n_scales));
	QN_TRY(qn_file_replace(ctx, a, path, scale_file, n_scales));
	qn_status status = qn_file_replace(ctx, a, j->dat, file, n);
	if (status != QUERN_OK)
		unlink(path);
	return status;
}

static void summarize(qn_ctx *ctx, const job *j, const qn_tensor *t, const qn_tensor *scales, const float *back)
{
	double signal, noise;
	quern_convert_summary *s = j->summary;
	qn_quant_error(ctx, j->w, back, j->count, &signal, &noise);
	*s = (quern_convert_summary){.rank = j->in.rank,
		.source_type = qn_dtype_name(j->in.type),
		.source_bytes = qn_tensor_bytes(&j->in),
		.stored_bytes = qn_tensor_bytes(t) + (j->form == FORM_I8 ? qn_tensor_bytes(scales) : 0),
		.snr_db = qn_snr_db(signal, noise),
		.non_finite = j->report.bad_values,
		.scales_written = j->form == FORM_I8};
	memcpy(s->shape, j->in.dim, sizeof s->shape);
	qn_report_public(&j->report, &s->scales);
}

static qn_status convert(qn_ctx *ctx, qn_arena *a, void *args)
{
	job *j = args;
	qn_tensor stored, scales = {0};
	float *back;
	QN_TRY(check_options(ctx, j));
	QN_TRY(load(ctx, a, j));
	QN_TRY(encode(ctx, a, j, &stored, &scales, &back));
	QN_TRY(judge(ctx, j));
	QN_TRY(qn_source_spare(ctx, j->dat));
	if (j->form == FORM_I8)
		QN_TRY(qn_source_spare(ctx, scales_path(a, j->dat)));
	QN_TRY(write_files(ctx, a, j, &stored, &scales));
	if (j->summary)
		summarize(ctx, j, &stored, &scales, back);
	return QUERN_OK;
}

quern_status quern_convert_npy(
	quern_context *c, const char *npy_path, const char *dat_path, const quern_convert_options *options, quern_convert_summary *summary)
{
	job j = {.npy = npy_path, .dat = dat_path, .options = options, .summary = summary};
	return qn_guarded(&c->ctx, convert, &j);
}
