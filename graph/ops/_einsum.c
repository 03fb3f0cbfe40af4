#include "graph/ops/_einsum.h"
#include <ctype.h>

/* Letters are numbered as they are met; axes of "..." from the last one back, so that operands align at the end. */
typedef struct parser {
	qn_arena *arena;
	qn_einsum *e;
	int letter[128];              /* label of a letter, -1 where not met */
	int dots[QN_MAX_RANK];        /* label of the i-th axis of "..." from its end, -1 where not met */
	int count[QN_EINSUM_LABELS];  /* occurrences in operands */
	int max_dots;
} parser;

bool qn_term_has(const qn_term *t, int label)
{
	for (int i = 0; i < t->n; i++)
		if (t->label[i] == label)
			return true;
	return false;
}

void qn_term_join(qn_term *t, const qn_term *more)
{
	for (int i = 0; i < more->n; i++)
		t->label[t->n++] = more->label[i];
}

static const char *add_label(parser *p, int *slot, qn_term *t, bool make)
{
	if (*slot < 0) {
		if (!make)
			return "the output has a label that no operand has";
		if (p->e->n_labels == QN_EINSUM_LABELS - 1) /* one is left for emission */
			return "the equation has too many labels";
		*slot = p->e->n_labels++;
	}
	if (t->n == QN_EINSUM_LABELS)
		return "a term has too many labels";
	t->label[t->n++] = *slot;
	return NULL;
}

/* One term of the equation, up to ',' or '-' or the end. `rank` is that of the operand, -1 for the output. */
static const char *parse_term(parser *p, const char **text, int rank, qn_term *t)
{
	const char *s = *text;
	int letters = 0, dots = 0;
	for (const char *q = s; *q && *q != ',' && *q != '-'; q++) {
		letters += isalpha((unsigned char)*q) != 0;
		dots += *q == '.';
	}
	if (dots != 0 && dots != 3)
		return "dots must come three together";
	if (rank >= 0 && (dots ? letters > rank : letters != rank))
		return qn_arena_printf(p->arena, "a term of %d labels does not fit an operand of rank %d", letters, rank);
	int hidden = !dots ? 0 : rank >= 0 ? rank - letters : p->max_dots;
	for (; *s && *s != ',' && *s != '-'; s++) {
		const char *why = NULL;
		if (isalpha((unsigned char)*s)) {
			why = add_label(p, &p->letter[(unsigned char)*s], t, rank >= 0);
		} else if (*s == '.') {
			if (strncmp(s, "...", 3) != 0)
				return "dots must come three together";
			s += 2;
			for (int i = hidden - 1; i >= 0 && !why; i--)
				why = add_label(p, &p->dots[i], t, rank >= 0);
		} else if (!isspace((unsigned char)*s)) {
			return qn_arena_printf(p->arena, "the character '%c' has no meaning in an equation", *s);
		}
		if (why)
			return why;
	}
	if (rank >= 0 && hidden > p->max_dots)
		p->max_dots = hidden;
	for (int i = 0; i < t->n && rank >= 0; i++)
		p->count[t->label[i]]++;
	*text = s;
	return NULL;
}

/* Without "->": the axes of "...", then the letters that occur once, in alphabetical order. */
static void implicit_output(parser *p)
{
	qn_term *t = &p->e->out;
	for (int i = p->max_dots - 1; i >= 0; i--)
		t->label[t->n++] = p->dots[i];
	for (int c = 0; c < 128; c++)
		if (p->letter[c] >= 0 && p->count[p->letter[c]] == 1)
			t->label[t->n++] = p->letter[c];
}

const char *qn_einsum_parse(qn_arena *a, const qn_node *n, const int *rank, qn_einsum *e)
{
	parser p = {.arena = a, .e = e};
	memset(e, 0, sizeof *e);
	memset(p.letter, -1, sizeof p.letter);
	memset(p.dots, -1, sizeof p.dots);
	const char *s = qn_node_string(n, "equation", NULL), *why;
	if (!s)
		return "the equation is missing";
	if (n->n_in > QN_EINSUM_OPERANDS)
		return qn_arena_printf(a, "%d operands, at most %d are possible", n->n_in, QN_EINSUM_OPERANDS);
	e->n_in = n->n_in;
	for (int i = 0; i < n->n_in; i++) {
		if ((why = parse_term(&p, &s, rank[i], &e->in[i])))
			return why;
		if (*s == ',' ? i + 1 == n->n_in : i + 1 < n->n_in)
			return qn_arena_printf(a, "equation '%s' does not have %d operands", qn_node_string(n, "equation", ""), n->n_in);
		s += *s == ',';
	}
	if (*s == '-') {
		if (s[1] != '>')
			return "a '-' without '>'";
		s += 2;
		if ((why = parse_term(&p, &s, -1, &e->out)))
			return why;
		if (*s)
			return "text after the output term";
	} else {
		implicit_output(&p);
	}
	for (int i = 0; i < e->n_in; i++)
		for (int k = 0; k < e->in[i].n; k++)
			e->last_use[e->in[i].label[k]] = i;
	for (int k = 0; k < e->out.n; k++) {
		if (e->last_use[e->out.label[k]] == e->n_in)
			return "the output repeats a label";
		e->last_use[e->out.label[k]] = e->n_in;
	}
	return e->out.n > QN_MAX_RANK ? "the output has too many axes" : NULL;
}

void qn_einsum_needed(const qn_einsum *e, const qn_term *t, int operand, const qn_term *also, qn_term *kept)
{
	kept->n = 0;
	for (int i = 0; i < t->n; i++) {
		int label = t->label[i];
		if (!qn_term_has(kept, label) && (e->last_use[label] > operand || (also && qn_term_has(also, label))))
			kept->label[kept->n++] = label;
	}
}

void qn_einsum_split(const qn_einsum *e, const qn_term *l, const qn_term *r, int operand, qn_term *batch, qn_term *m, qn_term *n,
	qn_term *k)
{
	batch->n = m->n = n->n = k->n = 0;
	for (int i = 0; i < l->n; i++) {
		int label = l->label[i];
		qn_term *to = !qn_term_has(r, label) ? m : e->last_use[label] > operand ? batch : k;
		to->label[to->n++] = label;
	}
	for (int i = 0; i < r->n; i++)
		if (!qn_term_has(l, r->label[i]))
			n->label[n->n++] = r->label[i];
}
