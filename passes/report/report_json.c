/* report_json.c - a report as JSON. A figure that is not known is left out; one without noise ("exact") is null, as in what quern eval prints. */
#include "passes/json.h"
#include "passes/report/escape.h"
#include "passes/report/report.h"
#include "passes/tune/curve.h"

#include <math.h>

/* An object's members, one after the other. */
typedef struct members {
	qn_text *t;
	bool any;
} members;

static void key(members *o, const char *name)
{
	qn_text_add(o->t, "%s\"%s\": ", o->any ? ", " : "", name);
	o->any = true;
}

static void string(members *o, const char *name, const char *v)
{
	if (!v)
		return;
	key(o, name);
	qn_report_json_string(o->t, v);
}

static void number(members *o, const char *name, double v)
{
	if (isnan(v))
		return;
	key(o, name);
	if (isinf(v))
		qn_text_add(o->t, "null");
	else
		qn_json_double(o->t, v);
}

static void whole(members *o, const char *name, long long v)
{
	key(o, name);
	qn_text_add(o->t, "%lld", v);
}

static void flag(members *o, const char *name, bool v)
{
	key(o, name);
	qn_text_add(o->t, v ? "true" : "false");
}

static void spread(members *o, const char *name, const qn_spread *p)
{
	key(o, name);
	qn_text_add(o->t, "{");
	members s = {o->t, false};
	number(&s, "tenth", p->low);
	number(&s, "median", p->median);
	number(&s, "nineTenths", p->high);
	key(&s, "largest");
	for (int i = 0; i < 5 && !isnan(p->top[i]); i++) {
		qn_text_add(o->t, i ? ", " : "[");
		qn_json_double(o->t, p->top[i]);
	}
	qn_text_add(o->t, "%s]}", isnan(p->top[0]) ? "[" : "");
}

static void layer(qn_text *t, const qn_report_layer *l)
{
	members o = {t, false};
	string(&o, "name", l->name);
	string(&o, "weight", l->weight);
	string(&o, "op", l->op);
	string(&o, "role", l->role);
	string(&o, "why", l->why);
	whole(&o, "block", l->block);
	flag(&o, "cross", l->cross);
	key(&o, "shape");
	for (int i = 0; i < l->rank; i++)
		qn_text_add(t, "%s%lld", i ? ", " : "[", (long long)l->shape[i]);
	qn_text_add(t, "%s]", l->rank ? "" : "[");
	whole(&o, "weightBits", l->weight_bits);
	whole(&o, "actBits", l->act_bits);
	string(&o, "form", l->form);
	string(&o, "origin", l->origin);
	string(&o, "reason", l->reason);
	string(&o, "actReason", l->act_reason);
	whole(&o, "bytesBefore", (long long)l->before);
	whole(&o, "bytesAfter", (long long)l->after);
	flag(&o, "shared", l->shared);
	string(&o, "rounding", l->rounding);
	string(&o, "roundingNote", l->rounding_note);
	number(&o, "scaleMin", l->scale_min);
	number(&o, "scaleMax", l->scale_max);
	number(&o, "weightSqnrDb", l->weight_sqnr);
	number(&o, "actScale", l->act_scale);
	if (!isnan(l->act_scale))
		whole(&o, "actZeroPoint", l->act_zero_point);
	number(&o, "actLow", l->act_low);
	number(&o, "actHigh", l->act_high);
	number(&o, "cosine", l->cosine);
	number(&o, "sqnrDb", l->sqnr);
	number(&o, "largestError", l->largest);
	number(&o, "ownSqnrDb", l->own_sqnr);
	number(&o, "share", l->share);
	if (l->has_input) {
		flag(&o, "balanced", l->balanced);
		number(&o, "seenLow", l->seen_low);
		number(&o, "seenHigh", l->seen_high);
		spread(&o, "channels", &l->input);
		if (l->balanced)
			spread(&o, "channelsBeforeBalance", &l->before_balance);
	}
}

static void head(qn_text *t, const qn_report *r)
{
	members o = {t, true};
	whole(&o, "version", 1);
	string(&o, "quern", QUERN_VERSION);
	string(&o, "command", r->command);
	string(&o, "model", r->model);
	string(&o, "archive", r->archive);
	qn_text_add(t, ",\n  \"options\": {");
	members p = {t, false};
	string(&p, "target", r->target);
	string(&p, "rounding", r->rounding);
	number(&p, "percentile", strcmp(r->rounding, "minmax") ? NAN : r->percentile);
	whole(&p, "embeddingBits", r->embedding_bits);
	whole(&p, "method", r->method);
	string(&p, "mode", r->mode);
	flag(&p, "dynamicActivations", r->dynamic);
	flag(&p, "equalize", r->equalize);
	flag(&p, "strict", r->strict);
	string(&p, "samples", r->samples_name);
	qn_text_add(t, "},\n  \"sizes\": {");
	members q = {t, false};
	whole(&q, "weightsBefore", (long long)r->weights_before);
	whole(&q, "weightsAfter", (long long)r->weights_after);
	if (r->archive)
		whole(&q, "archiveBytes", (long long)r->archive_bytes);
	number(&q, "bitsPerWeight", r->bits_per_weight);
	qn_text_add(t, "},\n  \"measured\": {");
	members m = {t, false};
	flag(&m, "executed", r->executed);
	if (r->executed) {
		whole(&m, "samples", (long long)r->samples);
		whole(&m, "samplesGiven", (long long)r->samples_given);
		whole(&m, "samplesOfShares", (long long)r->attributed);
		number(&m, "errorAlone", r->attributed ? r->alone : NAN);
		number(&m, "errorTogether", r->attributed ? r->together : NAN);
		string(&m, "noShares", r->no_share);
	}
	qn_text_add(t, "}");
}

