/* charts_errors.c - error by layer, in the order of the graph: signal to noise above, each layer's share of the damage below. */
#include "passes/report/html.h"

#include <math.h>

enum { LEFT = 56, RIGHT = 14, TOP = 36, UPPER = 200, GAP = 34, LOWER = 96, FOOT = 26 };
static const double WIDTH = 960;

typedef struct chart {
	const qn_report *r;
	double low, high, step; /* of the upper scale, dB */
	double most;            /* of the lower scale, a fraction */
	double dx;
	bool above; /* some marks */
} chart;

/* Quieter layers hardly matter: they stand at the upper edge, and the scale is for the others. */
static const double ENOUGH = 60;

static bool drawable(double v) { return isfinite(v); }
static double x_of(const chart *c, size_t i) { return LEFT + c->dx * ((double)i + 0.5); }
static double y_of(const chart *c, double db) { return TOP + UPPER * (c->high - fmin(db, c->high)) / (c->high - c->low); }
static double lower_top(void) { return TOP + UPPER + GAP; }

/* What the filled mark shows. */
static double main_value(const chart *c, const qn_report_layer *l) { return c->r->executed ? l->sqnr : l->weight_sqnr; }

/* --- scales ---------------------------------------------------------------------------------------------------------------------------- */
static bool find_scales(chart *c)
{
	double low = INFINITY, high = -INFINITY, all = -INFINITY, share = 0;
	for (size_t i = 0; i < c->r->n_layers; i++) {
		const qn_report_layer *l = &c->r->layers[i];
		const double v[] = {main_value(c, l), c->r->executed ? l->own_sqnr : NAN};
		for (int k = 0; k < 2; k++)
			if (drawable(v[k])) {
				low = fmin(low, v[k]);
				all = fmax(all, v[k]);
				high = v[k] <= ENOUGH ? fmax(high, v[k]) : high;
			}
		share = l->share > share ? l->share : share;
	}
	high = high < low ? all : high;
	if (low > high)
		return false;
	c->step = high - low > 70 ? 20 : high - low > 20 ? 10 : 5;
	c->low = floor(low / c->step) * c->step;
	c->high = ceil(high / c->step) * c->step;
	if (c->high - c->low < 2 * c->step)
		c->high = c->low + 2 * c->step;
	c->above = all > c->high;
	static const double steps[] = {0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 1};
	for (size_t k = 0; k < QN_LEN(steps) && c->most < share; k++)
		c->most = steps[k];
	c->dx = (WIDTH - LEFT - RIGHT) / (double)c->r->n_layers;
	return true;
}

static void grid_line(qn_text *t, double y, const char *label)
{
	qn_text_add(t, "<path class=\"grid\" d=\"M%d %sH%s\"/>", LEFT, qn_svg_at(t->arena, y), qn_svg_at(t->arena, WIDTH - RIGHT));
	qn_svg_text(t, LEFT - 8, y + 4, "e soft", label);
}

static void axes(qn_text *t, const chart *c)
{
	qn_arena *a = t->arena;
	for (double v = c->low; v <= c->high + 0.1; v += c->step)
		grid_line(t, y_of(c, v), qn_figure(a, "%.0f", v));
	qn_svg_text(t, LEFT, TOP - 16, "s strong", c->r->executed ? "signal to noise of the result, dB" : "signal to noise of the weights, dB");
	if (!(c->most > 0))
		return;
	for (int k = 0; k <= 2; k++)
		grid_line(t, lower_top() + LOWER * (1 - k / 2.0), qn_figure(a, c->most < 0.02 ? "%.1f %%" : "%.0f %%", 100 * c->most * k / 2));
}

/* --- blocks ----------------------------------------------------------------------------------------------------------------------------- */
/* Where the run of a block that begins at layer i ends; layers outside the blocks do not part it. */
static size_t end_of_run(const qn_report *r, size_t i)
{
	size_t end = i + 1;
	for (size_t k = end; k < r->n_layers && (r->layers[k].block < 0 || r->layers[k].block == r->layers[i].block); k++)
		end = r->layers[k].block < 0 ? end : k + 1;
	return end;
}

