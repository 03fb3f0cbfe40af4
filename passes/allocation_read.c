/* allocation_read.c - allocation files checked against their format, key by key. */
#include "passes/allocation.h"
#include "passes/json_keys.h"
#include "passes/stats.h"
#include "passes/tune/curve_json.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_BYTES = 512 << 20, MOST_PARTS = 64 };

static const char *role_of(int i) { return qn_role_name((qn_role)i); }
static const char *form_of(int i) { return qn_form_name((qn_form)i); }
static const char *origin_of(int i) { return qn_origin_name((qn_origin)i); }
static const char *rounding_of(int i) { return qn_rounding_name((qn_rounding)i); }

static qn_status take_role(const qn_reader *r, const cJSON *v, qn_role *to)
{
	int i;
	QN_TRY(qn_read_choice(r, v, role_of, QN_ROLE_QUERY, QN_ROLE_COUNT, &i));
	*to = (qn_role)i;
	return QUERN_OK;
}

/* --- parts of a fused weight ---------------------------------------------------------------------------------------------- */
static qn_status part_role(const qn_reader *r, const cJSON *v, void *to) { return take_role(r, v, &((qn_allocated_part *)to)->role); }

static qn_status part_rows(const qn_reader *r, const cJSON *v, void *to)
{
	qn_allocated_part *p = to;
	const char *allowed = "a list of [FROM, TO], rows FROM to TO - 1, ascending";
	const cJSON *run;
	size_t cap = 0;
	int64_t last = 0;
	if (!cJSON_IsArray(v) || !v->child)
		return qn_read_wrong(r, v, allowed);
	cJSON_ArrayForEach(run, v)
	{
		qn_row_run n;
		if (!cJSON_IsArray(run) || !run->child || !qn_json_whole(run->child, last, INT64_C(1) << 52, &n.from) || !run->child->next ||
			!qn_json_whole(run->child->next, n.from + 1, INT64_C(1) << 52, &n.to) || run->child->next->next)
			return qn_read_wrong(r, v, allowed);
		QN_GROW(r->a, p->runs, p->n_runs, cap);
		p->runs[p->n_runs++] = n;
		last = n.to;
	}
	return QUERN_OK;
}

static qn_status part_bits(const qn_reader *r, const cJSON *v, void *to)
{
	return qn_read_int(r, v, 1, INT32_MAX, &((qn_allocated_part *)to)->weight_bits);
}

static const qn_key part_keys[] = {{"role", true, part_role}, {"rows", true, part_rows}, {"weightBits", true, part_bits}};

/* --- what a layer cost ------------------------------------------------------------------------------------------------------ */
static qn_status error_number(const qn_reader *r, const cJSON *v, void *to)
{
	qn_layer_error *e = to;
	double *fields[] = {&e->cosine, &e->sqnr, &e->largest};
	if (!cJSON_IsNumber(v))
		return qn_read_wrong(r, v, "a number");
	for (int i = 0; i < QN_LAYER_ERRORS; i++)
		if (!strcmp(v->string, qn_layer_error_names[i]))
			*fields[i] = v->valuedouble;
	return QUERN_OK;
}

/* --- a layer ------------------------------------------------------------------------------------------------------------------ */
#define TAKE(name) static qn_status take_##name(const qn_reader *r, const cJSON *v, void *to)
#define LAYER ((qn_allocated *)to)

TAKE(name)
{
	return cJSON_IsString(v) && *v->valuestring ? qn_read_text(r, v, &LAYER->name) : qn_read_wrong(r, v, "a name");
}
TAKE(weight) { return qn_read_text(r, v, &LAYER->weight); }
TAKE(layer_role) { return take_role(r, v, &LAYER->role); }
TAKE(weight_bits) { return qn_read_int(r, v, 1, INT32_MAX, &LAYER->weight_bits); }
TAKE(act_bits) { return qn_read_int(r, v, 1, INT32_MAX, &LAYER->act_bits); }
TAKE(scale_bits) { return qn_read_int(r, v, 1, QN_MOST_ACT_BITS, &LAYER->scale_bits); }
TAKE(zero_point) { return qn_read_int(r, v, -65536, 65536, &LAYER->act_zero_point); }
TAKE(act_scale) { return qn_read_float(r, v, true, &LAYER->act_scale); }
TAKE(scale_min) { return qn_read_float(r, v, true, &LAYER->weight_scale_min); }
TAKE(form) { return qn_read_choice(r, v, form_of, 0, QN_FORM_F32 + 1, &LAYER->form); }

