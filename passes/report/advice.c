/* advice.c - what to try next, each from figures of the report: no figure, no advice. */
#include "passes/plan.h"
#include "passes/report/report.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_PINS = 4 };

static void advise(qn_report *r, const char *title, const char *text, const char *flags)
{
	QN_GROW(r->arena, r->advice, r->n_advice, r->cap_advice);
	r->advice[r->n_advice++] = (qn_report_advice){title, text, flags};
}

/* In single quotes, so that a shell passes it as it is. */
static const char *quoted(qn_arena *a, const char *s)
{
	qn_text t = {.arena = a};
	qn_text_bytes(&t, "'", 1);
	for (; *s; s++)
		if (*s == '\'')
			qn_text_add(&t, "'\\''");
		else
			qn_text_bytes(&t, s, 1);
	qn_text_bytes(&t, "'", 1);
	return t.s;
}

/* --- ranking -------------------------------------------------------------------------------------------------------------------------- */
/* Larger is worse. */
static double badness(const qn_report *r, const qn_report_layer *l)
{
	if (r->attributed)
		return l->share;
	double db = isnan(l->own_sqnr) ? l->weight_sqnr : l->own_sqnr;
	return isnan(db) || isinf(db) ? -INFINITY : -db;
}

typedef struct ranked {
	double badness;
	size_t layer;
} ranked;

static int worst_first(const void *a, const void *b)
{
	const ranked *x = a, *y = b;
	if (x->badness > y->badness || x->badness < y->badness)
		return x->badness > y->badness ? -1 : 1;
	return (x->layer > y->layer) - (x->layer < y->layer);
}

size_t *qn_report_ranking(const qn_report *r, qn_arena *a)
{
	ranked *v = QN_NEW(a, ranked, r->n_layers + 1);
	size_t *order = QN_NEW(a, size_t, r->n_layers + 1);
	for (size_t i = 0; i < r->n_layers; i++)
		v[i] = (ranked){badness(r, &r->layers[i]), i};
	qsort(v, r->n_layers, sizeof *v, worst_first);
	for (size_t i = 0; i < r->n_layers; i++)
		order[i] = v[i].layer;
	return order;
}

bool qn_report_adds_up(const qn_report *r) { return r->attributed && r->alone < 1.6 * r->together && r->together < 1.6 * r->alone; }

/* --- rules ----------------------------------------------------------------------------------------------------------------------------- */
static void about_samples(qn_report *r)
{
	if (!r->executed)
		advise(r, "Measure on samples", "Nothing ran: the figures say what rounding did to the weights alone, not what it does to the outputs. With samples the compiled "
			"graph runs beside the float one, and each layer's part of the damage is known.", "--calib SAMPLES");
}

static void about_rounding(qn_report *r)
{
	size_t blocks = 0;
	for (size_t i = 0; i < r->n_layers; i++)
		blocks += r->layers[i].weight_bits <= 4 && *r->layers[i].role && strcmp(r->layers[i].role, "embedding");
	if (!blocks || !strcmp(r->rounding, "gptq"))
		return;
	bool samples = r->samples_name != NULL && strcmp(r->command, "eval");
	advise(r, "Let the samples round the weights", qn_arena_printf(r->arena, "%zu %s 4-bit weights rounded by the rule '%s'%s. The same bytes hold better weights when "
		"each layer is rounded against what it reads.", blocks, blocks == 1 ? "layer has" : "layers have", r->rounding, strcmp(r->rounding, "importance") ? ", which looks at the weights alone" : ""),
		samples ? "--rounding gptq" : "--rounding gptq --calib SAMPLES");
}

/* Whether the activation comes first: its weights have as many bits, and wider codes of it cost no bytes, or they alone are cleaner than the result. */
static bool activation_comes_first(const qn_report_layer *l) { return l->act_bits <= 8 && (l->weight_bits >= 8 || l->weight_sqnr > l->own_sqnr + 3); }

