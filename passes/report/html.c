/* html.c - the page, top to bottom. One file: style, script, data and charts are in it, and it loads nothing. */
#include "passes/report/html.h"

#include "passes/plan.h"
#include "passes/tune/curve.h"

#include <math.h>

static void lines(qn_text *t, const char *const *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		qn_text_add(t, "%s\n", v[i]);
}

static void title_of_section(qn_text *t, const char *title, const char *caption)
{
	qn_text_add(t, "<section>\n<h2>%s</h2>\n<p class=\"caption\">%s</p>\n", title, caption);
}

static void end_section(qn_text *t) { qn_text_add(t, "</section>\n"); }

/* --- the head -------------------------------------------------------------------------------------------------------------------------- */
static void head(const qn_report *r, qn_text *t)
{
	qn_text_add(t, "%s\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		"<meta name=\"color-scheme\" content=\"light dark\">\n<title>", QN_REPORT_HTML_BEGINS);
	qn_report_html_string(t, r->model);
	qn_text_add(t, " – quern report</title>\n<style>\n");
	lines(t, qn_report_css, qn_report_css_lines);
	qn_text_add(t, "</style>\n</head>\n<body>\n<main>\n<header>\n<p class=\"eyebrow\">quern %s · %s</p>\n<h1>", QUERN_VERSION, r->command);
	qn_report_html_string(t, r->model);
	qn_text_add(t, "</h1>\n<p class=\"lead\">");
	if (r->archive) {
		qn_text_add(t, "compiled for %s to <code>", r->target);
		qn_report_html_string(t, r->archive);
		qn_text_add(t, "</code>");
	} else {
		qn_text_add(t, "as it would be compiled for %s", r->target);
	}
	if (r->executed)
		qn_text_add(t, ", run on %zu%s %s beside the float model", r->samples, r->samples < r->samples_given ? qn_arena_printf(t->arena, " of %zu", r->samples_given) : "",
			r->samples_given == 1 ? "sample" : "samples");
	qn_text_add(t, "</p>\n</header>\n");
}

/* --- tiles ------------------------------------------------------------------------------------------------------------------------------- */
static void tile(qn_text *t, const char *what, const char *value, const char *note)
{
	qn_text_add(t, "<div class=\"tile\"><h3>%s</h3><p class=\"value\">%s</p><p class=\"note\">", what, value);
	qn_report_html_string(t, note);
	qn_text_add(t, "</p></div>\n");
}

static const char *count_forms(const qn_report *r, qn_arena *a)
{
	static const char *const forms[] = {"q4_0", "q8_1", "i8", "f16", "f32"};
	qn_text s = {.arena = a};
	size_t mixed = r->n_layers;
	for (size_t f = 0; f < QN_LEN(forms); f++) {
		size_t n = 0;
		for (size_t i = 0; i < r->n_layers; i++)
			n += !strcmp(r->layers[i].form, forms[f]);
		mixed -= n;
		if (n)
			qn_text_add(&s, "%s%zu %s", s.len ? ", " : "", n, forms[f]);
	}
	if (mixed)
		qn_text_add(&s, "%s%zu mixed", s.len ? ", " : "", mixed);
	return s.s ? s.s : "no layers";
}

static void tiles(const qn_report *r, qn_text *t)
{
	qn_arena *a = t->arena;
	double after = (double)(r->archive ? r->archive_bytes : r->weights_after), before = (double)r->weights_before;
	size_t fell = 0, worst = 0;
	for (size_t i = 0; i < r->n_layers; i++)
		fell += qn_fell_back(&r->layers[i]);
	qn_text_add(t, "<div class=\"tiles\">\n");
	tile(t, r->archive ? "archive" : "weights as stored", qn_figure_bytes(a, after),
		qn_arena_printf(a, "%s of the model's %s", before > 0 ? qn_figure(a, "%.0f %%", 100 * after / before) : "–", qn_figure_bytes(a, before)));
	tile(t, "bits a weight", qn_figure(a, "%.2f", r->bits_per_weight), count_forms(r, a));
	for (size_t i = 1; i < r->n_outputs; i++)
		worst = r->outputs[i].cosine < r->outputs[worst].cosine ? i : worst;
	if (r->n_outputs) {
		const qn_report_output *o = &r->outputs[worst];
		tile(t, r->n_outputs > 1 ? "cosine of the worst output" : "cosine of the output", qn_figure_cosine(a, o->cosine),
			qn_arena_printf(a, isfinite(o->sqnr) ? "%s dB, %s" : "%s, %s", qn_figure_db(a, o->sqnr), o->name));
	} else {
		tile(t, "outputs", "–", "not measured: no samples were given");
	}
	tile(t, "fell back", qn_arena_printf(a, "%zu", fell), qn_arena_printf(a, "of %zu %s could not have what was asked", r->n_layers, r->n_layers == 1 ? "layer" : "layers"));
	qn_text_add(t, "</div>\n");
}