TAKE(block)
{
	LAYER->has_block = true;
	return qn_read_int(r, v, -1, INT32_MAX, &LAYER->block);
}

TAKE(origin)
{
	int i;
	(void)to;
	return qn_read_choice(r, v, origin_of, 0, QN_FROM_FALLBACK + 1, &i);
}

TAKE(reason)
{
	const char *text;
	(void)to;
	return qn_read_text(r, v, &text);
}

TAKE(shape)
{
	const cJSON *d;
	LAYER->rank = 0;
	cJSON_ArrayForEach(d, v)
	{
		if (LAYER->rank == QN_MAX_RANK || !qn_json_whole(d, 0, INT64_C(1) << 52, &LAYER->shape[LAYER->rank++]))
			return qn_read_wrong(r, v, "a list of dims");
	}
	return cJSON_IsArray(v) ? QUERN_OK : qn_read_wrong(r, v, "a list of dims");
}

TAKE(range)
{
	const char *allowed = "[LOW, HIGH], two numbers, LOW at most HIGH";
	if (!cJSON_IsArray(v) || cJSON_GetArraySize(v) != 2 || !cJSON_IsNumber(v->child) || !cJSON_IsNumber(v->child->next) ||
		v->child->valuedouble > v->child->next->valuedouble)
		return qn_read_wrong(r, v, allowed);
	LAYER->has_range = true;
	QN_TRY(qn_read_float(r, v->child, false, &LAYER->act_low));
	return qn_read_float(r, v->child->next, false, &LAYER->act_high);
}

/* A list, or the name of a layer that has the same ones. */
static qn_status take_factors(const qn_reader *r, const cJSON *v, qn_allocated_factors *to)
{
	if (cJSON_IsString(v))
		return qn_read_text(r, v, &to->of);
	float *f;
	const char *allowed = "a list of numbers from 1e-12 to 1e12, or the name of a layer above";
	QN_TRY(qn_read_floats(r, v, allowed, &f, &to->n));
	for (int64_t i = 0; i < to->n; i++)
		if (f[i] < QN_LEAST_FACTOR || f[i] > QN_MOST_FACTOR)
			return qn_read_wrong(r, v, allowed);
	to->v = f;
	return QUERN_OK;
}

TAKE(balance) { return take_factors(r, v, &LAYER->balance); }
TAKE(equalized) { return take_factors(r, v, &LAYER->equalized); }

TAKE(parts)
{
	if (!cJSON_IsArray(v) || !v->child || cJSON_GetArraySize(v) > MOST_PARTS)
		return qn_read_wrong(r, v, "a list of parts");
	LAYER->parts = QN_NEW(r->a, qn_allocated_part, cJSON_GetArraySize(v));
	const cJSON *item;
	cJSON_ArrayForEach(item, v)
		QN_TRY(qn_read_object(r, item, part_keys, QN_LEN(part_keys), &LAYER->parts[LAYER->n_parts++]));
	return QUERN_OK;
}

TAKE(error)
{
	qn_key keys[QN_LAYER_ERRORS];
	for (int i = 0; i < QN_LAYER_ERRORS; i++)
		keys[i] = (qn_key){qn_layer_error_names[i], false, error_number};
	qn_layer_error *e = QN_NEW(r->a, qn_layer_error, 1);
	*e = (qn_layer_error){NAN, NAN, NAN};
	LAYER->error = e;
	return qn_read_object(r, v, keys, QN_LEN(keys), e);
}

