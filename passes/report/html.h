/* html.h - the page: pieces that its files share. All text that is not ours goes through qn_report_html_string. */
#ifndef QN_REPORT_PAGE_H
#define QN_REPORT_PAGE_H

#include "passes/report/escape.h"
#include "passes/report/report.h"

/* style.c: the text of <style> and of the one script, which only sorts the table. */
extern const char *const qn_report_css[], *const qn_report_script[];
extern const size_t qn_report_css_lines, qn_report_script_lines;

/* --- figures as text, in the arena; "–" where not known, "exact" where infinite ----------------------------------------- */
const char *qn_figure(qn_arena *a, const char *format, double v); /* a format of one double; the decimal point is a point */
const char *qn_figure_db(qn_arena *a, double v);
const char *qn_figure_bytes(qn_arena *a, double v);
const char *qn_figure_cosine(qn_arena *a, double v);
const char *qn_figure_percent(qn_arena *a, double v); /* of a fraction */

/* Family of a role, for its colour: "attention", "ffn", "head", "embedding", "none". */
const char *qn_role_family(const char *role);
/* "query, block 3"; "ffn 2, block 3"; "cross query, block 3"; "head". */
const char *qn_role_place(qn_arena *a, const qn_report_layer *l);

/* Whether it got less than was asked: another form, float activations, a plain rounding. */
bool qn_fell_back(const qn_report_layer *l);

/* --- charts ------------------------------------------------------------------------------------------------------------------- */
void qn_chart_bytes(const qn_report *r, qn_text *t);       /* charts_bytes.c */
void qn_chart_bits(const qn_report *r, qn_text *t);        /* charts_bits.c */
bool qn_chart_errors(const qn_report *r, qn_text *t);      /* charts_errors.c; whether some marks lie above the scale */
void qn_chart_worst(const qn_report *r, qn_text *t);       /* charts_worst.c */
bool qn_chart_activations(const qn_report *r, qn_text *t); /* charts_activations.c; false: there is nothing to draw */
bool qn_chart_curve(const qn_report *r, qn_text *t);       /* charts_curve.c; false: the widths were not tuned */
bool qn_report_fallbacks(const qn_report *r, qn_text *t);   /* fallbacks.c; false: there are none */
void qn_report_table(const qn_report *r, qn_text *t);      /* table.c */

/* Opens an <svg> of that size in a box that scrolls on narrow screens; `label` is read to those who do not see it. */
void qn_svg_open(qn_text *t, double width, double height, const char *label);
void qn_svg_close(qn_text *t);
/* Text at a point; class of the anchor: "s" start, "m" middle, "e" end, with more classes after it. */
void qn_svg_text(qn_text *t, double x, double y, const char *classes, const char *text);
/* A coordinate. */
const char *qn_svg_at(qn_arena *a, double v);
/* Width that a text is about to take, in the units of a chart. */
double qn_svg_width(const char *text);

#endif