/* --- sections ------------------------------------------------------------------------------------------------------------------------------ */
static void outputs(const qn_report *r, qn_text *t)
{
	qn_arena *a = t->arena;
	bool kl = false;
	if (r->n_outputs < 2 && !(r->n_outputs && !isnan(r->outputs[0].kl)))
		return;
	for (size_t i = 0; i < r->n_outputs; i++)
		kl |= !isnan(r->outputs[i].kl);
	title_of_section(t, "Outputs", "How far each output of the compiled graph is from the float model’s, over all samples.");
	qn_text_add(t, "<div class=\"scroll%s\"><table class=\"small\" id=\"outputs\"><thead><tr><th>output<th class=\"n\">cosine<th class=\"n\">dB<th class=\"n\">largest error%s</tr></thead><tbody>\n",
		r->n_outputs > 12 ? " low" : "", kl ? "<th class=\"n\">divergence, bits" : "");
	for (size_t i = 0; i < r->n_outputs; i++) {
		const qn_report_output *o = &r->outputs[i];
		qn_text_add(t, "<tr><td><code>");
		qn_report_html_string(t, o->name);
		qn_text_add(t, "</code><td class=\"n\">%s<td class=\"n\">%s<td class=\"n\">%s", qn_figure_cosine(a, o->cosine), qn_figure_db(a, o->sqnr), qn_figure(a, "%.3g", o->largest));
		if (kl)
			qn_text_add(t, "<td class=\"n\">%s", qn_figure(a, "%.5f", o->kl));
		qn_text_add(t, "</tr>\n");
	}
	qn_text_add(t, "</tbody></table></div>\n");
	end_section(t);
}

static const char *share_caption(const qn_report *r, qn_arena *a)
{
	if (!r->executed)
		return "Without samples only the weights can be compared. Layers that lose nothing are not drawn.";
	if (!r->attributed)
		return qn_arena_printf(a, "Filled: the layer’s result, with the error that its inputs bring. Shares of the damage are not known: %s.", r->no_share ? r->no_share : "there was no sample");
	bool compensated = false;
	for (size_t i = 0; i < r->n_layers; i++)
		compensated |= r->layers[i].rounding && !strcmp(r->layers[i].rounding, "gptq");
	const char *doubt = qn_report_adds_up(r) || !(r->alone > 0) ? "" : r->alone > r->together ? compensated ?
		" So the layers make up for each other’s errors, as gptq rounds them to, and shares say less." : " So together the layers err less than one by one, and shares say less." : " So the layers amplify each other’s errors, and shares say less.";
	return qn_arena_printf(a, "Filled: the layer’s result, with the error that its inputs bring. The share of the damage is the layer’s part of the outputs’ squared error when layers are quantized one at "
		"a time (%zu %s); alone they add up to %s of the error of all together.%s", r->attributed, r->attributed == 1 ? "sample" : "samples", r->together > 0 ? qn_figure(a, "%.0f %%", 100 * r->alone / r->together) : "none", doubt);
}

static void activations(const qn_report *r, qn_text *t)
{
	qn_text chart = {.arena = t->arena};
	if (!r->executed || !qn_chart_activations(r, &chart))
		return;
	title_of_section(t, "Activations and outliers", "What the most damaged layers read: the largest magnitude of each channel over the samples. A few channels far to the right of the box leave the others few levels.");
	qn_text_bytes(t, chart.s, chart.len);
	end_section(t);
}

/* No choice of weights has more error than a smaller one, so what is more is that of activations. */
static bool activations_add(const qn_tuning *u)
{
	const qn_curve_point *smaller = NULL;
	for (size_t i = 0; i < u->n && u->points[i].bytes <= u->chosen.bytes; i++)
		smaller = &u->points[i];
	return smaller && u->chosen.error > smaller->error;
}

static void curve(const qn_report *r, qn_text *t)
{
	qn_text chart = {.arena = t->arena};
	if (!qn_chart_curve(r, &chart))
		return;
	title_of_section(t, "Size against error", qn_arena_printf(t->arena, "The least error for each size that widths by layer can have, as the tuning found it on %zu samples. The ring is the choice%s.", r->tuning->samples,
		activations_add(r->tuning) ? ", above the curve of the weights by what 8-bit activations add" : ""));
	qn_text_bytes(t, chart.s, chart.len);
	end_section(t);
}

static void fallbacks(const qn_report *r, qn_text *t)
{
	qn_text list = {.arena = t->arena};
	bool any = qn_report_fallbacks(r, &list);
	title_of_section(t, "What fell back", any ? "Layers that could not have what was asked, and why." : "Nothing: every layer has what was asked for.");
	qn_text_bytes(t, any ? list.s : "", list.len);
	end_section(t);
}