static void groups(qn_text *t, const qn_report *r)
{
	qn_text_add(t, ",\n  \"bytes\": [");
	for (size_t i = 0; i < r->n_groups; i++) {
		const qn_report_group *g = &r->groups[i];
		qn_text_add(t, "%s\n    {", i ? "," : "");
		members o = {t, false};
		string(&o, "role", g->role);
		string(&o, "form", g->form);
		whole(&o, "layers", (long long)g->layers);
		whole(&o, "before", (long long)g->before);
		whole(&o, "after", (long long)g->after);
		qn_text_add(t, "}");
	}
	qn_text_add(t, "\n  ]");
}

static void outputs(qn_text *t, const qn_report *r)
{
	qn_text_add(t, ",\n  \"outputs\": [");
	for (size_t i = 0; i < r->n_outputs; i++) {
		const qn_report_output *v = &r->outputs[i];
		qn_text_add(t, "%s\n    {", i ? "," : "");
		members o = {t, false};
		string(&o, "name", v->name);
		number(&o, "cosine", v->cosine);
		number(&o, "sqnrDb", v->sqnr);
		number(&o, "largestError", v->largest);
		number(&o, "klBits", v->kl);
		qn_text_add(t, "}");
	}
	qn_text_add(t, "%s]", r->n_outputs ? "\n  " : "");
}

static void point(qn_text *t, const qn_curve_point *p)
{
	members o = {t, false};
	qn_text_add(t, "{");
	whole(&o, "bytes", (long long)p->bytes);
	number(&o, "bits", p->bits);
	number(&o, "error", p->error);
	number(&o, "measured", p->measured);
	string(&o, "changed", p->changed);
	if (p->weight_bits)
		whole(&o, "weightBits", p->weight_bits);
	qn_text_add(t, "}");
}

static void tuning(qn_text *t, const qn_tuning *u)
{
	if (!u)
		return;
	qn_text_add(t, ",\n  \"tuning\": {");
	members o = {t, false};
	string(&o, "measure", u->measure);
	whole(&o, "samples", (long long)u->samples);
	key(&o, "chosen");
	point(t, &u->chosen);
	key(&o, "curve");
	qn_text_add(t, "[");
	for (size_t i = 0; i < u->n; i++) {
		qn_text_add(t, "%s\n    ", i ? "," : "");
		point(t, &u->points[i]);
	}
	qn_text_add(t, "]}");
}

static void equalizations(qn_text *t, const qn_report *r)
{
	if (!r->n_equalizations)
		return;
	qn_text_add(t, ",\n  \"equalization\": [");
	for (size_t i = 0; i < r->n_equalizations; i++) {
		const qn_equalization *e = &r->equalizations[i];
		qn_text_add(t, "%s\n    {", i ? "," : "");
		members o = {t, false};
		string(&o, "tensor", e->tensor);
		string(&o, "source", e->source);
		whole(&o, "layers", (long long)e->layers);
		flag(&o, "folded", !e->why);
		number(&o, "error", e->error);
		string(&o, "why", e->why);
		qn_text_add(t, "}");
	}
	qn_text_add(t, "\n  ]");
}

static void advice(qn_text *t, const qn_report *r)
{
	qn_text_add(t, ",\n  \"advice\": [");
	for (size_t i = 0; i < r->n_advice; i++) {
		qn_text_add(t, "%s\n    {", i ? "," : "");
		members o = {t, false};
		string(&o, "title", r->advice[i].title);
		string(&o, "text", r->advice[i].text);
		string(&o, "flags", r->advice[i].flags);
		qn_text_add(t, "}");
	}
	qn_text_add(t, "%s]", r->n_advice ? "\n  " : "");
}

/* JSON already; '<', '>' and '&' can only stand inside its strings. */
static void configuration(qn_text *t, const qn_report *r)
{
	qn_text_add(t, ",\n  \"configuration\": ");
	const char *p = qn_report_utf8(t->arena, r->config);
	size_t n = strlen(p);
	while (n && p[n - 1] == '\n')
		n--;
	for (size_t i = 0; i < n; i++)
		if (p[i] == '<' || p[i] == '>' || p[i] == '&')
			qn_text_add(t, "\\u%04x", (unsigned)p[i]);
		else
			qn_text_bytes(t, p + i, 1);
}

void qn_report_json(const qn_report *r, qn_text *t)
{
	qn_text_add(t, "%s", QN_REPORT_JSON_BEGINS);
	head(t, r);
	groups(t, r);
	outputs(t, r);
	equalizations(t, r);
	tuning(t, r->tuning);
	advice(t, r);
	qn_text_add(t, ",\n  \"layers\": [");
	for (size_t i = 0; i < r->n_layers; i++) {
		qn_text_add(t, "%s\n    {", i ? "," : "");
		layer(t, &r->layers[i]);
		qn_text_add(t, "}");
	}
	qn_text_add(t, "%s]", r->n_layers ? "\n  " : "");
	configuration(t, r);
	qn_text_add(t, "\n}\n");
}