static void bands(qn_text *t, const chart *c, double bottom)
{
	qn_arena *a = t->arena;
	size_t n = c->r->n_layers;
	double free_from = LEFT;
	bool odd = false, any = false;
	for (size_t i = 0, end; i < n; i = end) {
		int block = c->r->layers[i].block;
		end = block < 0 ? i + 1 : end_of_run(c->r, i);
		if (block < 0)
			continue;
		double from = LEFT + c->dx * (double)i, to = LEFT + c->dx * (double)end;
		if (odd)
			qn_text_add(t, "<rect class=\"band\" x=\"%s\" y=\"%d\" width=\"%s\" height=\"%s\"/>\n", qn_svg_at(a, from), TOP - 4, qn_svg_at(a, to - from), qn_svg_at(a, bottom - TOP + 4));
		const char *text = qn_arena_printf(a, "%d", block);
		double w = qn_svg_width(text), x = (from + to) / 2;
		if (x - w / 2 >= free_from) {
			qn_svg_text(t, x, bottom + 16, "m soft", text);
			free_from = x + w / 2 + 8;
		}
		odd = !odd;
		any = true;
	}
	if (any)
		qn_svg_text(t, LEFT - 8, bottom + 16, "e soft", "block");
}

/* --- marks ------------------------------------------------------------------------------------------------------------------------------- */
/* A shape for each family, so that colour is not all there is to tell them apart. */
static void mark(qn_text *t, const char *family, bool filled, double x, double y, double s)
{
	qn_arena *a = t->arena;
	const char *shape;
	if (!strcmp(family, "ffn"))
		shape = qn_arena_printf(a, "M%s %sh%sv%sh-%sz", qn_svg_at(a, x - s * 0.9), qn_svg_at(a, y - s * 0.9), qn_svg_at(a, s * 1.8), qn_svg_at(a, s * 1.8), qn_svg_at(a, s * 1.8));
	else if (!strcmp(family, "head"))
		shape = qn_arena_printf(a, "M%s %sl%s %sh-%sz", qn_svg_at(a, x), qn_svg_at(a, y - s * 1.2), qn_svg_at(a, s * 1.2), qn_svg_at(a, s * 2.1), qn_svg_at(a, s * 2.4));
	else if (!strcmp(family, "embedding"))
		shape = qn_arena_printf(a, "M%s %sl%s %sl-%s %sl-%s -%sz", qn_svg_at(a, x), qn_svg_at(a, y - s * 1.3), qn_svg_at(a, s * 1.3), qn_svg_at(a, s * 1.3), qn_svg_at(a, s * 1.3),
			qn_svg_at(a, s * 1.3), qn_svg_at(a, s * 1.3), qn_svg_at(a, s * 1.3));
	else {
		qn_text_add(t, "<circle class=\"%s %s\" cx=\"%s\" cy=\"%s\" r=\"%s\"/>", filled ? "f" : "h", family, qn_svg_at(a, x), qn_svg_at(a, y), qn_svg_at(a, s));
		return;
	}
	qn_text_add(t, "<path class=\"%s %s\" d=\"%s\"/>", filled ? "f" : "h", family, shape);
}

static void hint(qn_text *t, const chart *c, const qn_report_layer *l)
{
	qn_arena *a = t->arena;
	qn_text_add(t, "<title>");
	qn_report_html_string(t, l->name);
	qn_text_add(t, " (%s): ", qn_role_place(a, l));
	if (c->r->executed)
		qn_text_add(t, "%s dB, own %s dB, ", qn_figure_db(a, l->sqnr), qn_figure_db(a, l->own_sqnr));
	qn_text_add(t, "weights %s dB</title>", qn_figure_db(a, l->weight_sqnr));
}

