/* curve_json.c - a tuning written and read back. */
#include "passes/tune/curve_json.h"

#include <math.h>

static const char *const measures[] = {"cosine", "kl"};
static const char *measure_of(int i) { return measures[i]; }

static void add_point(qn_text *t, const qn_curve_point *p)
{
	qn_text_add(t, "{ \"bytes\": %llu, \"bits\": ", (unsigned long long)p->bytes);
	qn_json_double(t, p->bits);
	qn_text_add(t, ", \"error\": ");
	qn_json_double(t, p->error);
	if (isfinite(p->measured)) {
		qn_text_add(t, ", \"measured\": ");
		qn_json_double(t, p->measured);
	}
	if (p->changed) {
		qn_text_add(t, ", \"changed\": ");
		qn_json_string(t, p->changed);
		qn_text_add(t, ", \"weightBits\": %d", p->weight_bits);
	}
	qn_text_add(t, " }");
}

void qn_tuning_write(const qn_tuning *u, qn_text *t)
{
	qn_text_add(t, "{ \"measure\": \"%s\", \"samples\": %zu, \"chosen\": ", u->measure, u->samples);
	add_point(t, &u->chosen);
	qn_text_add(t, ",\n    \"curve\": [");
	for (size_t i = 0; i < u->n; i++) {
		qn_text_add(t, i ? ",\n      " : "\n      ");
		add_point(t, &u->points[i]);
	}
	qn_text_add(t, " ] }");
}

/* --- reading ---------------------------------------------------------------------------------------------------------------- */
#define TAKE(name) static qn_status take_##name(const qn_reader *r, const cJSON *v, void *to)
#define POINT ((qn_curve_point *)to)
#define TUNING ((qn_tuning *)to)

static qn_status number(const qn_reader *r, const cJSON *v, double *to)
{
	if (!cJSON_IsNumber(v))
		return qn_read_wrong(r, v, "a number");
	*to = v->valuedouble;
	return QUERN_OK;
}

static qn_status whole(const qn_reader *r, const cJSON *v, uint64_t *to)
{
	int64_t n;
	if (!qn_json_whole(v, 0, INT64_C(1) << 52, &n))
		return qn_read_wrong(r, v, "a whole number, 0 or more");
	*to = (uint64_t)n;
	return QUERN_OK;
}

TAKE(bytes) { return whole(r, v, &POINT->bytes); }
TAKE(bits) { return number(r, v, &POINT->bits); }
TAKE(error) { return number(r, v, &POINT->error); }
TAKE(measured) { return number(r, v, &POINT->measured); }
TAKE(changed) { return qn_read_text(r, v, &POINT->changed); }
TAKE(weight_bits) { return qn_read_int(r, v, 1, INT32_MAX, &POINT->weight_bits); }

static const qn_key point_keys[] = {{"bytes", true, take_bytes}, {"bits", true, take_bits}, {"error", true, take_error}, {"measured", false, take_measured},
	{"changed", false, take_changed}, {"weightBits", false, take_weight_bits}};

static qn_status point(const qn_reader *r, const cJSON *v, qn_curve_point *p)
{
	*p = (qn_curve_point){.measured = NAN};
	return qn_read_object(r, v, point_keys, QN_LEN(point_keys), p);
}

TAKE(measure)
{
	int i;
	QN_TRY(qn_read_choice(r, v, measure_of, 0, (int)QN_LEN(measures), &i));
	TUNING->measure = measures[i];
	return QUERN_OK;
}

TAKE(samples)
{
	uint64_t n;
	QN_TRY(whole(r, v, &n));
	TUNING->samples = (size_t)n;
	return QUERN_OK;
}

TAKE(chosen) { return point(r, v, &TUNING->chosen); }

TAKE(curve)
{
	const cJSON *item;
	if (!cJSON_IsArray(v))
		return qn_read_wrong(r, v, "a list of points");
	cJSON_ArrayForEach(item, v)
	{
		qn_reader inner = *r;
		inner.where = qn_arena_printf(r->a, "tuning, point %zu", TUNING->n + 1);
		QN_GROW(r->a, TUNING->points, TUNING->n, TUNING->cap);
		QN_TRY(point(&inner, item, &TUNING->points[TUNING->n++]));
	}
	return QUERN_OK;
}

static const qn_key tuning_keys[] = {{"measure", true, take_measure}, {"samples", true, take_samples}, {"chosen", true, take_chosen},
	{"curve", true, take_curve}};

qn_status qn_tuning_read(const qn_reader *r, const cJSON *v, void *to)
{
	qn_reader inner = *r;
	inner.where = "tuning";
	return qn_read_object(&inner, v, tuning_keys, QN_LEN(tuning_keys), to);
}
