/* charts_bits.c - widths as a matrix: a column for each block, a line for each role. A matrix of many lines and few blocks goes on beside itself. What lies
 * outside the blocks follows as a row of tags. */
#include "passes/report/html.h"

#include "passes/plan.h"

#include <stdio.h>
#include <stdlib.h>

enum { LEFT = 96, RIGHT = 12, TOP = 24, ROW = 26, MOST_TAGS = 16, MOST_LINES = 24 };
static const double WIDTH = 960;

/* A line: a role, and which of its layers within a block. */
typedef struct lane {
	const char *role;
	bool cross;
	int ordinal; /* from 1 */
} lane;

typedef struct matrix {
	lane *lanes;
	size_t n, cap;
	int blocks;
	double cell;
	size_t lines; /* that stand below each other; the next as many stand to the right of them */
	double panel; /* width of so many lines, with their names */
} matrix;

static double left_of(const matrix *m, size_t line) { return LEFT + m->panel * (double)(line / m->lines); }

static double top_of(const matrix *m, size_t line) { return TOP + ROW * (double)(line % m->lines); }

static int order_of(const char *role)
{
	for (int i = 1; i < QN_ROLE_COUNT; i++)
		if (!strcmp(role, qn_role_name((qn_role)i)))
			return i;
	return QN_ROLE_COUNT;
}

static int by_order(const void *a, const void *b)
{
	const lane *x = a, *y = b;
	int d = order_of(x->role) - order_of(y->role);
	/* self attention, cross attention, then the rest */
	int ax = !strcmp(qn_role_family(x->role), "attention") ? x->cross : 2, ay = !strcmp(qn_role_family(y->role), "attention") ? y->cross : 2;
	return ax != ay ? ax - ay : d ? d : x->ordinal - y->ordinal;
}

/* A lone layer is in the line of the first ones. */
static lane lane_for(const qn_report_layer *l) { return (lane){l->role, l->cross, l->ordinal ? l->ordinal : 1}; }

static size_t lane_of(matrix *m, qn_arena *a, lane l, bool add)
{
	for (size_t i = 0; i < m->n; i++)
		if (!strcmp(m->lanes[i].role, l.role) && m->lanes[i].cross == l.cross && m->lanes[i].ordinal == l.ordinal)
			return i;
	if (add) {
		QN_GROW(a, m->lanes, m->n, m->cap);
		m->lanes[m->n++] = l;
	}
	return m->n;
}

static const char *width_class(int bits) { return bits <= 4 ? "b4" : bits <= 8 ? "b8" : bits <= 16 ? "b16" : "b32"; }

static const char *width_text(qn_arena *a, const qn_report_layer *l, bool with_act)
{
	if (with_act && l->act_bits <= QN_MOST_ACT_BITS)
		return qn_arena_printf(a, "%d/%d", l->weight_bits, l->act_bits);
	return qn_arena_printf(a, "%d", l->weight_bits);
}

static void hint(qn_text *t, const qn_report_layer *l)
{
	qn_report_html_string(t, l->name);
	qn_text_add(t, ": %d-bit weights (%s), ", l->weight_bits, l->form);
	if (l->act_bits <= QN_MOST_ACT_BITS)
		qn_text_add(t, "%d-bit activations", l->act_bits);
	else
		qn_text_add(t, "float activations");
}

static void cell(qn_text *t, const matrix *m, const qn_report_layer *l, size_t line)
{
	qn_arena *a = t->arena;
	double x = left_of(m, line) + m->cell * l->block, y = top_of(m, line), gap = m->cell > 8 ? 2 : 0.6;
	const char *text = width_text(a, l, true);
	if (qn_svg_width(text) > m->cell - 4)
		text = width_text(a, l, false);
	qn_text_add(t, "<g class=\"%s%s\"><title>", width_class(l->weight_bits), l->reason ? " fell" : "");
	hint(t, l);
	qn_text_add(t, "</title><rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%d\" rx=\"%s\"/>", qn_svg_at(a, x), qn_svg_at(a, y), qn_svg_at(a, m->cell - gap), ROW - 2,
		m->cell > 12 ? "3" : "1");
	if (qn_svg_width(text) <= m->cell - 3)
		qn_svg_text(t, x + (m->cell - gap) / 2, y + ROW - 9, "m on", text);
	qn_text_add(t, "</g>\n");
}

