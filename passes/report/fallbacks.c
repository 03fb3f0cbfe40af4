/* fallbacks.c - what got less than was asked, by what kept it from that: one line for all layers of one reason. */
#include "passes/report/html.h"

enum { MOST_NAMES = 6 };

static const char *explanation(qn_arena *a, const qn_report_layer *l)
{
	qn_text t = {.arena = a};
	if (l->reason) {
		qn_text_add(&t, "%d bits asked, stored as %s: ", l->weight_bits, l->form);
		qn_report_html_string(&t, l->reason);
	}
	if (l->act_reason) {
		qn_text_add(&t, "%sactivations stay float: ", l->reason ? "; " : "");
		qn_report_html_string(&t, l->act_reason);
	}
	if (l->rounding_note && !l->rounding) {
		qn_text_add(&t, "%srounded plainly: ", l->reason || l->act_reason ? "; " : "");
		qn_report_html_string(&t, l->rounding_note);
	}
	return t.s;
}

/* Those from i on whose explanation is that of layer i; their explanations are taken away. */
static void add_group(const qn_report *r, const char **why, size_t i, qn_text *t)
{
	const char *shared = why[i];
	size_t n = 0;
	qn_text_add(t, "<li>");
	for (size_t k = i; k < r->n_layers; k++) {
		if (!why[k] || strcmp(why[k], shared))
			continue;
		why[k] = NULL;
		if (n++ >= MOST_NAMES)
			continue;
		qn_text_add(t, "%s<code>", n > 1 ? ", " : "");
		qn_report_html_string(t, r->layers[k].name);
		qn_text_add(t, "</code>");
	}
	if (n > MOST_NAMES)
		qn_text_add(t, " and %zu more", n - MOST_NAMES);
	qn_text_add(t, "%s %s</li>\n", n > 1 ? ":" : "", shared);
}

bool qn_report_fallbacks(const qn_report *r, qn_text *t)
{
	const char **why = QN_NEW(t->arena, const char *, r->n_layers + 1);
	bool any = false;
	for (size_t i = 0; i < r->n_layers; i++)
		if (qn_fell_back(&r->layers[i]))
			why[i] = explanation(t->arena, &r->layers[i]);
	for (size_t i = 0; i < r->n_layers; i++) {
		if (!why[i])
			continue;
		qn_text_add(t, "%s", any ? "" : "<ul class=\"fallbacks\">\n");
		add_group(r, why, i, t);
		any = true;
	}
	qn_text_add(t, "%s", any ? "</ul>\n" : "");
	return any;
}
