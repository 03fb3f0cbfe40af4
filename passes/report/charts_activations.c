/* charts_activations.c - what the layers that suffer most read: the spread of the channels' largest magnitudes, and the range that codes reach. */
#include "passes/report/html.h"

#include "passes/plan.h"

#include <math.h>

enum { LEFT = 232, RIGHT = 190, TOP = 30, ROW = 46, MOST_ROWS = 8 };
static const double WIDTH = 960;

typedef struct scale {
	double low, high; /* log10 */
} scale;

static double x_of(const scale *s, double v)
{
	double at = (log10(v) - s->low) / (s->high - s->low);
	return LEFT + (WIDTH - LEFT - RIGHT) * (at < 0 ? 0 : at > 1 ? 1 : at);
}

static double range_of(const qn_report_layer *l) { return fmax(-l->act_low, l->act_high); }

static void widen(scale *s, double v)
{
	if (!(v > 0))
		return;
	s->low = fmin(s->low, log10(v));
	s->high = fmax(s->high, log10(v));
}

static void include(scale *s, const qn_report_layer *l)
{
	widen(s, l->input.low);
	widen(s, l->input.top[0]);
	widen(s, range_of(l));
	if (l->balanced)
		widen(s, l->before_balance.top[0]);
}

static void axis(qn_text *t, const scale *s, double bottom)
{
	qn_arena *a = t->arena;
	for (double p = s->low; p <= s->high + 1e-9; p += 1) {
		double x = x_of(s, pow(10, p));
		qn_text_add(t, "<path class=\"grid\" d=\"M%s %dV%s\"/>", qn_svg_at(a, x), TOP - 6, qn_svg_at(a, bottom));
		qn_svg_text(t, x, TOP - 12, "m soft", qn_figure(a, "%.6g", pow(10, p)));
	}
	qn_svg_text(t, WIDTH - RIGHT + 16, TOP - 12, "s soft", "largest : median channel");
}

static void spread(qn_text *t, const scale *s, const qn_spread *p, const char *family, double y, bool faint)
{
	qn_arena *a = t->arena;
	const char *f = faint ? " faint" : "";
	double low = x_of(s, fmax(p->low, 1e-30)), high = x_of(s, fmax(p->high, 1e-30));
	qn_text_add(t, "<g class=\"%s%s\"><path class=\"whisker\" d=\"M%s %sH%s\"/>", family, f, qn_svg_at(a, low), qn_svg_at(a, y), qn_svg_at(a, x_of(s, p->top[0])));
	qn_text_add(t, "<rect class=\"box\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"12\" rx=\"2\"/>", qn_svg_at(a, low), qn_svg_at(a, y - 6), qn_svg_at(a, fmax(high - low, 1)));
	if (p->median > 0)
		qn_text_add(t, "<path class=\"median\" d=\"M%s %sv12\"/>", qn_svg_at(a, x_of(s, p->median)), qn_svg_at(a, y - 6));
	for (int i = 0; i < 5 && p->top[i] > 0; i++)
		qn_text_add(t, "<circle class=\"dot\" cx=\"%s\" cy=\"%s\" r=\"2.6\"/>", qn_svg_at(a, x_of(s, p->top[i])), qn_svg_at(a, y));
	qn_text_add(t, "</g>\n");
}

static void row(qn_text *t, const scale *s, const qn_report_layer *l, size_t i)
{
	qn_arena *a = t->arena;
	double y = TOP + ROW * (double)i + 20;
	const char *family = qn_role_family(l->role);
	qn_text_add(t, "<g><title>");
	qn_report_html_string(t, l->name);
	qn_text_add(t, ": from %s to %s</title>\n", qn_figure(a, "%.4g", l->seen_low), qn_figure(a, "%.4g", l->seen_high));
	qn_svg_text(t, LEFT - 14, y - 1, "e", qn_role_place(a, l));
	qn_svg_text(t, LEFT - 14, y + 13, "e soft small", qn_arena_printf(a, "seen %s to %s", qn_figure(a, "%.3g", l->seen_low), qn_figure(a, "%.3g", l->seen_high)));
	if (l->balanced)
		spread(t, s, &l->before_balance, family, y + 10, true);
	spread(t, s, &l->input, family, l->balanced ? y - 5 : y, false);
	const char *ratio = l->input.median > 0 ? qn_figure(a, "%.1f×", l->input.top[0] / l->input.median) : "–";
	const char *chosen = "float";
	if (!isnan(l->act_scale)) {
		qn_text_add(t, "<path class=\"chosen\" d=\"M%s %sv28\"/>\n", qn_svg_at(a, x_of(s, range_of(l))), qn_svg_at(a, y - 16));
		double seen = fmax(-l->seen_low, l->seen_high);
		chosen = seen > 0 ? qn_arena_printf(a, "%d bits, %s of what was seen", l->act_bits, qn_figure(a, "%.0f %%", 100 * fmin(range_of(l) / seen, 9.99))) : "";
	} else if (l->act_bits <= QN_MOST_ACT_BITS) {
		chosen = qn_arena_printf(a, "%d bits, a scale for each row", l->act_bits);
	}
	qn_svg_text(t, WIDTH - RIGHT + 16, y - 1, "s strong", ratio);
	qn_svg_text(t, WIDTH - RIGHT + 16, y + 13, "s soft small", chosen);
	qn_text_add(t, "</g>\n");
}

static void legend(qn_text *t, bool chosen, bool balanced)
{
	qn_text_add(t, "<p class=\"legend\"><span><svg class=\"key long\" viewBox=\"0 0 44 14\"><g class=\"attention\"><path class=\"whisker\" d=\"M2 7H42\"/><rect class=\"box\" x=\"2\" y=\"1\" "
		"width=\"24\" height=\"12\" rx=\"2\"/><path class=\"median\" d=\"M13 1v12\"/><circle class=\"dot\" cx=\"42\" cy=\"7\" r=\"2.6\"/></g></svg>"
		"eight tenths of the channels, their median, the five largest</span>");
	if (chosen)
		qn_text_add(t, "<span><svg class=\"key\" viewBox=\"0 0 14 14\"><path class=\"chosen\" d=\"M7 0v14\"/></svg>largest value that codes reach</span>");
	if (balanced)
		qn_text_add(t, "<span>pale: before the channels were balanced</span>");
	qn_text_add(t, "</p>\n");
}

bool qn_chart_activations(const qn_report *r, qn_text *t)
{
	size_t *order = qn_report_ranking(r, t->arena), rows[MOST_ROWS], n = 0;
	scale s = {INFINITY, -INFINITY};
	bool chosen = false, balanced = false;
	for (size_t i = 0; i < r->n_layers && n < MOST_ROWS; i++) {
		const qn_report_layer *l = &r->layers[order[i]];
		if (!l->has_input)
			continue;
		rows[n++] = order[i];
		include(&s, l);
		chosen |= !isnan(l->act_scale);
		balanced |= l->balanced;
	}
	if (!n)
		return false;
	s.low = floor(fmax(s.low, s.high - 8));
	s.high = ceil(s.high + 1e-9);
	s.high = s.high > s.low ? s.high : s.low + 1;
	double bottom = TOP + ROW * (double)n;
	legend(t, chosen, balanced);
	qn_svg_open(t, WIDTH, bottom + 4, "Magnitudes of what the layers read");
	axis(t, &s, bottom);
	for (size_t i = 0; i < n; i++)
		row(t, &s, &r->layers[rows[i]], i);
	qn_svg_close(t);
	return true;
}
