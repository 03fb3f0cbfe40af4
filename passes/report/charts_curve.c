/* charts_curve.c - what a tuning found: the least error for each size. */
#include "passes/report/html.h"

#include "passes/tune/curve.h"

#include <math.h>

enum { LEFT = 72, RIGHT = 30, TOP = 30, HEIGHT = 260, FOOT = 44 };
static const double WIDTH = 960;

typedef struct chart {
	const qn_tuning *u;
	double low, high;     /* bytes */
	double bottom, top;   /* log10 of errors */
} chart;

static double x_of(const chart *c, double bytes) { return LEFT + (WIDTH - LEFT - RIGHT) * (bytes - c->low) / (c->high - c->low); }

static double y_of(const chart *c, double error)
{
	double at = (c->top - log10(error)) / (c->top - c->bottom);
	return TOP + HEIGHT * (at > 1 ? 1 : at < 0 ? 0 : at);
}

static void include(chart *c, const qn_curve_point *p)
{
	c->low = fmin(c->low, (double)p->bytes), c->high = fmax(c->high, (double)p->bytes);
	const double errors[] = {p->error, p->measured};
	for (int i = 0; i < 2; i++)
		if (errors[i] > 0)
			c->bottom = fmin(c->bottom, log10(errors[i])), c->top = fmax(c->top, log10(errors[i]));
}

static bool find_scales(chart *c)
{
	*c = (chart){c->u, INFINITY, -INFINITY, INFINITY, -INFINITY};
	for (size_t i = 0; i < c->u->n; i++)
		include(c, &c->u->points[i]);
	include(c, &c->u->chosen);
	if (!(c->high > c->low) || !(c->top >= c->bottom))
		return false;
	c->top = ceil(c->top + 1e-9);
	c->bottom = floor(fmax(c->bottom, c->top - 8));
	return true;
}

/* 1, 2 or 5 times a power of ten, some six to the axis. */
static double nice_step(double span)
{
	double power = pow(10, floor(log10(span / 6)));
	return span / 6 <= power * 1.5 ? power : span / 6 <= power * 3.5 ? 2 * power : span / 6 <= power * 7.5 ? 5 * power : 10 * power;
}

/* As many decimals as tell neighbouring marks apart. */
static const char *mark(qn_arena *a, double value, double step)
{
	int decimals = step < 1 ? (int)ceil(-log10(step) - 1e-9) : 0;
	return qn_figure(a, qn_arena_printf(a, "%%.%df", decimals), value);
}

static void axes(qn_text *t, const chart *c)
{
	qn_arena *a = t->arena;
	double step = nice_step(c->high - c->low), unit = c->high < 1e4 ? 1 : c->high < 1e6 ? 1e3 : c->high < 1e9 ? 1e6 : 1e9; /* as qn_figure_bytes */
	for (double p = c->bottom; p <= c->top + 1e-9; p += 1) {
		double y = TOP + HEIGHT * (c->top - p) / (c->top - c->bottom);
		qn_text_add(t, "<path class=\"grid\" d=\"M%d %sH%s\"/>", LEFT, qn_svg_at(a, y), qn_svg_at(a, WIDTH - RIGHT));
		qn_svg_text(t, LEFT - 10, y + 4, "e soft", qn_figure(a, "%g", pow(10, p)));
	}
	for (double v = ceil(c->low / step) * step; v <= c->high; v += step) {
		qn_text_add(t, "<path class=\"grid\" d=\"M%s %dv6\"/>", qn_svg_at(a, x_of(c, v)), TOP + HEIGHT);
		qn_svg_text(t, x_of(c, v), TOP + HEIGHT + 20, "m soft", mark(a, v / unit, step / unit));
	}
	qn_svg_text(t, LEFT, TOP - 12, "s strong", strcmp(c->u->measure, "kl") ? "error of the outputs, 1 − cosine" : "divergence of the outputs, bits a row");
	qn_svg_text(t, WIDTH - RIGHT, TOP + HEIGHT + 38, "e strong", qn_arena_printf(a, "weights and constants, %s", unit < 1e3 ? "B" : unit < 1e6 ? "kB" : unit < 1e9 ? "MB" : "GB"));
}

