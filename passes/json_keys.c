/* json_keys.c - objects read key by key; what is wrong is said with the file, the place and what is allowed. */
#include "passes/json_keys.h"

#include <math.h>

/* "'x.json', layer 'y'" */
static const char *at(const qn_reader *r) { return qn_arena_printf(r->a, "'%s'%s%s", r->path, *r->where ? ", " : "", r->where); }

qn_status qn_read_wrong(const qn_reader *r, const cJSON *v, const char *allowed)
{
	QN_FAIL(r->ctx, QUERN_ERR_CONFIG, "%s: '%s' cannot be %s%s; allowed: %s", at(r), v->string ? v->string : "an item",
		cJSON_IsString(v) ? "the string " : "", qn_json_show(r->a, v), allowed);
}

qn_status qn_read_object(const qn_reader *r, const cJSON *o, const qn_key *keys, size_t n, void *to)
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

qn_status qn_read_text(const qn_reader *r, const cJSON *v, const char **to)
{
	if (!cJSON_IsString(v))
		return qn_read_wrong(r, v, "a string");
	*to = v->valuestring; /* the tree lives in the same arena */
	return QUERN_OK;
}

qn_status qn_read_int(const qn_reader *r, const cJSON *v, int64_t low, int64_t high, int *to)
{
	int64_t n;
	if (!qn_json_whole(v, low, high, &n))
		return qn_read_wrong(r, v, high == INT32_MAX ? qn_arena_printf(r->a, "a whole number, %lld or more", (long long)low) :
			qn_arena_printf(r->a, "a whole number, %lld..%lld", (long long)low, (long long)high));
	*to = (int)n;
	return QUERN_OK;
}

qn_status qn_read_float(const qn_reader *r, const cJSON *v, bool positive, float *to)
{
	float f = cJSON_IsNumber(v) ? (float)v->valuedouble : NAN;
	if (!isfinite(f) || (positive && !(f > 0)))
		return qn_read_wrong(r, v, positive ? "a number over 0 that a 32-bit float holds" : "a number that a 32-bit float holds");
	*to = f;
	return QUERN_OK;
}

qn_status qn_read_floats(const qn_reader *r, const cJSON *v, const char *allowed, float **to, int64_t *n)
{
	const cJSON *item;
	if (!cJSON_IsArray(v) || !v->child)
		return qn_read_wrong(r, v, allowed);
	*to = QN_NEW(r->a, float, cJSON_GetArraySize(v));
	*n = 0;
	cJSON_ArrayForEach(item, v)
		if (qn_read_float(r, item, true, &(*to)[(*n)++]) != QUERN_OK)
			return qn_read_wrong(r, v, allowed);
	return QUERN_OK;
}

/* One of names[first..n-1]; *to is its place. */
qn_status qn_read_choice(const qn_reader *r, const cJSON *v, const char *(*name_of)(int), int first, int n, int *to)
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
	return qn_read_wrong(r, v, qn_arena_printf(r->a, "%s%s%s%s", all.s, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : ""));
}