static void number_blocks(qn_text *t, const matrix *m, double left)
{
	double free_from = 0;
	for (int b = 0; b < m->blocks; b++) {
		const char *text = qn_arena_printf(t->arena, "%d", b);
		double x = left + m->cell * (b + 0.5) - 1, w = qn_svg_width(text);
		if (x - w / 2 < free_from)
			continue;
		qn_svg_text(t, x, TOP - 8, "m soft", text);
		free_from = x + w / 2 + 8;
	}
	qn_svg_text(t, left - 10, TOP - 8, "e soft", "block");
}

static void headings(qn_text *t, const matrix *m)
{
	for (size_t i = 0; i < m->n; i += m->lines)
		number_blocks(t, m, left_of(m, i));
	for (size_t i = 0; i < m->n; i++) {
		const lane *l = &m->lanes[i];
		bool several = l->ordinal > 1 || (i + 1 < m->n && m->lanes[i + 1].ordinal > 1 && !strcmp(m->lanes[i + 1].role, l->role));
		const char *role = *l->role ? l->role : "no role";
		const char *text = several ? qn_arena_printf(t->arena, "%s%s %d", l->cross ? "cross " : "", role, l->ordinal) :
			qn_arena_printf(t->arena, "%s%s", l->cross ? "cross " : "", role);
		qn_svg_text(t, left_of(m, i) - 10, top_of(m, i) + ROW - 9, "e", text);
	}
}

static void tags(const qn_report *r, qn_text *t)
{
	size_t n = 0, more = 0;
	for (size_t i = 0; i < r->n_layers; i++) {
		const qn_report_layer *l = &r->layers[i];
		if (l->block >= 0)
			continue;
		if (n >= MOST_TAGS) {
			more++;
			continue;
		}
		if (!n++)
			qn_text_add(t, "<p class=\"tags\"><span class=\"soft\">outside the blocks</span> ");
		qn_text_add(t, "<span class=\"tag\" title=\"");
		hint(t, l);
		qn_text_add(t, "\"><b class=\"%s\">%s</b>%s</span> ", width_class(l->weight_bits), width_text(t->arena, l, true), *l->role ? l->role : "no role");
	}
	if (more)
		qn_text_add(t, "<span class=\"soft\">and %zu more</span>", more);
	qn_text_add(t, "%s", n ? "</p>\n" : "");
}

static void legend(const qn_report *r, qn_text *t)
{
	static const struct {
		const char *name, *text;
		int most;
	} widths[] = {{"b4", "to 4 bits: Q4_0", 4}, {"b8", "5 to 8: int8", 8}, {"b16", "9 to 16: f16", 16}, {"b32", "more: f32", 1 << 30}};
	qn_text_add(t, "<p class=\"legend\">");
	for (size_t k = 0; k < QN_LEN(widths); k++) {
		bool any = false;
		for (size_t i = 0; i < r->n_layers; i++)
			any |= !strcmp(width_class(r->layers[i].weight_bits), widths[k].name);
		if (any)
			qn_text_add(t, "<span><i class=\"swatch %s\"></i>%s</span>", widths[k].name, widths[k].text);
	}
	qn_text_add(t, "%s</p>\n", r->act_quantized ? "<span>8/16: weights 8, activations 16 bits</span>" : "");
}

void qn_chart_bits(const qn_report *r, qn_text *t)
{
	matrix m = {0};
	for (size_t i = 0; i < r->n_layers; i++) {
		const qn_report_layer *l = &r->layers[i];
		if (l->block < 0)
			continue;
		m.blocks = l->block >= m.blocks ? l->block + 1 : m.blocks;
		lane_of(&m, t->arena, lane_for(l), true);
	}
	if (m.n) {
		qsort(m.lanes, m.n, sizeof *m.lanes, by_order);
		m.cell = (WIDTH - LEFT - RIGHT) / m.blocks;
		m.cell = m.cell > 64 ? 64 : m.cell;
		m.panel = LEFT + m.cell * m.blocks;
		size_t panels = (size_t)((WIDTH - RIGHT) / m.panel), wanted = (m.n + MOST_LINES - 1) / MOST_LINES;
		panels = panels < 1 ? 1 : panels < wanted ? panels : wanted;
		m.lines = (m.n + panels - 1) / panels;
		qn_svg_open(t, WIDTH, TOP + ROW * (double)m.lines + 2, "Weight bits by block and role");
		headings(t, &m);
		for (size_t i = 0; i < r->n_layers; i++)
			if (r->layers[i].block >= 0)
				cell(t, &m, &r->layers[i], lane_of(&m, t->arena, lane_for(&r->layers[i]), false));
		qn_svg_close(t);
	}
	tags(r, t);
	legend(r, t);
}