static void hint(qn_text *t, const qn_curve_point *p)
{
	qn_arena *a = t->arena;
	qn_text_add(t, "<title>%s, %s bits a weight, error %s", qn_figure_bytes(a, (double)p->bytes), qn_figure(a, "%.2f", p->bits), qn_figure(a, "%.3g", p->error));
	if (!isnan(p->measured))
		qn_text_add(t, ", executed %s", qn_figure(a, "%.3g", p->measured));
	if (p->changed) {
		qn_text_add(t, "; %d bits for ", p->weight_bits);
		qn_report_html_string(t, p->changed);
	}
	qn_text_add(t, "</title>");
}

static void points(qn_text *t, const chart *c)
{
	qn_arena *a = t->arena;
	bool any = false;
	qn_text_add(t, "<path class=\"curve\" d=\"");
	for (size_t i = 0; i < c->u->n; i++) {
		const qn_curve_point *p = &c->u->points[i];
		if (!(p->error > 0))
			continue;
		qn_text_add(t, any ? "H%sV%s" : "M%s %s", qn_svg_at(a, x_of(c, (double)p->bytes)), qn_svg_at(a, y_of(c, p->error)));
		any = true;
	}
	qn_text_add(t, "\"/>\n");
	for (size_t i = 0; i < c->u->n; i++) {
		const qn_curve_point *p = &c->u->points[i];
		if (!(p->error > 0))
			continue;
		qn_text_add(t, "<g>");
		hint(t, p);
		qn_text_add(t, "<circle class=\"curve-dot\" cx=\"%s\" cy=\"%s\" r=\"%s\"/>", qn_svg_at(a, x_of(c, (double)p->bytes)), qn_svg_at(a, y_of(c, p->error)), c->u->n > 120 ? "1.6" : "2.6");
		if (p->measured > 0)
			qn_text_add(t, "<path class=\"curve-ran\" d=\"M%s %sh9m-4.5 -4.5v9\"/>", qn_svg_at(a, x_of(c, (double)p->bytes) - 4.5), qn_svg_at(a, y_of(c, p->measured)));
		qn_text_add(t, "</g>\n");
	}
}

static void choice(qn_text *t, const chart *c)
{
	qn_arena *a = t->arena;
	const qn_curve_point *p = &c->u->chosen;
	double error = p->error > 0 ? p->error : p->measured;
	if (!(error > 0))
		return;
	double x = x_of(c, (double)p->bytes), y = y_of(c, error);
	const char *text = qn_arena_printf(a, "%s, %s bits a weight", qn_figure_bytes(a, (double)p->bytes), qn_figure(a, "%.2f", p->bits));
	bool left = x + 12 + qn_svg_width(text) > WIDTH - RIGHT;
	qn_text_add(t, "<g>");
	hint(t, p);
	qn_text_add(t, "<circle class=\"curve-ring\" cx=\"%s\" cy=\"%s\" r=\"6\"/></g>\n", qn_svg_at(a, x), qn_svg_at(a, y));
	qn_svg_text(t, left ? x - 12 : x + 12, y - 10, left ? "e strong" : "s strong", text);
	if (p->measured > 0)
		qn_text_add(t, "<path class=\"curve-ran\" d=\"M%s %sh9m-4.5 -4.5v9\"/>\n", qn_svg_at(a, x - 4.5), qn_svg_at(a, y_of(c, p->measured)));
}

static void legend(qn_text *t, const chart *c)
{
	bool ran = c->u->chosen.measured > 0;
	for (size_t i = 0; i < c->u->n; i++)
		ran |= c->u->points[i].measured > 0;
	qn_text_add(t, "<p class=\"legend\"><span><svg class=\"key\" viewBox=\"0 0 14 14\"><circle class=\"curve-dot\" cx=\"7\" cy=\"7\" r=\"3\"/></svg>as predicted, one layer wider at each step</span>");
	if (ran)
		qn_text_add(t, "<span><svg class=\"key\" viewBox=\"0 0 14 14\"><path class=\"curve-ran\" d=\"M2.5 7h9m-4.5 -4.5v9\"/></svg>as executed</span>");
	qn_text_add(t, "</p>\n");
}

bool qn_chart_curve(const qn_report *r, qn_text *t)
{
	chart c = {.u = r->tuning};
	if (!c.u || !c.u->n || !find_scales(&c))
		return false;
	legend(t, &c);
	qn_svg_open(t, WIDTH, TOP + HEIGHT + FOOT, "Size against error");
	axes(t, &c);
	points(t, &c);
	choice(t, &c);
	qn_svg_close(t);
	return true;
}
