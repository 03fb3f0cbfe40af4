/* config_json.c - configurations read from JSON, field by field of the list. */
#include "passes/config_fields.h"
#include "passes/json.h"
#include "passes/preset.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_BYTES = 4 << 20 };

/* Where in a file: for messages and for what was already given. */
typedef struct reader {
	quern_config *c;
	qn_arena *scratch;
	const char *name;     /* of the file */
	bool *given;          /* by field: one field under both of its names is given twice */
	qn_config_part part;
	const char *group;    /* "" or "histogram" */
} reader;

/* "bit.queryActBits" */
static const char *place(const reader *r, const char *key)
{
	return qn_arena_printf(r->scratch, "%s%s%s.%.200s", qn_part_names[r->part], *r->group ? "." : "", r->group, key);
}

static qn_status wrong(const reader *r, const char *key, const cJSON *value, const char *allowed)
{
	const char *kind = cJSON_IsString(value) ? "the string " : "";
	QN_FAIL(r->c->ctx, QUERN_ERR_CONFIG, "'%s': '%s' cannot be %s%s; allowed: %s", r->name, place(r, key), kind, qn_json_show(r->scratch, value), allowed);
}

static qn_status layer_names(const reader *r, const char *key, const cJSON *list, qn_name_list *out)
{
	*out = (qn_name_list){0};
	if (!cJSON_IsArray(list))
		return wrong(r, key, list, "a list of layers");
	const cJSON *item;
	cJSON_ArrayForEach(item, list)
	{
		if (!cJSON_IsString(item) || !*item->valuestring)
			return wrong(r, key, item, "a list of layers, each a name that is not empty");
		QN_GROW(&r->c->arena, out->v, out->n, out->cap);
		out->v[out->n++] = qn_arena_strdup(&r->c->arena, item->valuestring);
	}
	return QUERN_OK;
}

static qn_status number(const reader *r, const qn_field *f, const cJSON *value)
{
	const char *range = qn_field_range(r->scratch, f);
	void *at = qn_field_at(r->c, f);
	if (f->kind == QN_FIELD_INT) {
		int64_t v;
		int64_t high = isinf(f->high) ? INT32_MAX : (int64_t)f->high;
		if (!qn_json_whole(value, (int64_t)f->low, high, &v))
			return wrong(r, value->string, value, qn_arena_printf(r->scratch, "a whole number, %s", range));
		*(int *)at = (int)v;
		return QUERN_OK;
	}
	if (!cJSON_IsNumber(value) || !(value->valuedouble >= f->low && value->valuedouble <= f->high))
		return wrong(r, value->string, value, qn_arena_printf(r->scratch, "a number, %s", range));
	*(double *)at = value->valuedouble;
	return QUERN_OK;
}

/* --- layerOverrides ----------------------------------------------------------------------------------------------------- */
/* The field whose value a parameter replaces. */
static const qn_field *parameter_field(const reader *r, const char *name)
{
	const qn_field *f = qn_field_find(r->part, "", name);
	for (int i = 0; f && i < QN_OVERRIDE_COUNT; i++)
		if (!strcmp(f->json, qn_override_names[i]))
			return f;
	return NULL;
}

static void set_override(quern_config *c, const char *parameter, double value, const qn_name_list *layers)
{
	qn_calibration_config *k = &c->calibration;
	qn_layer_override *old = k->overrides;
	size_t n = 0;
	k->overrides = QN_NEW(&c->arena, qn_layer_override, k->n_overrides + 1); /* a new list: a merge that fails goes back to the old one */
	for (size_t i = 0; i < k->n_overrides; i++)
		if (old[i].value < value || old[i].value > value || strcmp(old[i].parameter, parameter))
			k->overrides[n++] = old[i];
	k->overrides[n++] = (qn_layer_override){parameter, value, *layers};
	k->n_overrides = k->cap_overrides = n;
}

