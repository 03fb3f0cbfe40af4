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

qn_status qn_match_layers(qn_ctx *ctx, qn_plan *p, const char *what, const char *name, void (*fn)(void *user, qn_layer *l), void *user)
{
	if (each(p, name, true, fn, user) || each(p, name, false, fn, user))
		return QUERN_OK;
	qn_arena a;
	qn_arena_init(&a, ctx);
	const char **names = QN_NEW(&a, const char *, p->n * 3 + 1);
	for (size_t i = 0; i < p->n * 3; i++)
		names[i] = layer_name(&p->layers[i / 3], (int)(i % 3));
	const char *near = qn_nearest(name, names, p->n * 3);
	qn_fail(ctx, QUERN_ERR_CONFIG, "%s: '%s' matches no layer%s%s%s (quern inspect lists them)", what, name, near ? "; did you mean '" : "",
		near ? near : "", near ? "'?" : "");
	qn_arena_release(&a);
	return QUERN_ERR_CONFIG;
}
