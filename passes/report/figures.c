/* figures.c - numbers and places as a reader wants them. */
#include "passes/report/html.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>

/* A host may have set a locale with another decimal point. */
static void point(char *s)
{
	for (; *s; s++)
		if (*s == ',')
			*s = '.';
}

const char *qn_figure(qn_arena *a, const char *format, double v)
{
	char s[64];
	if (isnan(v))
		return "–";
	if (isinf(v))
		return "exact";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(s, sizeof s, format, v);
#pragma GCC diagnostic pop
	point(s);
	return qn_arena_strdup(a, s);
}

const char *qn_figure_db(qn_arena *a, double v) { return qn_figure(a, "%.1f", v); }

const char *qn_figure_bytes(qn_arena *a, double v)
{
	if (v < 1e4)
		return qn_figure(a, "%.0f B", v);
	return v < 1e6 ? qn_figure(a, "%.1f kB", v / 1e3) : v < 1e9 ? qn_figure(a, "%.1f MB", v / 1e6) : qn_figure(a, "%.2f GB", v / 1e9);
}

const char *qn_figure_cosine(qn_arena *a, double v) { return qn_figure(a, "%.5f", v); }

const char *qn_figure_percent(qn_arena *a, double v) { return qn_figure(a, v > 0 && v < 0.0005 ? "<0.1 %%" : "%.1f %%", 100 * v); }

bool qn_fell_back(const qn_report_layer *l) { return l->reason || l->act_reason || (l->rounding_note && !l->rounding); }

const char *qn_role_family(const char *role)
{
	static const char *const own[] = {"ffn", "head", "embedding"};
	for (size_t i = 0; i < QN_LEN(own); i++)
		if (!strcmp(role, own[i]))
			return own[i];
	return !*role || !strcmp(role, "none") || !strcmp(role, "other") ? "none" : "attention";
}

const char *qn_role_place(qn_arena *a, const qn_report_layer *l)
{
	const char *role = *l->role ? l->role : "no role";
	const char *which = l->ordinal ? qn_arena_printf(a, "%s %d", role, l->ordinal) : role;
	return l->block < 0 ? which : qn_arena_printf(a, "%s%s, block %d", l->cross ? "cross " : "", which, l->block);
}