static const qn_key layer_keys[] = {{"name", true, take_name}, {"weight", false, take_weight}, {"role", false, take_layer_role}, {"block", false, take_block},
	{"shape", false, take_shape}, {"weightBits", true, take_weight_bits}, {"weightForm", false, take_form}, {"weightScaleMin", false, take_scale_min},
	{"parts", false, take_parts}, {"actBits", true, take_act_bits}, {"actScale", false, take_act_scale}, {"actZeroPoint", false, take_zero_point},
	{"actRange", false, take_range}, {"scaleBits", false, take_scale_bits}, {"balance", false, take_balance}, {"equalized", false, take_equalized},
	{"origin", false, take_origin},
	{"reason", false, take_reason}, {"error", false, take_error}};

/* --- the file ------------------------------------------------------------------------------------------------------------------- */
#define FILE_OF ((qn_allocation *)to)

TAKE(format)
{
	(void)to;
	return cJSON_IsString(v) && !strcmp(v->valuestring, "quern-allocation") ? QUERN_OK : qn_read_wrong(r, v, "\"quern-allocation\"");
}

TAKE(version)
{
	int n;
	(void)to;
	return qn_read_int(r, v, QN_ALLOCATION_VERSION, QN_ALLOCATION_VERSION, &n);
}

TAKE(model_file) { return qn_read_text(r, v, &FILE_OF->file); }
TAKE(fingerprint) { return qn_read_text(r, v, &FILE_OF->fingerprint); }

TAKE(model)
{
	static const qn_key keys[] = {{"file", false, take_model_file}, {"fingerprint", true, take_fingerprint}};
	qn_reader inner = *r;
	inner.where = "model";
	return qn_read_object(&inner, v, keys, QN_LEN(keys), to);
}

TAKE(rounding) { return qn_read_choice(r, v, rounding_of, 0, QN_ROUND_GPTQ + 1, &FILE_OF->rounding); }

TAKE(percentile)
{
	if (!cJSON_IsNumber(v) || !(v->valuedouble > 0 && v->valuedouble <= 1))
		return qn_read_wrong(r, v, "a number over 0, at most 1");
	FILE_OF->percentile = v->valuedouble;
	return QUERN_OK;
}

TAKE(dynamic)
{
	if (!cJSON_IsBool(v))
		return qn_read_wrong(r, v, "true or false");
	FILE_OF->dynamic_activations = cJSON_IsTrue(v);
	return QUERN_OK;
}

TAKE(equalize)
{
	if (!cJSON_IsBool(v))
		return qn_read_wrong(r, v, "true or false");
	FILE_OF->equalize = cJSON_IsTrue(v);
	return QUERN_OK;
}

TAKE(quantize_outputs)
{
	if (!cJSON_IsBool(v))
		return qn_read_wrong(r, v, "true or false");
	FILE_OF->quantize_outputs = cJSON_IsTrue(v);
	return QUERN_OK;
}

/* A zero point is one of the codes: beyond them 0 has no code and a whole layer could become one number. */
static qn_status check_zero_point(const qn_reader *r, const cJSON *item, const qn_allocated *l)
{
	int bits = l->scale_bits ? l->scale_bits : l->act_bits;
	int64_t most = INT64_C(1) << ((bits < QN_MOST_ACT_BITS ? bits : QN_MOST_ACT_BITS) - 1);
	if (bits > QN_MOST_ACT_BITS || llabs(l->act_zero_point) <= most)
		return QUERN_OK;
	return qn_read_wrong(r, cJSON_GetObjectItemCaseSensitive(item, "actZeroPoint"), qn_arena_printf(r->a, "%lld to %lld at %d bits", (long long)-most,
		(long long)most, bits));
}

TAKE(layers)
{
	if (!cJSON_IsArray(v))
		return qn_read_wrong(r, v, "a list of layers");
	const cJSON *item;
	size_t i = 0;
	cJSON_ArrayForEach(item, v)
	{
		const cJSON *name = cJSON_GetObjectItemCaseSensitive(item, "name");
		qn_reader inner = *r;
		i++;
		inner.where = cJSON_IsString(name) ? qn_arena_printf(r->a, "layer '%.320s'", name->valuestring) : qn_arena_printf(r->a, "layer %zu", i);
		QN_GROW(r->a, FILE_OF->layers, FILE_OF->n, FILE_OF->cap);
		qn_allocated *l = &FILE_OF->layers[FILE_OF->n++];
		*l = (qn_allocated){.rank = -1, .form = -1};
		QN_TRY(qn_read_object(&inner, item, layer_keys, QN_LEN(layer_keys), l));
		QN_TRY(check_zero_point(&inner, item, l));
	}
	return QUERN_OK;
}

