/* result_json.c - everything that was measured and found, for tables and plots. */
#include "passes/json.h"
#include "passes/tune/curve_json.h"
#include "passes/tune/result.h"

static void add_number(qn_text *t, const char *key, double v)
{
	qn_text_add(t, ", \"%s\": ", key);
	qn_json_double(t, v);
}

static void add_unit(qn_text *out, const qn_tuner *t, const qn_unit *u)
{
	const qn_layer *l = u->layers[0];
	qn_text_add(out, "{ \"layers\": [");
	for (size_t i = 0; i < u->n; i++) {
		qn_text_add(out, i ? ", " : "");
		qn_json_string(out, u->layers[i]->name);
	}
	qn_text_add(out, "], \"role\": \"%s\", \"block\": %d, \"weights\": %llu, \"fixed\": %s, \"weightBits\": %d, \"widths\": [", qn_role_name(l->role), l->block,
		(unsigned long long)u->weights, u->fixed ? "true" : "false", u->candidates[u->chosen].bits);
	for (int c = 0; c < u->n_candidates; c++) {
		const qn_candidate *k = &u->candidates[c];
		qn_text_add(out, "%s{ \"weightBits\": %d, \"form\": \"%s\", \"bytes\": %llu", c ? ", " : "", k->bits, qn_form_name(k->form),
			(unsigned long long)k->bytes);
		add_number(out, "cosineError", k->error.cosine);
		if (t->any_logits)
			add_number(out, "klBits", k->error.kl);
		qn_text_add(out, " }");
	}
	qn_text_add(out, "] }");
}

static void add_frontier(qn_text *out, const qn_tuner *t, const qn_frontier *f)
{
	for (size_t i = 0; i < f->n; i++) {
		qn_text_add(out, "%s[%llu, ", i ? (i % 8 ? ", " : ",\n    ") : "\n    ", (unsigned long long)qn_total_bytes(t, f->points[i].bytes));
		qn_json_double(out, f->points[i].error);
		qn_text_add(out, "]");
	}
}

void qn_result_json(const qn_tuner *t, const qn_solution *s, const struct quern_tuning *r, qn_text *out)
{
	qn_text_add(out, "{ \"tuning\": ");
	qn_tuning_write(&r->tuning, out);
	add_number(out, "gap", r->gap);
	qn_text_add(out, ",\n  \"layers\": [");
	for (size_t i = 0; i < t->n; i++) {
		qn_text_add(out, i ? ",\n    " : "\n    ");
		add_unit(out, t, &t->units[i]);
	}
	qn_text_add(out, " ],\n  \"frontier\": [");
	add_frontier(out, t, &s->frontier);
	qn_text_add(out, " ] }\n");
}