/* A pin that gives the layer the next width of its activation or its weights; NULL: it has the widest that helps. Adds the bytes that it costs. */
static const char *wider_pin(qn_arena *a, const qn_report_layer *l, double *bytes)
{
	double count = 1;
	for (int k = 0; k < l->rank; k++)
		count *= (double)l->shape[k];
	if (activation_comes_first(l))
		return qn_arena_printf(a, "%s=%d/16", l->name, l->weight_bits);
	if (l->weight_bits > 8)
		return NULL;
	*bytes += count * (l->weight_bits <= 4 ? 1 : 2) - (double)l->after;
	return qn_arena_printf(a, "%s=%d", l->name, l->weight_bits <= 4 ? 8 : 16);
}

/* The fewest layers that make up half of the damage, where they are few: more bits for them. */
static void about_damage(qn_report *r)
{
	qn_arena *a = r->arena;
	size_t *order = qn_report_ranking(r, a), n = 0;
	double share = 0, extra = 0;
	qn_text flags = {.arena = a};
	for (size_t i = 0; qn_report_adds_up(r) && i < r->n_layers && n < MOST_PINS; i++) {
		const qn_report_layer *l = &r->layers[order[i]];
		if (!(l->share * (double)r->n_layers > 2) || share > 0.5)
			break;
		const char *pin = wider_pin(a, l, &extra);
		if (!pin)
			continue;
		share += l->share;
		qn_text_add(&flags, "%s--layer %s", n++ ? " " : "", quoted(a, pin));
	}
	if (n && share > 0.1)
		advise(r, n == 1 ? "Give one layer more bits" : "Give a few layers more bits", qn_arena_printf(a, "%zu of %zu layers make%s %.0f %% of the damage. More bits for %s cost "
			"%s.", n, r->n_layers, n == 1 ? "s" : "", 100 * share, n == 1 ? "it" : "them", extra > 0 ? qn_arena_printf(a, "about %.2f MB", extra / 1e6) : "no bytes"), flags.s);
}

/* Channels far above the others leave the others few levels. */
static void about_outliers(qn_report *r)
{
	qn_arena *a = r->arena;
	size_t *order = qn_report_ranking(r, a), n = 0;
	double worst = 0;
	qn_text flags = {.arena = a};
	for (size_t i = 0; i < r->n_layers; i++) {
		const qn_report_layer *l = &r->layers[order[i]];
		double ratio = l->has_input && l->input.median > 0 ? l->input.top[0] / l->input.median : 0;
		if (l->act_bits > 8 || ratio < 16 || n >= MOST_PINS)
			continue;
		worst = ratio > worst ? ratio : worst;
		qn_text_add(&flags, "%s--activation-16bits %s", n++ ? " " : "", quoted(a, l->name));
	}
	if (!n)
		return;
	bool balances = r->method & 1;
	advise(r, "Outliers among the activations", qn_arena_printf(a, "%zu of the layers with 8-bit activations read%s a tensor whose largest channel is up to %.0f times the median one%s.", n,
		n == 1 ? "s" : "", worst, balances ? ", though its channels are balanced" : ""), balances || r->dynamic ? flags.s : r->method ? "--method 3" : "--method 1");
}

static void about_clipping(qn_report *r)
{
	size_t n = 0;
	double least = 1;
	for (size_t i = 0; i < r->n_layers; i++) {
		const qn_report_layer *l = &r->layers[i];
		double seen = fmax(-l->seen_low, l->seen_high), covers = l->has_input && !isnan(l->act_scale) && seen > 0 ? fmax(-l->act_low, l->act_high) / seen : 1;
		n += covers < 0.5;
		least = covers < least ? covers : least;
	}
	if (n && strcmp(r->mode, "max"))
		advise(r, "Ranges that cut off", qn_arena_printf(r->arena, "%zu layers have activation ranges of less than half of what was seen (down to %.0f %%). If these values matter, "
			"take the whole range.", n, 100 * least), "--mode max");
}