static void advice(const qn_report *r, qn_text *t)
{
	if (!r->n_advice)
		return;
	title_of_section(t, "What to try next", "Each follows from the figures of this page. Add the flags to the command, or run the one that is there.");
	qn_text_add(t, "<ol class=\"advice\">\n");
	for (size_t i = 0; i < r->n_advice; i++) {
		qn_text_add(t, "<li><h3>%s</h3><p>", r->advice[i].title);
		qn_report_html_string(t, r->advice[i].text);
		qn_text_add(t, "</p>");
		if (r->advice[i].flags) {
			qn_text_add(t, "<pre>");
			qn_report_html_string(t, r->advice[i].flags);
			qn_text_add(t, "</pre>");
		}
		qn_text_add(t, "</li>\n");
	}
	qn_text_add(t, "</ol>\n");
	end_section(t);
}

static void option(qn_text *t, const char *name, const char *value)
{
	qn_text_add(t, "<div><dt>%s</dt><dd>", name);
	qn_report_html_string(t, value);
	qn_text_add(t, "</dd></div>");
}

static const char *equalized(const qn_report *r, qn_arena *a)
{
	size_t folded = 0;
	for (size_t i = 0; i < r->n_equalizations; i++)
		folded += !r->equalizations[i].why;
	return qn_arena_printf(a, "%zu of %zu tensors that could be", folded, r->n_equalizations);
}

static void options(const qn_report *r, qn_text *t)
{
	static const char *const methods[] = {"0: one scale a tensor", "1: balanced channels", "2: one scale, zero points", "3: balanced channels, zero points"};
	qn_arena *a = t->arena;
	title_of_section(t, "Options", "What this was made with.");
	qn_text_add(t, "<dl>");
	option(t, "rounding", strcmp(r->rounding, "minmax") ? r->rounding : qn_arena_printf(a, "minmax, percentile %s", qn_figure(a, "%g", r->percentile)));
	option(t, "samples", r->samples_name ? qn_arena_printf(a, "%s (%zu)", r->samples_name, r->samples_given) : "none");
	option(t, "activations", r->dynamic ? "scales for each row, at run time" : r->act_quantized ? methods[r->method] : "float");
	if (r->act_quantized && !r->dynamic)
		option(t, "ranges", r->mode);
	if (r->n_equalizations)
		option(t, "equalized", equalized(r, a));
	option(t, "embedding bits", qn_arena_printf(a, "%d", r->embedding_bits));
	option(t, "strict", r->strict ? "yes" : "no");
	qn_text_add(t, "</dl>\n<details><summary>the whole configuration</summary><pre>");
	const char *from = r->config;
	for (const char *end; (end = strchr(from, '\n')); from = end + 1) { /* line by line: line ends and tabs are layout here */
		while (*from == '\t') {
			qn_text_add(t, "  ");
			from++;
		}
		qn_report_html_string(t, qn_arena_strndup(a, from, (size_t)(end - from)));
		qn_text_add(t, "\n");
	}
	qn_text_add(t, "</pre></details>\n");
	end_section(t);
}

static void data(const qn_report *r, qn_text *t)
{
	qn_text_add(t, "<script type=\"application/json\" id=\"data\">\n");
	qn_report_json(r, t);
	qn_text_add(t, "</script>\n<script>\n");
	lines(t, qn_report_script, qn_report_script_lines);
	qn_text_add(t, "</script>\n");
}

void qn_report_html(const qn_report *r, qn_text *t)
{
	head(r, t);
	tiles(r, t);
	title_of_section(t, "Where the bytes are", "Weights and other constants, before and after. The archive also holds the graph’s text, and a .tgz is compressed.");
	qn_chart_bytes(r, t);
	end_section(t);
	title_of_section(t, "Bits", r->act_quantized ? "Width of each layer’s weights, and of the activations that it reads." : "Width of each layer’s weights. Activations are float.");
	qn_chart_bits(r, t);
	end_section(t);
	outputs(r, t);
	title_of_section(t, "Error by layer", share_caption(r, t->arena));
	if (qn_chart_errors(r, t))
		qn_text_add(t, "<p class=\"caption\">Marks on the upper edge lie above the scale.</p>\n");
	end_section(t);
	title_of_section(t, r->attributed ? "The layers that cost the most" : "The noisiest layers",
		r->attributed ? "By their share of the damage." : r->executed ? "By the signal to noise of the layer alone." : "By the signal to noise of their weights.");
	qn_chart_worst(r, t);
	end_section(t);
	activations(r, t);
	curve(r, t);
	fallbacks(r, t);
	advice(r, t);
	qn_text_add(t, "<section class=\"wide\">\n<h2>All layers</h2>\n<p class=\"caption\">In the order of the graph. %s</p>\n", r->executed ? "dB: signal to noise; own: the layer alone, on exact inputs." : "dB: signal to noise.");
	qn_report_table(r, t);
	end_section(t);
	options(r, t);
	qn_text_add(t, "</main>\n");
	data(r, t);
	qn_text_add(t, "</body>\n</html>\n");
}