static qn_status override_value(const reader *r, const qn_field *f, const cJSON *entry)
{
	char *end;
	double v = strtod(entry->string, &end);
	const char *key = qn_arena_printf(r->scratch, "layerOverrides.%s.%.100s", f->json, entry->string);
	if (*end || end == entry->string || !(v >= f->low && v <= f->high))
		QN_FAIL(r->c->ctx, QUERN_ERR_CONFIG, "'%s': '%s': '%.100s' is no value of %s; allowed: a number, %s", r->name, place(r, key), entry->string, f->json,
			qn_field_range(r->scratch, f));
	qn_name_list layers;
	QN_TRY(layer_names(r, key, entry, &layers));
	for (int i = 0; i < QN_OVERRIDE_COUNT; i++)
		if (!strcmp(qn_override_names[i], f->json))
			set_override(r->c, qn_override_names[i], v, &layers);
	return QUERN_OK;
}

static qn_status overrides(const reader *r, const cJSON *value)
{
	if (!cJSON_IsObject(value))
		return wrong(r, value->string, value, "an object: parameter -> value -> list of layers");
	const cJSON *parameter, *entry;
	cJSON_ArrayForEach(parameter, value)
	{
		const qn_field *f = parameter_field(r, parameter->string);
		const char *near = f ? NULL : qn_nearest(parameter->string, qn_override_names, QN_OVERRIDE_COUNT);
		if (!f)
			QN_FAIL(r->c->ctx, QUERN_ERR_CONFIG, "'%s': '%s' has no parameter '%.100s'%s%s%s; allowed: actScaleMin, weightScaleMin, minclipRatio",
				r->name, place(r, "layerOverrides"), parameter->string, near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
		if (!cJSON_IsObject(parameter))
			return wrong(r, qn_arena_printf(r->scratch, "layerOverrides.%s", f->json), parameter, "an object: value -> list of layers");
		cJSON_ArrayForEach(entry, parameter)
			QN_TRY(override_value(r, f, entry));
	}
	return QUERN_OK;
}

/* --- layers --------------------------------------------------------------------------------------------------------------- */
static qn_status pin_width(const reader *r, const char *layer, const cJSON *width, int *weight_bits, int *act_bits)
{
	static const char *const names[] = {"weightBits", "actBits", "weight_bits", "act_bits"};
	int *const to[] = {weight_bits, act_bits, weight_bits, act_bits};
	const char *key = qn_arena_printf(r->scratch, "layers.%.100s.%.100s", layer, width->string);
	for (size_t i = 0; i < QN_LEN(names); i++) {
		if (strcmp(width->string, names[i]))
			continue;
		int64_t v;
		if (!qn_json_whole(width, 1, INT32_MAX, &v))
			return wrong(r, key, width, "a whole number, 1 or more");
		if (*to[i])
			QN_FAIL(r->c->ctx, QUERN_ERR_CONFIG, "'%s': '%s' is given under both of its names", r->name, place(r, key));
		*to[i] = (int)v;
		return QUERN_OK;
	}
	const char *near = qn_nearest(width->string, names, QN_LEN(names));
	QN_FAIL(r->c->ctx, QUERN_ERR_CONFIG, "'%s': '%s' (%s) is not known%s%s%s; allowed: weightBits and actBits, whole numbers, 1 or more", r->name,
		place(r, key), qn_json_show(r->scratch, width), near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static qn_status layers(const reader *r, const cJSON *value)
{
	if (!cJSON_IsObject(value))
		return wrong(r, value->string, value, "an object: layer -> {\"weightBits\": W, \"actBits\": A}");
	const cJSON *layer, *width;
	cJSON_ArrayForEach(layer, value)
	{
		const char *key = qn_arena_printf(r->scratch, "layers.%.100s", layer->string);
		int weight_bits = 0, act_bits = 0;
		if (!*layer->string)
			QN_FAIL(r->c->ctx, QUERN_ERR_CONFIG, "'%s': '%s': an empty name matches no layer", r->name, place(r, "layers"));
		if (!cJSON_IsObject(layer) || !layer->child)
			return wrong(r, key, layer, "an object with weightBits, actBits or both");
		cJSON_ArrayForEach(width, layer)
			QN_TRY(pin_width(r, layer->string, width, &weight_bits, &act_bits));
		qn_config_pin(r->c, layer->string, weight_bits, act_bits);
	}
	return QUERN_OK;
}

/* --- fields --------------------------------------------------------------------------------------------------------------- */
static qn_status field(const reader *r, const qn_field *f, const cJSON *value)
{
	void *at = qn_field_at(r->c, f);
	if (r->given[f - qn_fields])
		QN_FAIL(r->c->ctx, QUERN_ERR_CONFIG, "'%s': '%s' is given twice, as '%s' and '%s'", r->name, place(r, value->string), f->json, f->snake);
	r->given[f - qn_fields] = true;
	switch (f->kind) {
	case QN_FIELD_INT:
	case QN_FIELD_NUMBER:
		return number(r, f, value);
	case QN_FIELD_BOOL:
		if (!cJSON_IsBool(value))
			return wrong(r, value->string, value, "true or false");
		*(bool *)at = cJSON_IsTrue(value);
		return QUERN_OK;
	case QN_FIELD_PATH:
		if (!cJSON_IsString(value))
			return wrong(r, value->string, value, "a file name, \"\" for none");
		*(const char **)at = *value->valuestring ? qn_arena_strdup(&r->c->arena, value->valuestring) : NULL;
		return QUERN_OK;
	case QN_FIELD_NAMES:
		return layer_names(r, value->string, value, at);
	case QN_FIELD_OVERRIDES:
		return overrides(r, value);
	case QN_FIELD_LAYERS:
		return layers(r, value);
	case QN_FIELD_PRESET:
		for (int i = 0; cJSON_IsString(value) && i < QN_PRESET_COUNT; i++)
			if (!strcmp(value->valuestring, qn_preset_names[i])) {
				*(int *)at = i;
				return QUERN_OK;
			}
		return wrong(r, value->string, value, "small, balanced or accurate, \"\" for none");
	}
	return QUERN_OK;
}

/* Whether the part has fields in a group of that name. */
static bool is_group(qn_config_part part, const char *name)
{
	size_t n = strlen(name);
	for (size_t i = 0; i < qn_field_count; i++)
		if (qn_fields[i].part == part && !strncmp(qn_fields[i].json, name, n) && qn_fields[i].json[n] == '.')
			return true;
	return false;
}

/* The known name next to `key`, among those that could stand there. */
static qn_status unknown(const reader *r, const cJSON *value)
{
	size_t n = 0, group = strlen(r->group);
	const char **names = QN_NEW(r->scratch, const char *, qn_field_count * 3);
	for (size_t i = 0; i < qn_field_count; i++) {
		const qn_field *f = &qn_fields[i];
		const char *dot = strchr(f->json, '.');
		if (f->part != r->part)
			continue;
		if (dot && !group)
			names[n++] = qn_arena_strndup(r->scratch, f->json, (size_t)(dot - f->json));
		else if (!group || (dot && (size_t)(dot - f->json) == group && !memcmp(f->json, r->group, group)))
			names[n++] = dot ? dot + 1 : f->json;
		if (!group)
			names[n++] = f->snake;
	}
	const char *near = qn_nearest(value->string, names, n);
	const qn_field *f = near ? qn_field_find(r->part, r->group, near) : NULL;
	QN_FAIL(r->c->ctx, QUERN_ERR_CONFIG, "'%s': '%s' (%s) is not known%s%s%s%s%s%s", r->name, place(r, value->string), qn_json_show(r->scratch, value),
		near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "", f ? " (" : "", f ? qn_field_range(r->scratch, f) : "", f ? ")" : "");
}

static qn_status members(const reader *r, const cJSON *object)
{
	const cJSON *value;
	cJSON_ArrayForEach(value, object)
	{
		const qn_field *f = qn_field_find(r->part, r->group, value->string);
		if (f) {
			QN_TRY(field(r, f, value));
		} else if (!*r->group && is_group(r->part, value->string)) {
			reader inner = *r;
			inner.group = value->string;
			if (!cJSON_IsObject(value))
				return wrong(r, value->string, value, "an object");
			QN_TRY(members(&inner, value));
		} else {
			return unknown(r, value);
		}
	}
	return QUERN_OK;
}

static qn_status merge(reader *r, const cJSON *file)
{
	if (!cJSON_IsObject(file))
		QN_FAIL(r->c->ctx, QUERN_ERR_CONFIG, "'%s' holds %s; a configuration is an object {\"calibration\": {...}, \"bit\": {...}, \"gptq\": {...}}", r->name,
			qn_json_kind(file));
	const cJSON *part;
	cJSON_ArrayForEach(part, file)
	{
		r->part = QN_PART_COUNT;
		for (int i = 0; i < QN_PART_COUNT; i++)
			if (!strcmp(part->string, qn_part_names[i]))
				r->part = (qn_config_part)i;
		const char *near = r->part < QN_PART_COUNT ? NULL : qn_nearest(part->string, qn_part_names, QN_PART_COUNT);
		if (r->part == QN_PART_COUNT)
			QN_FAIL(r->c->ctx, QUERN_ERR_CONFIG, "'%s': '%.200s' is not known%s%s%s; a configuration has calibration, bit and gptq", r->name, part->string,
				near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
		if (!cJSON_IsObject(part))
			QN_FAIL(r->c->ctx, QUERN_ERR_CONFIG, "'%s': '%s' cannot be %s; allowed: an object", r->name, part->string,
				qn_json_show(r->scratch, part));
		QN_TRY(members(r, part));
	}
	for (size_t i = 0; i < qn_field_count; i++)
		r->c->embedding_asked |= r->given[i] && qn_field_at(r->c, &qn_fields[i]) == &r->c->embedding_bits;
	const qn_calibration_config *k = &r->c->calibration;
	if (k->hist_search_percentile_min > k->hist_search_percentile_max)
		QN_FAIL(r->c->ctx, QUERN_ERR_CONFIG, "'%s': 'calibration.histogram.searchPercentileMin' (%.17g) is over searchPercentileMax (%.17g); "
			"allowed: at most that", r->name, k->hist_search_percentile_min, k->hist_search_percentile_max);
	return QUERN_OK;
}

/* `file` or, where it is NULL, `text` is merged; a failure leaves all as it was. */
static quern_status take(quern_config *c, const char *name, const char *text)
{
	qn_arena scratch;
	qn_arena_init(&scratch, c->ctx);
	quern_config before = *c;
	jmp_buf buf, *saved = c->ctx->on_memory;
	const cJSON *tree;
	qn_status status;
	c->ctx->on_memory = &buf;
	if (setjmp(buf)) {
		status = qn_fail(c->ctx, QUERN_ERR_MEMORY, "out of memory while reading '%s'", name);
	} else {
		if (!text)
			qn_source_note_path(c->ctx, name);
		status = text ? qn_json_parse(c->ctx, &scratch, name, text, strlen(text), &tree) : qn_json_read(c->ctx, &scratch, name, MOST_BYTES, &tree);
		reader r = {.c = c, .scratch = &scratch, .name = name, .given = QN_NEW(&scratch, bool, qn_field_count), .group = ""};
		if (status == QUERN_OK)
			status = merge(&r, tree);
	}
	if (status != QUERN_OK) {
		before.arena = c->arena;
		*c = before;
	}
	c->ctx->on_memory = saved;
	qn_arena_release(&scratch);
	return status;
}

quern_status quern_config_read(quern_config *c, const char *path) { return take(c, path, NULL); }

quern_status quern_config_parse(quern_config *c, const char *json, const char *name) { return take(c, name, json); }
