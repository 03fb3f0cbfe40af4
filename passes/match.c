/* match.c - names and globs over components. */
#include "passes/match.h"

static const char *component_end(const char *s)
{
	while (*s && *s != '/' && *s != '.')
		s++;
	return s;
}

/* '*' and '?' within one component */
static bool glob(const char *p, const char *pe, const char *s, const char *se)
{
	if (p == pe)
		return s == se;
	if (*p == '*')
		return glob(p + 1, pe, s, se) || (s < se && glob(p, pe, s + 1, se));
	return s < se && (*p == '?' || *p == *s) && glob(p + 1, pe, s + 1, se);
}

/* Whether the pattern matches a run of components that begins at s. */
static bool matches_at(const char *p, const char *s)
{
	for (;;) {
		const char *pe = component_end(p), *se = component_end(s);
		bool last = !*pe;
		if (!glob(p, pe, s, se))
			return false;
		if (last)
			return true; /* a prefix of the path is the module that holds the layer */
		if (!*se)
			return false;
		p = pe + 1;
		s = se + 1;
	}
}

static bool matches_path(const char *pattern, const char *name)
{
	while (*pattern == '/' || *pattern == '.')
		pattern++;
	if (!*pattern)
		return false;
	for (const char *s = name;;) {
		if (matches_at(pattern, s))
			return true;
		s = component_end(s);
		if (!*s)
			return false;
		s++;
	}
}

static const char *layer_name(const qn_layer *l, int i) { return i == 0 ? l->name : i == 1 ? l->weight : l->output; }

static size_t each(qn_plan *p, const char *name, bool whole, void (*fn)(void *user, qn_layer *l), void *user)
{
	size_t found = 0;
	for (size_t i = 0; i < p->n; i++) {
		bool hit = false;
		for (int k = 0; k < 3; k++)
			hit |= whole ? !strcmp(layer_name(&p->layers[i], k), name) : matches_path(name, layer_name(&p->layers[i], k));
		if (!hit)
			continue;
		found++;
		fn(user, &p->layers[i]);
	}
	return found;
}

/* --- what was meant instead ----------------------------------------------------------------------------------- */
enum { MOST_SUGGESTIONS = 3 };

typedef struct suggestion {
	const char *name;
	size_t distance;
} suggestion;

/* The end of a run of as many components as `name` has that begins at s; NULL when s has fewer. */
static const char *run_end(const char *name, const char *s)
{
	for (;;) {
		name = component_end(name);
		s = component_end(s);
		if (!*name)
			return s;
		if (!*s)
			return NULL;
		name++;
		s++;
	}
}

/* To the whole of `candidate` or to the run of components in it that is nearest. */
static size_t distance_to(const char *name, const char *candidate, size_t give_up)
{
	size_t length = strlen(name), best = qn_edit_distance(name, length, candidate, strlen(candidate), give_up);
	for (const char *s = candidate, *end; (end = run_end(name, s)); s++) {
		size_t d = qn_edit_distance(name, length, s, (size_t)(end - s), give_up);
		best = d < best ? d : best;
		s = component_end(s);
		if (!*s)
			break;
	}
	return best;
}

static void keep_nearest(suggestion *kept, const char *name, size_t distance)
{
	int at = MOST_SUGGESTIONS;
	while (at > 0 && (!kept[at - 1].name || distance < kept[at - 1].distance))
		at--;
	for (int i = 0; i < at; i++)
		if (kept[i].name && !strcmp(kept[i].name, name))
			return;
	if (at == MOST_SUGGESTIONS)
		return;
	memmove(kept + at + 1, kept + at, sizeof *kept * (size_t)(MOST_SUGGESTIONS - 1 - at));
	kept[at] = (suggestion){name, distance};
}

/* "; did you mean 'a', 'b' or 'c'?", or nothing. */
static const char *suggest(qn_arena *a, const qn_plan *p, const char *name)
{
	suggestion kept[MOST_SUGGESTIONS] = {0};
	size_t give_up = strlen(name) / 3 + 2;
	for (size_t i = 0; i < p->n; i++) {
		suggestion best = {NULL, give_up};
		for (int k = 0; k < 3; k++) {
			size_t d = distance_to(name, layer_name(&p->layers[i], k), give_up);
			if (d < best.distance)
				best = (suggestion){layer_name(&p->layers[i], k), d};
		}
		if (best.name)
			keep_nearest(kept, best.name, best.distance);
	}
	const char *text = "";
	for (int i = 0; i < MOST_SUGGESTIONS && kept[i].name; i++) {
		bool last = i == MOST_SUGGESTIONS - 1 || !kept[i + 1].name;
		text = qn_arena_printf(a, "%s%s'%s'%s", text, i == 0 ? "; did you mean " : last ? " or " : ", ", kept[i].name, last ? "?" : "");
	}
	return text;
}

qn_status qn_match_layers(qn_ctx *ctx, qn_plan *p, const char *what, const char *name, void (*fn)(void *user, qn_layer *l), void *user)
{
	if (each(p, name, true, fn, user) || each(p, name, false, fn, user))
		return QUERN_OK;
	qn_arena a;
	qn_arena_init(&a, ctx);
	qn_fail(ctx, QUERN_ERR_CONFIG, "%s: '%s' matches no layer%s (quern inspect lists them)", what, name, suggest(&a, p, name));
	qn_arena_release(&a);
	return QUERN_ERR_CONFIG;
}
