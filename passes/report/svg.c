/* svg.c - the few elements that the charts are made of. */
#include "passes/report/html.h"

#include <stdio.h>

const char *qn_svg_at(qn_arena *a, double v)
{
	return qn_figure(a, "%.1f", v);
}

double qn_svg_width(const char *text)
{
	double n = 0;
	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return 6.6 * n;
}

void qn_svg_open(qn_text *t, double width, double height, const char *label)
{
	qn_text_add(t, "<div class=\"scroll\"><svg viewBox=\"0 0 %s %s\" role=\"img\" aria-label=\"", qn_svg_at(t->arena, width), qn_svg_at(t->arena, height));
	qn_report_html_string(t, label);
	qn_text_add(t, "\">\n");
}

void qn_svg_close(qn_text *t) { qn_text_add(t, "</svg></div>\n"); }

void qn_svg_text(qn_text *t, double x, double y, const char *classes, const char *text)
{
	qn_text_add(t, "<text x=\"%s\" y=\"%s\" class=\"%s\">", qn_svg_at(t->arena, x), qn_svg_at(t->arena, y), classes);
	qn_report_html_string(t, text);
	qn_text_add(t, "</text>\n");
}
