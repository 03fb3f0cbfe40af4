/* table.c - every layer with all its figures. Cells carry the name of their JSON field and, where the text is not what they sort by, the value. */
#include "passes/report/html.h"

#include "passes/plan.h"

#include <math.h>

typedef struct column {
	const char *key, *title, *hint;
	bool number;
	bool runs; /* only where the graph was executed */
} column;

static const column columns[] = {
	{"index", "#", "order in the graph", true, false},
	{"block", "block", "", true, false},
	{"role", "role", "", false, false},
	{"name", "layer", "ONNX name of the node", false, false},
	{"shape", "shape", "of the initializer", true, false},
	{"weightBits", "weight bits", "asked for", true, false},
	{"actBits", "act bits", "of what it reads", true, false},
	{"form", "form", "as stored", false, false},
	{"bytesBefore", "before", "bytes in the model", true, false},
	{"bytesAfter", "after", "bytes as stored", true, false},
	{"share", "share", "of the damage", true, true},
	{"cosine", "cosine", "of the result", true, true},
	{"sqnrDb", "result dB", "signal to noise of the result", true, true},
	{"ownSqnrDb", "own dB", "signal to noise of the result on exact inputs", true, true},
	{"weightSqnrDb", "weights dB", "signal to noise of the stored weights", true, false},
	{"scales", "weight scales", "smallest and largest magnitude", true, false},
	{"actScale", "act scale", "", true, false},
	{"origin", "origin and why", "where the width comes from", false, false},
};

static bool shown(const qn_report *r, const column *c) { return r->executed || !c->runs; }

static const char *shape_text(qn_arena *a, const qn_report_layer *l)
{
	qn_text t = {.arena = a};
	qn_text_bytes(&t, "", 0);
	for (int i = 0; i < l->rank; i++)
		qn_text_add(&t, "%s%lld", i ? "×" : "", (long long)l->shape[i]);
	return t.s ? t.s : "";
}

static const char *scales_text(qn_arena *a, const qn_report_layer *l)
{
	if (isnan(l->scale_min))
		return "–";
	return qn_arena_printf(a, "%s – %s", qn_figure(a, "%.2e", l->scale_min), qn_figure(a, "%.2e", l->scale_max));
}

static const char *why_text(qn_arena *a, const qn_report_layer *l)
{
	qn_text t = {.arena = a};
	qn_text_add(&t, "%s", l->origin);
	const char *const more[] = {l->rounding ? qn_arena_printf(a, "rounded by %s", l->rounding) : NULL, l->rounding_note, l->shared ? "stored with another layer" : NULL, l->why, l->reason, l->act_reason};
	for (size_t i = 0; i < QN_LEN(more); i++)
		if (more[i])
			qn_text_add(&t, "; %s", more[i]);
	return t.s;
}

static void open_cell(qn_text *t, const column *c, double sort_by)
{
	qn_text_add(t, "<td data-k=\"%s\"%s", c->key, c->number ? " class=\"n\"" : "");
	if (!isnan(sort_by))
		qn_text_add(t, " data-v=\"%s\"", isinf(sort_by) ? "1e99" : qn_figure(t->arena, "%.9g", sort_by));
	qn_text_add(t, ">");
}

static void cell(qn_text *t, const column *c, double sort_by, const char *text)
{
	open_cell(t, c, sort_by);
	qn_report_html_string(t, text);
}

static void name_cell(qn_text *t, const column *c, const qn_report_layer *l)
{
	open_cell(t, c, NAN);
	qn_text_add(t, "<code title=\"weight ");
	qn_report_html_string(t, l->weight ? l->weight : "");
	qn_text_add(t, "\">");
	qn_report_html_string(t, l->name);
	qn_text_add(t, "</code>");
}

static double elements(const qn_report_layer *l)
{
	double n = 1;
	for (int i = 0; i < l->rank; i++)
		n *= (double)l->shape[i];
	return n;
}

static void row(const qn_report *r, qn_text *t, size_t i)
{
	qn_arena *a = t->arena;
	const qn_report_layer *l = &r->layers[i];
	const column *c = columns;
	qn_text_add(t, "<tr%s>", l->reason ? " class=\"fell\"" : "");
	cell(t, c++, NAN, qn_arena_printf(a, "%zu", i));
	cell(t, c++, l->block, l->block < 0 ? "–" : qn_arena_printf(a, "%d", l->block));
	cell(t, c++, NAN, l->cross ? qn_arena_printf(a, "cross %s", l->role) : l->role);
	name_cell(t, c++, l);
	cell(t, c++, elements(l), shape_text(a, l));
	cell(t, c++, NAN, qn_arena_printf(a, "%d", l->weight_bits));
	cell(t, c++, l->act_bits, l->act_bits > QN_MOST_ACT_BITS ? "float" : qn_arena_printf(a, "%d", l->act_bits));
	cell(t, c++, NAN, l->form);
	cell(t, c++, (double)l->before, qn_figure_bytes(a, (double)l->before));
	cell(t, c++, (double)l->after, qn_figure_bytes(a, (double)l->after));
	if (r->executed) {
		cell(t, c, isnan(l->share) ? 0 : l->share, qn_figure_percent(a, l->share));
		cell(t, c + 1, isnan(l->cosine) ? 2 : l->cosine, qn_figure_cosine(a, l->cosine));
		cell(t, c + 2, isnan(l->sqnr) ? 1e98 : l->sqnr, qn_figure_db(a, l->sqnr));
		cell(t, c + 3, isnan(l->own_sqnr) ? 1e98 : l->own_sqnr, qn_figure_db(a, l->own_sqnr));
	}
	c += 4;
	cell(t, c++, isnan(l->weight_sqnr) ? 1e98 : l->weight_sqnr, qn_figure_db(a, l->weight_sqnr));
	cell(t, c++, isnan(l->scale_max) ? 0 : l->scale_max, scales_text(a, l));
	cell(t, c++, isnan(l->act_scale) ? 0 : l->act_scale, qn_figure(a, "%.3g", l->act_scale));
	cell(t, c, NAN, why_text(a, l));
	qn_text_add(t, "</tr>\n");
}

void qn_report_table(const qn_report *r, qn_text *t)
{
	qn_text_add(t, "<div class=\"scroll tall\"><table class=\"layers\" id=\"layers\"><thead><tr>");
	for (size_t i = 0; i < QN_LEN(columns); i++)
		if (shown(r, &columns[i]))
			qn_text_add(t, "<th%s title=\"%s\">%s</th>", columns[i].number ? " class=\"n\"" : "", columns[i].hint, columns[i].title);
	qn_text_add(t, "</tr></thead><tbody>\n");
	for (size_t i = 0; i < r->n_layers; i++)
		row(r, t, i);
	qn_text_add(t, "</tbody></table></div>\n");
}
