/* charts_bytes.c - where the bytes are: two bars on one scale, before and after, and the numbers below. Plain boxes: they follow the width of the page. */
#include "passes/report/html.h"

enum { FAMILIES = 5 };
static const char *const families[FAMILIES] = {"attention", "ffn", "head", "embedding", "none"};
static const char *const family_titles[FAMILIES] = {"attention", "ffn", "head", "embedding", "other"};

static double family_bytes(const qn_report *r, int f, bool after)
{
	double sum = 0;
	for (size_t i = 0; i < r->n_groups; i++)
		if (!strcmp(qn_role_family(r->groups[i].role), families[f]))
			sum += (double)(after ? r->groups[i].after : r->groups[i].before);
	return sum;
}

static void bar(const qn_report *r, qn_text *t, const char *title, bool after, double scale)
{
	qn_arena *a = t->arena;
	double sum[FAMILIES], all = 0;
	for (int f = 0; f < FAMILIES; f++)
		all += sum[f] = family_bytes(r, f, after);
	qn_text_add(t, "<div class=\"bar\"><div class=\"bar-name\">%s</div><div class=\"track\">", title);
	for (int f = 0; f < FAMILIES; f++) {
		double part = scale > 0 ? sum[f] / scale : 0;
		if (!(sum[f] > 0))
			continue;
		qn_text_add(t, "<div class=\"seg %s\" style=\"width:%s%%\" title=\"%s %s\">", families[f], qn_figure(a, "%.3f", 100 * part), family_titles[f],
			qn_figure_bytes(a, sum[f]));
		qn_text_add(t, "%s</div>", part > 0.11 ? family_titles[f] : "");
	}
	qn_text_add(t, "</div><div class=\"bar-value\">%s</div></div>\n", qn_figure_bytes(a, all));
}

static void legend(const qn_report *r, qn_text *t)
{
	qn_text_add(t, "<p class=\"legend\">");
	for (int f = 0; f < FAMILIES; f++)
		if (family_bytes(r, f, false) + family_bytes(r, f, true) > 0)
			qn_text_add(t, "<span><i class=\"swatch %s\"></i>%s</span>", families[f], family_titles[f]);
	qn_text_add(t, "</p>\n");
}

static void rows(const qn_report *r, qn_text *t)
{
	qn_arena *a = t->arena;
	qn_text_add(t, "<div class=\"scroll\"><table class=\"small\" id=\"bytes\"><thead><tr><th>role<th>form<th class=\"n\">layers<th class=\"n\">before<th class=\"n\">after"
		"<th class=\"n\">part of all</tr></thead><tbody>\n");
	for (size_t i = 0; i < r->n_groups; i++) {
		const qn_report_group *g = &r->groups[i];
		const char *role = !strcmp(g->role, "none") ? "no role" : !strcmp(g->role, "other") ? "other constants" : g->role;
		if (!g->before && !g->after)
			continue;
		qn_text_add(t, "<tr><td><i class=\"swatch %s\"></i>%s<td>%s<td class=\"n\">", qn_role_family(g->role), role, *g->form ? g->form : "as they are");
		if (g->layers)
			qn_text_add(t, "%zu", g->layers);
		qn_text_add(t, "<td class=\"n\">%s<td class=\"n\">%s<td class=\"n\">%s</tr>\n", qn_figure_bytes(a, (double)g->before), qn_figure_bytes(a, (double)g->after),
			qn_figure_percent(a, r->weights_after ? (double)g->after / (double)r->weights_after : 0));
	}
	qn_text_add(t, "<tr class=\"sum\"><td>all<td><td class=\"n\">%zu<td class=\"n\">%s<td class=\"n\">%s<td class=\"n\">100.0 %%</tr>\n</tbody></table></div>\n", r->n_layers,
		qn_figure_bytes(a, (double)r->weights_before), qn_figure_bytes(a, (double)r->weights_after));
}

void qn_chart_bytes(const qn_report *r, qn_text *t)
{
	double before = (double)r->weights_before, after = (double)r->weights_after, scale = before > after ? before : after;
	qn_text_add(t, "<div class=\"bars\">\n");
	bar(r, t, "in the model", false, scale);
	bar(r, t, "stored", true, scale);
	qn_text_add(t, "</div>\n");
	legend(r, t);
	rows(r, t);
}
