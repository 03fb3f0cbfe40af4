/* emit_names.c - identifiers and labels: legible, made from ONNX names, unique, and safe for every parser and file system. */
#include "passes/nnef/emitter.h"

#include <ctype.h>

enum { LONGEST_ID = 120, LONGEST_COMPONENT = 120, LONGEST_LABEL = 200 };

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Words of NNEF, and beginnings that the engine's parser takes for a literal ("inference" reads as "inf" there). */
static bool is_taken_by_grammar(const char *id)
{
	static const char *const words[] = {"version", "extension", "graph", "fragment", "tensor", "integer", "scalar", "logical", "string",
		"for", "in", "if", "else", "yield", "lengthof", "shape_of", "range_of"};
	static const char *const beginnings[] = {"true", "false", "inf"};
	for (size_t i = 0; i < QN_LEN(words); i++)
		if (!strcmp(id, words[i]))
			return true;
	for (size_t i = 0; i < QN_LEN(beginnings); i++)
		if (!strncmp(id, beginnings[i], strlen(beginnings[i])))
			return true;
	return false;
}

/* Keeps the beginning and the end, which tell most. */
static char *shorten(qn_arena *a, char *s, size_t longest)
{
	size_t n = strlen(s);
	if (n <= longest)
		return s;
	size_t head = longest / 3, tail = longest - head - 2;
	return qn_arena_printf(a, "%.*s__%s", (int)head, s, s + n - tail);
}

const char *qn_emit_identifier(qn_emitter *em, const char *text)
{
	while (*text && !is_word(*text))
		text++;
	char *s = qn_arena_strdup(em->arena, text);
	for (char *p = s; *p; p++)
		if (!is_word(*p))
			*p = '_';
	size_t n = strlen(s);
	while (n && s[n - 1] == '_' && text[n - 1] != '_')
		s[--n] = '\0';
	if (!n)
		s = qn_arena_strdup(em->arena, "v");
	s = shorten(em->arena, s, LONGEST_ID);
	if (isdigit((unsigned char)*s) || is_taken_by_grammar(s))
		s = qn_arena_printf(em->arena, "v_%s", s);
	const char *id = qn_names_unique(em->ids, s);
	qn_names_put(em->ids, id, em);
	return id;
}

/* A folder must not be called like a variable's file. */
static const char *component(qn_emitter *em, const char *p, size_t n, bool last)
{
	char *s = qn_arena_strndup(em->arena, p, n);
	for (char *c = s; *c; c++)
		if (!is_word(*c) && *c != '.' && *c != '-')
			*c = '_';
	if (s[0] == '.') /* hidden files are no members for the engine */
		s = qn_arena_printf(em->arena, "_%s", s);
	s = shorten(em->arena, s, LONGEST_COMPONENT);
	n = strlen(s);
	if (!last && n >= 4 && s[n - 4] == '.' && tolower((unsigned char)s[n - 3]) == 'd' && tolower((unsigned char)s[n - 2]) == 'a' &&
		tolower((unsigned char)s[n - 1]) == 't')
		s = qn_arena_printf(em->arena, "%s_", s);
	return s;
}

static char *lower_case(qn_arena *a, const char *s)
{
	char *low = qn_arena_strdup(a, s);
	for (char *p = low; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	return low;
}

const char *qn_emit_label(qn_emitter *em, const char *text)
{
	qn_text t = {.arena = em->arena};
	for (const char *p = text; *p;) {
		size_t n = strcspn(p, "/");
		bool last = p[n] == '\0';
		if (n && strspn(p, ".") < n) { /* empty components, "." and ".." go */
			const char *s = component(em, p, n, last);
			qn_text_add(&t, "%s%s", t.len ? "/" : "", s);
		}
		p += n + !last;
	}
	char *label = t.s ? t.s : qn_arena_strdup(em->arena, "value");
	size_t graph = strcspn(label, "/");
	if ((graph == 10 || !label[graph]) && !strncmp(label, "graph.nnef", 10)) /* would be, or lie under, the graph's own member */
		label = qn_arena_printf(em->arena, "_%s", label);
	if (strlen(label) > LONGEST_LABEL) { /* too many components: a flat name */
		for (char *p = label; *p; p++)
			if (*p == '/')
				*p = '_';
		label = shorten(em->arena, label, LONGEST_LABEL);
	}
	/* the suffix is chosen in lower case, so that no two labels differ in case only */
	const char *low = lower_case(em->arena, label), *unique = qn_names_unique(em->labels, low);
	qn_names_put(em->labels, unique, em);
	return qn_arena_printf(em->arena, "%s%s", label, unique + strlen(low));
}

const char *qn_emit_symbol(qn_emitter *em, const char *text)
{
	const char *id = qn_names_get(em->symbols, text);
	if (id)
		return id;
	bool any = false;
	for (const char *p = text; *p; p++)
		any |= is_word(*p);
	id = qn_emit_identifier(em, any ? text : "dim");
	qn_names_put(em->symbols, qn_arena_strdup(em->arena, text), (void *)(uintptr_t)id);
	qn_text_add(&em->symbol_lines, "extension tract_symbol %s;\n", id);
	return id;
}
