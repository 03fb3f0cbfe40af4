/* allocation_read.c - allocation files checked against their format, key by key. */
#include "passes/allocation.h"
#include "passes/json.h"
#include "passes/stats.h"

#include <math.h>

enum { MOST_BYTES = 512 << 20, MOST_PARTS = 64 };

typedef struct reader {
	qn_ctx *ctx;
	qn_arena *a;
	const char *path;
	const char *where; /* "", "model", "layer 'x'" */
} reader;

typedef struct key {
	const char *name;
	bool needed;
	qn_status (*take)(const reader *r, const cJSON *v, void *to);
} key;

/* "'x.json', layer 'y'" */
static const char *at(const reader *r) { return qn_arena_printf(r->a, "'%s'%s%s", r->path, *r->where ? ", " : "", r->where); }

static qn_status wrong(const reader *r, const cJSON *v, const char *allowed)
{
	QN_FAIL(r->ctx, QUERN_ERR_CONFIG, "%s: '%s' cannot be %s%s; allowed: %s", at(r), v->string ? v->string : "an item",
		cJSON_IsString(v) ? "the string " : "", qn_json_show(r->a, v), allowed);
}

static qn_status object(const reader *r, const cJSON *o, const key *keys, size_t n, void *to)
{
	if (!cJSON_IsObject(o))
		QN_FAIL(r->ctx, QUERN_ERR_CONFIG, "%s: %s where an object is needed", at(r), qn_json_kind(o));
	for (size_t i = 0; i < n; i++)
		if (keys[i].needed && !cJSON_GetObjectItemCaseSensitive(o, keys[i].name))
			QN_FAIL(r->ctx, QUERN_ERR_CONFIG, "%s: '%s' is missing", at(r), keys[i].name);
	const cJSON *v;
	cJSON_ArrayForEach(v, o)
	{
		size_t i = 0;
		while (i < n && strcmp(keys[i].name, v->string))
			i++;
		if (i < n) {
			QN_TRY(keys[i].take(r, v, to));
			continue;
		}
		const char **names = QN_NEW(r->a, const char *, n);
		for (size_t k = 0; k < n; k++)
			names[k] = keys[k].name;
		const char *near = qn_nearest(v->string, names, n);
		QN_FAIL(r->ctx, QUERN_ERR_CONFIG, "%s: '%.200s' (%s) is not known%s%s%s", at(r), v->string, qn_json_show(r->a, v),
			near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
	}
	return QUERN_OK;
}

static qn_status take_text(const reader *r, const cJSON *v, const char **to)
{
	if (!cJSON_IsString(v))
		return wrong(r, v, "a string");
	*to = v->valuestring; /* the tree lives in the same arena */
	return QUERN_OK;
}

static qn_status take_int(const reader *r, const cJSON *v, int64_t low, int64_t high, int *to)
{
	int64_t n;
	if (!qn_json_whole(v, low, high, &n))
		return wrong(r, v, high == INT32_MAX ? qn_arena_printf(r->a, "a whole number, %lld or more", (long long)low) :
			qn_arena_printf(r->a, "a whole number, %lld..%lld", (long long)low, (long long)high));
	*to = (int)n;
	return QUERN_OK;
}

static qn_status take_float(const reader *r, const cJSON *v, bool positive, float *to)
{
	float f = cJSON_IsNumber(v) ? (float)v->valuedouble : NAN;
	if (!isfinite(f) || (positive && !(f > 0)))
		return wrong(r, v, positive ? "a number over 0 that a 32-bit float holds" : "a number that a 32-bit float holds");
	*to = f;
	return QUERN_OK;
}

static qn_status take_floats(const reader *r, const cJSON *v, const char *allowed, float **to, int64_t *n)
{
	const cJSON *item;
	if (!cJSON_IsArray(v) || !v->child)
		return wrong(r, v, allowed);
	*to = QN_NEW(r->a, float, cJSON_GetArraySize(v));
	*n = 0;
	cJSON_ArrayForEach(item, v)
		if (take_float(r, item, true, &(*to)[(*n)++]) != QUERN_OK)
			return wrong(r, v, allowed);
	return QUERN_OK;
}

/* One of names[first..n-1]; *to is its place. */
static qn_status take_choice(const reader *r, const cJSON *v, const char *(*name_of)(int), int first, int n, int *to)
{
	qn_text all = {.arena = r->a};
	const char **names = QN_NEW(r->a, const char *, n);
	for (int i = first; i < n; i++) {
		names[i - first] = name_of(i);
		qn_text_add(&all, "%s%s", i > first ? ", " : "", name_of(i));
		if (cJSON_IsString(v) && !strcmp(v->valuestring, name_of(i))) {
			*to = i;
			return QUERN_OK;
		}
	}
	const char *near = cJSON_IsString(v) ? qn_nearest(v->valuestring, names, (size_t)(n - first)) : NULL;
	return wrong(r, v, qn_arena_printf(r->a, "%s%s%s%s", all.s, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : ""));
}

static const char *role_of(int i) { return qn_role_name((qn_role)i); }
static const char *form_of(int i) { return qn_form_name((qn_form)i); }
static const char *origin_of(int i) { return qn_origin_name((qn_origin)i); }
static const char *rounding_of(int i) { return qn_rounding_name((qn_rounding)i); }

static qn_status take_role(const reader *r, const cJSON *v, qn_role *to)
{
	int i;
	QN_TRY(take_choice(r, v, role_of, QN_ROLE_QUERY, QN_ROLE_COUNT, &i));
	*to = (qn_role)i;
	return QUERN_OK;
}

/* --- parts of a fused weight ---------------------------------------------------------------------------------------------- */
static qn_status part_role(const reader *r, const cJSON *v, void *to) { return take_role(r, v, &((qn_allocated_part *)to)->role); }

static qn_status part_rows(const reader *r, const cJSON *v, void *to)
{
	qn_allocated_part *p = to;
	const char *allowed = "a list of [FROM, TO], rows FROM to TO - 1, ascending";
	const cJSON *run;
	size_t cap = 0;
	int64_t last = 0;
	if (!cJSON_IsArray(v) || !v->child)
		return wrong(r, v, allowed);
	cJSON_ArrayForEach(run, v)
	{
		qn_row_run n;
		if (!cJSON_IsArray(run) || !run->child || !qn_json_whole(run->child, last, INT64_C(1) << 52, &n.from) || !run->child->next ||
			!qn_json_whole(run->child->next, n.from + 1, INT64_C(1) << 52, &n.to) || run->child->next->next)
			return wrong(r, v, allowed);
		QN_GROW(r->a, p->runs, p->n_runs, cap);
		p->runs[p->n_runs++] = n;
		last = n.to;
	}
	return QUERN_OK;
}

static qn_status part_bits(const reader *r, const cJSON *v, void *to)
{
	return take_int(r, v, 1, INT32_MAX, &((qn_allocated_part *)to)->weight_bits);
}

static const key part_keys[] = {{"role", true, part_role}, {"rows", true, part_rows}, {"weightBits", true, part_bits}};

/* --- what a layer cost ------------------------------------------------------------------------------------------------------ */
static qn_status error_number(const reader *r, const cJSON *v, void *to)
{
	qn_layer_error *e = to;
	double *fields[] = {&e->cosine, &e->sqnr, &e->largest};
	if (!cJSON_IsNumber(v))
		return wrong(r, v, "a number");
	for (int i = 0; i < QN_LAYER_ERRORS; i++)
		if (!strcmp(v->string, qn_layer_error_names[i]))
			*fields[i] = v->valuedouble;
	return QUERN_OK;
}

/* --- a layer ------------------------------------------------------------------------------------------------------------------ */
#define TAKE(name) static qn_status take_##name(const reader *r, const cJSON *v, void *to)
#define LAYER ((qn_allocated *)to)

TAKE(name)
{
	return cJSON_IsString(v) && *v->valuestring ? take_text(r, v, &LAYER->name) : wrong(r, v, "a name");
}
TAKE(weight) { return take_text(r, v, &LAYER->weight); }
TAKE(layer_role) { return take_role(r, v, &LAYER->role); }
TAKE(weight_bits) { return take_int(r, v, 1, INT32_MAX, &LAYER->weight_bits); }
TAKE(act_bits) { return take_int(r, v, 1, INT32_MAX, &LAYER->act_bits); }
TAKE(scale_bits) { return take_int(r, v, 1, QN_MOST_ACT_BITS, &LAYER->scale_bits); }
TAKE(zero_point) { return take_int(r, v, -65536, 65536, &LAYER->act_zero_point); }
TAKE(act_scale) { return take_float(r, v, true, &LAYER->act_scale); }
TAKE(scale_min) { return take_float(r, v, true, &LAYER->weight_scale_min); }
TAKE(form) { return take_choice(r, v, form_of, 0, QN_FORM_F32 + 1, &LAYER->form); }

TAKE(block)
{
	LAYER->has_block = true;
	return take_int(r, v, -1, INT32_MAX, &LAYER->block);
}

TAKE(origin)
{
	int i;
	(void)to;
	return take_choice(r, v, origin_of, 0, QN_FROM_FALLBACK + 1, &i);
}

TAKE(reason)
{
	const char *text;
	(void)to;
	return take_text(r, v, &text);
}

TAKE(shape)
{
	const cJSON *d;
	LAYER->rank = 0;
	cJSON_ArrayForEach(d, v)
	{
		if (LAYER->rank == QN_MAX_RANK || !qn_json_whole(d, 0, INT64_C(1) << 52, &LAYER->shape[LAYER->rank++]))
			return wrong(r, v, "a list of dims");
	}
	return cJSON_IsArray(v) ? QUERN_OK : wrong(r, v, "a list of dims");
}

TAKE(range)
{
	const char *allowed = "[LOW, HIGH], two numbers, LOW at most HIGH";
	if (!cJSON_IsArray(v) || cJSON_GetArraySize(v) != 2 || !cJSON_IsNumber(v->child) || !cJSON_IsNumber(v->child->next) ||
		v->child->valuedouble > v->child->next->valuedouble)
		return wrong(r, v, allowed);
	LAYER->has_range = true;
	QN_TRY(take_float(r, v->child, false, &LAYER->act_low));
	return take_float(r, v->child->next, false, &LAYER->act_high);
}

TAKE(balance)
{
	if (cJSON_IsString(v))
		return take_text(r, v, &LAYER->balance_of);
	float *f;
	QN_TRY(take_floats(r, v, "a list of numbers over 0, or the name of a layer above", &f, &LAYER->balance_n));
	LAYER->balance = f;
	return QUERN_OK;
}

TAKE(parts)
{
	if (!cJSON_IsArray(v) || !v->child || cJSON_GetArraySize(v) > MOST_PARTS)
		return wrong(r, v, "a list of parts");
	LAYER->parts = QN_NEW(r->a, qn_allocated_part, cJSON_GetArraySize(v));
	const cJSON *item;
	cJSON_ArrayForEach(item, v)
		QN_TRY(object(r, item, part_keys, QN_LEN(part_keys), &LAYER->parts[LAYER->n_parts++]));
	return QUERN_OK;
}

TAKE(error)
{
	key keys[QN_LAYER_ERRORS];
	for (int i = 0; i < QN_LAYER_ERRORS; i++)
		keys[i] = (key){qn_layer_error_names[i], false, error_number};
	qn_layer_error *e = QN_NEW(r->a, qn_layer_error, 1);
	*e = (qn_layer_error){NAN, NAN, NAN};
	LAYER->error = e;
	return object(r, v, keys, QN_LEN(keys), e);
}

static const key layer_keys[] = {{"name", true, take_name}, {"weight", false, take_weight}, {"role", false, take_layer_role}, {"block", false, take_block},
	{"shape", false, take_shape}, {"weightBits", true, take_weight_bits}, {"weightForm", false, take_form}, {"weightScaleMin", false, take_scale_min},
	{"parts", false, take_parts}, {"actBits", true, take_act_bits}, {"actScale", false, take_act_scale}, {"actZeroPoint", false, take_zero_point},
	{"actRange", false, take_range}, {"scaleBits", false, take_scale_bits}, {"balance", false, take_balance}, {"origin", false, take_origin},
	{"reason", false, take_reason}, {"error", false, take_error}};

/* --- the file ------------------------------------------------------------------------------------------------------------------- */
#define FILE_OF ((qn_allocation *)to)

TAKE(format)
{
	(void)to;
	return cJSON_IsString(v) && !strcmp(v->valuestring, "quern-allocation") ? QUERN_OK : wrong(r, v, "\"quern-allocation\"");
}

TAKE(version)
{
	int n;
	(void)to;
	return take_int(r, v, QN_ALLOCATION_VERSION, QN_ALLOCATION_VERSION, &n);
}

TAKE(model_file) { return take_text(r, v, &FILE_OF->file); }
TAKE(fingerprint) { return take_text(r, v, &FILE_OF->fingerprint); }

TAKE(model)
{
	static const key keys[] = {{"file", false, take_model_file}, {"fingerprint", true, take_fingerprint}};
	reader inner = *r;
	inner.where = "model";
	return object(&inner, v, keys, QN_LEN(keys), to);
}

TAKE(rounding) { return take_choice(r, v, rounding_of, 0, QN_ROUND_GPTQ + 1, &FILE_OF->rounding); }

TAKE(percentile)
{
	if (!cJSON_IsNumber(v) || !(v->valuedouble > 0 && v->valuedouble <= 1))
		return wrong(r, v, "a number over 0, at most 1");
	FILE_OF->percentile = v->valuedouble;
	return QUERN_OK;
}

TAKE(dynamic)
{
	if (!cJSON_IsBool(v))
		return wrong(r, v, "true or false");
	FILE_OF->dynamic_activations = cJSON_IsTrue(v);
	return QUERN_OK;
}

TAKE(layers)
{
	if (!cJSON_IsArray(v))
		return wrong(r, v, "a list of layers");
	const cJSON *item;
	size_t i = 0;
	cJSON_ArrayForEach(item, v)
	{
		const cJSON *name = cJSON_GetObjectItemCaseSensitive(item, "name");
		reader inner = *r;
		i++;
		inner.where = cJSON_IsString(name) ? qn_arena_printf(r->a, "layer '%.320s'", name->valuestring) : qn_arena_printf(r->a, "layer %zu", i);
		QN_GROW(r->a, FILE_OF->layers, FILE_OF->n, FILE_OF->cap);
		qn_allocated *l = &FILE_OF->layers[FILE_OF->n++];
		*l = (qn_allocated){.rank = -1, .form = -1};
		QN_TRY(object(&inner, item, layer_keys, QN_LEN(layer_keys), l));
	}
	return QUERN_OK;
}

/* --- graph outputs ---------------------------------------------------------------------------------------------------------------- */
#define OUTPUT ((qn_output_scales *)to)

TAKE(output_name) { return take_text(r, v, &OUTPUT->name); }

TAKE(output_scale) { return take_floats(r, v, "a list of numbers over 0", &OUTPUT->scale, &OUTPUT->n); }

TAKE(output_zero_point)
{
	const cJSON *item;
	int64_t n = 0;
	OUTPUT->zero_point = QN_NEW(r->a, int, cJSON_IsArray(v) ? cJSON_GetArraySize(v) : 0);
	if (!cJSON_IsArray(v) || cJSON_GetArraySize(v) != OUTPUT->n)
		return wrong(r, v, "a list as long as 'scale', after it");
	cJSON_ArrayForEach(item, v)
		QN_TRY(take_int(r, item, -65536, 65536, &OUTPUT->zero_point[n++]));
	return QUERN_OK;
}

TAKE(outputs)
{
	static const key keys[] = {{"name", true, take_output_name}, {"scale", true, take_output_scale}, {"zeroPoint", true, take_output_zero_point}};
	const cJSON *item;
	if (!cJSON_IsArray(v))
		return wrong(r, v, "a list of graph outputs");
	FILE_OF->outputs = QN_NEW(r->a, qn_output_scales, cJSON_GetArraySize(v) + 1);
	cJSON_ArrayForEach(item, v)
	{
		reader inner = *r;
		inner.where = qn_arena_printf(r->a, "output %zu", FILE_OF->n_outputs + 1);
		QN_TRY(object(&inner, item, keys, QN_LEN(keys), &FILE_OF->outputs[FILE_OF->n_outputs++]));
	}
	return QUERN_OK;
}

static const key file_keys[] = {{"format", true, take_format}, {"version", true, take_version}, {"model", true, take_model}, {"rounding", false, take_rounding},
	{"percentile", false, take_percentile}, {"dynamicActivations", false, take_dynamic}, {"layers", true, take_layers},
	{"outputs", false, take_outputs}};

static qn_status from_tree(qn_ctx *ctx, qn_arena *a, const char *path, const cJSON *tree, qn_allocation **out)
{
	reader r = {ctx, a, path, ""};
	qn_allocation *f = QN_NEW(a, qn_allocation, 1);
	*f = (qn_allocation){.path = qn_arena_strdup(a, path), .file = "", .rounding = QN_ROUND_MSE, .percentile = 1};
	*out = f;
	return object(&r, tree, file_keys, QN_LEN(file_keys), f);
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