/* --- graph outputs ---------------------------------------------------------------------------------------------------------------- */
#define OUTPUT ((qn_output_scales *)to)

TAKE(output_name) { return qn_read_text(r, v, &OUTPUT->name); }

TAKE(output_scale) { return qn_read_floats(r, v, "a list of numbers over 0", &OUTPUT->scale, &OUTPUT->n); }

TAKE(output_zero_point)
{
	const cJSON *item;
	int64_t n = 0;
	OUTPUT->zero_point = QN_NEW(r->a, int, cJSON_IsArray(v) ? cJSON_GetArraySize(v) : 0);
	if (!cJSON_IsArray(v) || cJSON_GetArraySize(v) != OUTPUT->n)
		return qn_read_wrong(r, v, "a list as long as 'scale', after it");
	cJSON_ArrayForEach(item, v)
		QN_TRY(qn_read_int(r, item, -65536, 65536, &OUTPUT->zero_point[n++]));
	return QUERN_OK;
}

TAKE(outputs)
{
	static const qn_key keys[] = {{"name", true, take_output_name}, {"scale", true, take_output_scale}, {"zeroPoint", true, take_output_zero_point}};
	const cJSON *item;
	if (!cJSON_IsArray(v))
		return qn_read_wrong(r, v, "a list of graph outputs");
	FILE_OF->outputs = QN_NEW(r->a, qn_output_scales, cJSON_GetArraySize(v) + 1);
	cJSON_ArrayForEach(item, v)
	{
		qn_reader inner = *r;
		inner.where = qn_arena_printf(r->a, "output %zu", FILE_OF->n_outputs + 1);
		QN_TRY(qn_read_object(&inner, item, keys, QN_LEN(keys), &FILE_OF->outputs[FILE_OF->n_outputs++]));
	}
	return QUERN_OK;
}

TAKE(tuning)
{
	FILE_OF->tuning = QN_NEW(r->a, qn_tuning, 1);
	return qn_tuning_read(r, v, FILE_OF->tuning);
}

static const qn_key file_keys[] = {{"format", true, take_format}, {"version", true, take_version}, {"model", true, take_model}, {"rounding", false, take_rounding},
	{"percentile", false, take_percentile}, {"dynamicActivations", false, take_dynamic}, {"quantizeOutputs", false, take_quantize_outputs},
	{"equalize", false, take_equalize},
	{"layers", true, take_layers},
	{"outputs", false, take_outputs}, {"tuning", false, take_tuning}};

static qn_status from_tree(qn_ctx *ctx, qn_arena *a, const char *path, const cJSON *tree, qn_allocation **out)
{
	qn_reader r = {ctx, a, path, ""};
	qn_allocation *f = QN_NEW(a, qn_allocation, 1);
	*f = (qn_allocation){.path = qn_arena_strdup(a, path), .file = "", .rounding = QN_ROUND_MSE, .percentile = 1};
	*out = f;
	return qn_read_object(&r, tree, file_keys, QN_LEN(file_keys), f);
}

qn_status qn_allocation_read(qn_ctx *ctx, qn_arena *a, const char *path, qn_allocation **out)
{
	const cJSON *tree;
	QN_TRY(qn_json_read(ctx, a, path, MOST_BYTES, &tree));
	return from_tree(ctx, a, path, tree, out);
}

qn_status qn_allocation_parse(qn_ctx *ctx, qn_arena *a, const char *name, const char *text, size_t n, qn_allocation **out)
{
	const cJSON *tree;
	QN_TRY(qn_json_parse(ctx, a, name, text, n, &tree));
	return from_tree(ctx, a, name, tree, out);
}
