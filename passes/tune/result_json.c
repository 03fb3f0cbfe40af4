/* result_json.c - everything that was measured and found, for tables and plots. */
#include "passes/json.h"
#include "passes/tune/curve_json.h"
#include "passes/tune/result.h"

static void add_number(qn_text *t, const char *key, double v)
{
	qn_text_add(t, ", \"%s\": ", key);
	qn_json_double(t, v);
}

static void add_errors(qn_text *out, const qn_tuner *t, const qn_output_error *e)
{
	add_number(out, "cosineError", e->cosine);
	if (t->any_logits)
		add_number(out, "klBits", e->kl);
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
		add_errors(out, t, &k->error);
		qn_text_add(out, " }");
	}
	qn_text_add(out, "]");
	if (t->options->activations && u->act_open) {
		qn_text_add(out, ", \"products\": %llu", (unsigned long long)u->products);
		if (qn_unit_tunes_act(t, u))
			qn_text_add(out, ", \"actBits\": %d", u->act_bits);
		qn_text_add(out, ", \"activations\": { \"actBits\": %d", u->act.bits);
		add_errors(out, t, &u->act.error);
		qn_text_add(out, " }");
	}
	qn_text_add(out, " }");
}

/* Its points, each with `more` of the resource. */
static void add_frontier(qn_text *out, const qn_frontier *f, uint64_t more)
{
	for (size_t i = 0; i < f->n; i++) {
		qn_text_add(out, "%s[%llu, ", i ? (i % 8 ? ", " : ",\n    ") : "\n    ", (unsigned long long)(f->points[i].bytes + more));
		qn_json_double(out, f->points[i].error);
		qn_text_add(out, "]");
	}
}

/* Integer products against error, with the chosen weights. */
static void add_acts(qn_text *out, const qn_solution *s, const struct quern_tuning *r)
{
	const qn_frontier *f = &s->acts;
	if (!f->n)
		return;
	qn_text_add(out, ",\n  \"activations\": { \"multiplyAdds\": %llu, \"narrow\": %llu, \"exact\": %s", (unsigned long long)r->products,
		(unsigned long long)r->narrow_products, f->exact ? "true" : "false");
	add_number(out, "limit", s->act_limit);
	add_number(out, "error", r->act_error);
	qn_text_add(out, ", \"frontier\": [");
	add_frontier(out, f, 0);
	qn_text_add(out, " ] }");
}

void qn_result_json(const qn_tuner *t, const qn_solution *s, const struct quern_tuning *r, qn_text *out)
{
	qn_text_add(out, QN_TUNING_RESULT_BEGINS " ");
	qn_tuning_write(&r->tuning, out);
	add_number(out, "gap", r->gap);
	qn_text_add(out, ",\n  \"layers\": [");
	for (size_t i = 0; i < t->n; i++) {
		qn_text_add(out, i ? ",\n    " : "\n    ");
		add_unit(out, t, &t->units[i]);
	}
	qn_text_add(out, " ],\n  \"frontier\": [");
	add_frontier(out, &s->frontier, qn_total_bytes(t, 0));
	qn_text_add(out, " ]");
	add_acts(out, s, r);
	qn_text_add(out, " }\n");
}