static void marks(qn_text *t, const chart *c)
{
	qn_arena *a = t->arena;
	size_t n = c->r->n_layers;
	double size = n <= 60 ? 4 : n <= 160 ? 3 : 2.2;
	for (size_t i = 0; i < n; i++) {
		const qn_report_layer *l = &c->r->layers[i];
		const char *family = qn_role_family(l->role);
		double v = main_value(c, l), own = c->r->executed ? l->own_sqnr : NAN;
		if (!drawable(v) && !drawable(own))
			continue;
		qn_text_add(t, "<g>");
		hint(t, c, l);
		if (drawable(v) && drawable(own) && own > v)
			qn_text_add(t, "<path class=\"stem %s\" d=\"M%s %sV%s\"/>", family, qn_svg_at(a, x_of(c, i)), qn_svg_at(a, y_of(c, own)), qn_svg_at(a, y_of(c, v)));
		if (drawable(own))
			mark(t, family, false, x_of(c, i), y_of(c, own), size);
		if (drawable(v))
			mark(t, family, true, x_of(c, i), y_of(c, v), size);
		qn_text_add(t, "</g>\n");
	}
}

static void shares(qn_text *t, const chart *c)
{
	qn_arena *a = t->arena;
	double w = c->dx * 0.7 > 26 ? 26 : c->dx * 0.7;
	for (size_t i = 0; i < c->r->n_layers; i++) {
		const qn_report_layer *l = &c->r->layers[i];
		double h = LOWER * l->share / c->most;
		if (!(h > 0))
			continue;
		qn_text_add(t, "<g><title>");
		qn_report_html_string(t, l->name);
		qn_text_add(t, " (%s): ", qn_role_place(a, l));
		qn_report_html_string(t, qn_figure_percent(a, l->share));
		qn_text_add(t, " of the damage</title><rect class=\"f %s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"/></g>\n", qn_role_family(l->role), qn_svg_at(a, x_of(c, i) - w / 2),
			qn_svg_at(a, lower_top() + LOWER - h), qn_svg_at(a, w), qn_svg_at(a, h));
	}
}

static void legend(qn_text *t, const chart *c)
{
	static const char *const families[] = {"attention", "ffn", "head", "embedding", "none"};
	qn_text_add(t, "<p class=\"legend\">");
	for (size_t k = 0; k < QN_LEN(families); k++) {
		bool any = false;
		for (size_t i = 0; i < c->r->n_layers; i++)
			any |= !strcmp(qn_role_family(c->r->layers[i].role), families[k]);
		if (!any)
			continue;
		qn_text_add(t, "<span><svg class=\"key\" viewBox=\"0 0 14 14\">");
		mark(t, families[k], true, 7, 7, 4);
		qn_text_add(t, "</svg>%s</span>", strcmp(families[k], "none") ? families[k] : "no role");
	}
	if (c->r->executed) {
		qn_text_add(t, "<span><svg class=\"key\" viewBox=\"0 0 14 14\">");
		mark(t, "none", false, 7, 7, 4);
		qn_text_add(t, "</svg>hollow: the layer alone, on exact inputs</span>");
	}
	qn_text_add(t, "</p>\n");
}

bool qn_chart_errors(const qn_report *r, qn_text *t)
{
	chart c = {.r = r};
	if (!find_scales(&c)) {
		qn_text_add(t, "<p>Every layer is exact.</p>\n");
		return false;
	}
	double bottom = c.most > 0 ? lower_top() + LOWER : TOP + UPPER;
	legend(t, &c);
	qn_svg_open(t, WIDTH, bottom + FOOT, "Signal to noise of each layer, and its share of the damage");
	bands(t, &c, bottom);
	axes(t, &c);
	if (c.most > 0)
		qn_svg_text(t, LEFT, lower_top() - 10, "s strong", "share of the damage");
	shares(t, &c);
	marks(t, &c);
	qn_svg_close(t);
	return c.above;
}