static void about_embeddings(qn_report *r)
{
	uint64_t tables = 0;
	int bits = 0;
	for (size_t i = 0; i < r->n_layers; i++)
		if (!strcmp(r->layers[i].role, "embedding")) {
			tables += r->layers[i].after;
			bits = r->layers[i].weight_bits > bits ? r->layers[i].weight_bits : bits;
		}
	double part = r->weights_after ? (double)tables / (double)r->weights_after : 0;
	if (part > 0.3 && bits > 8)
		advise(r, "Most is tables", qn_arena_printf(r->arena, "Embedding tables are %.0f %% of the bytes, at %d bits. At 8 bits (Q8_1) they would be little more than half as large.", 100 * part,
			bits), "--embedding-bits 8");
}

static void about_roleless(qn_report *r)
{
	const qn_report_layer *largest = NULL;
	uint64_t bytes = 0;
	size_t n = 0;
	for (size_t i = 0; i < r->n_layers; i++) {
		const qn_report_layer *l = &r->layers[i];
		if (*l->role || l->weight_bits <= 16 || !l->after)
			continue;
		bytes += l->after;
		n++;
		if (!largest || l->after > largest->after)
			largest = l;
	}
	if (largest && r->weights_after && (double)bytes > 0.1 * (double)r->weights_after)
		advise(r, "Layers without a role", qn_arena_printf(r->arena, "%zu weights without a role stay float and are %.0f %% of the bytes. Widths can be pinned by name; the largest is the one in the flag.",
			n, 100 * (double)bytes / (double)r->weights_after), qn_arena_printf(r->arena, "--layer %s", quoted(r->arena, qn_arena_printf(r->arena, "%s=8", largest->name))));
}

/* Widths by role or by hand, of a model with layers enough for a choice: what each layer really costs can be measured. */
static void about_tuning(qn_report *r)
{
	enum { ENOUGH = 4 };
	double bits = 0, count = 0;
	size_t layers = 0, narrow = 0;
	for (size_t i = 0; i < r->n_layers; i++) {
		const qn_report_layer *l = &r->layers[i];
		double n = *l->role && strcmp(l->role, "embedding") && l->after ? 1 : 0;
		for (int k = 0; k < l->rank; k++)
			n *= (double)l->shape[k];
		count += n;
		bits += 8 * (n > 0 ? (double)l->after : 0);
		layers += n > 0;
		narrow += n > 0 && l->weight_bits <= 4;
	}
	if (r->tuning || !r->executed || layers < ENOUGH || !narrow)
		return;
	advise(r, "Find the widths", qn_arena_printf(r->arena, "The widths follow roles, names or a file. 'quern tune' measures what each layer costs the outputs and gives the bits to those that need them: with half a bit "
		"more a weight than now (%.2f)%s. It writes an allocation that --load-bits takes.", bits / count, narrow < layers ? ", or at the present size" : ""), qn_arena_printf(r->arena,
		"quern tune MODEL.onnx -o WIDTHS.json --max-bits %.1f --calib SAMPLES", floor(bits / count * 10) / 10 + 0.5));
}

/* Nothing to mend: say where there is room. Of tuned widths the curve says so. */
static void about_room(qn_report *r)
{
	bool wide = false;
	double least = 1;
	for (size_t i = 0; i < r->n_outputs; i++)
		least = r->outputs[i].cosine < least ? r->outputs[i].cosine : least;
	for (size_t i = 0; i < r->n_layers; i++)
		wide |= !strcmp(r->layers[i].role, "ffn") && r->layers[i].weight_bits > 4;
	if (r->n_outputs && wide && least > 0.999 && !r->tuning)
		advise(r, "There is room", qn_arena_printf(r->arena, "Every output has a cosine of at least %.4f. Narrower weights may do; the feed-forward layers are most of them.", floor(least * 1e4) / 1e4),
			r->samples_name && strcmp(r->command, "eval") ? "--bits ffn=4 --rounding gptq" : "--bits ffn=4 --rounding gptq --calib SAMPLES");
}

void qn_report_advise(qn_report *r)
{
	about_samples(r);
	about_rounding(r);
	about_damage(r);
	about_tuning(r);
	about_outliers(r);
	about_clipping(r);
	about_embeddings(r);
	about_roleless(r);
	about_room(r);
}
