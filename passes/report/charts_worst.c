/* charts_worst.c - the layers that cost the most, by name. Plain boxes: they follow the width of the page. */
#include "passes/report/html.h"

#include <math.h>

enum { MOST_LINES = 10 };

/* The length of a line's bar: the share, or how far the noise is above that of the best of these lines. */
static double length_of(const qn_report *r, const qn_report_layer *l)
{
	double db = isnan(l->own_sqnr) ? l->weight_sqnr : l->own_sqnr;
	return r->attributed ? l->share : isfinite(db) ? pow(10, -db / 20) : 0;
}

void qn_chart_worst(const qn_report *r, qn_text *t)
{
	qn_arena *a = t->arena;
	size_t *order = qn_report_ranking(r, a), n = r->n_layers < MOST_LINES ? r->n_layers : MOST_LINES;
	double longest = n ? length_of(r, &r->layers[order[0]]) : 0;
	if (!(longest > 0)) {
		qn_text_add(t, "<p>No layer adds an error.</p>\n");
		return;
	}
	qn_text_add(t, "<ol class=\"worst\">\n");
	for (size_t i = 0; i < n; i++) {
		const qn_report_layer *l = &r->layers[order[i]];
		double length = length_of(r, l);
		if (!(length > 0))
			break;
		qn_text_add(t, "<li><div class=\"worst-name\"><span>%s</span><code title=\"", qn_role_place(a, l));
		qn_report_html_string(t, l->name);
		qn_text_add(t, "\">");
		qn_report_html_string(t, l->name);
		qn_text_add(t, "</code></div><div class=\"worst-bar\"><i class=\"%s\" style=\"width:%s%%\"></i></div><div class=\"worst-value\">", qn_role_family(l->role),
			qn_figure(a, "%.2f", 100 * length / longest));
		if (r->attributed)
			qn_report_html_string(t, qn_figure_percent(a, l->share));
		else
			qn_text_add(t, "%s dB", qn_figure_db(a, isnan(l->own_sqnr) ? l->weight_sqnr : l->own_sqnr));
		qn_text_add(t, "</div></li>\n");
	}
	qn_text_add(t, "</ol>\n");
}
