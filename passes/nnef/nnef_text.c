#include "passes/nnef/nnef_text.h"

#include "graph/names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum { END, WORD, NUMBER, STRING, SIGN, BROKEN } token_kind;

typedef struct token {
	token_kind kind;
	const char *at;
	size_t n;
} token;

typedef struct reader {
	qn_ctx *ctx;
	qn_arena *a;
	const char *text, *p;
	token now;
	qn_nnef_text *out;
	qn_names *operators; /* name -> index + 1 */
	qn_names *ports;     /* name -> definition pending: the first port of that name */
} reader;

static int line_of(const reader *r)
{
	int line = 1;
	for (const char *p = r->text; p < r->now.at; p++)
		line += *p == '\n';
	return line;
}

static qn_status bad(reader *r, const char *what)
{
	QN_FAIL(r->ctx, QUERN_ERR_FORMAT, "'graph.nnef' line %d: %s", line_of(r), what);
}

static void next(reader *r)
{
	for (;;) {
		while (isspace((unsigned char)*r->p))
			r->p++;
		if (*r->p != '#')
			break;
		r->p += strcspn(r->p, "\n");
	}
	const char *p = r->p;
	token_kind kind = SIGN;
	size_t n = 1;
	if (!*p) {
		kind = END;
		n = 0;
	} else if (isalpha((unsigned char)*p) || *p == '_') {
		kind = WORD;
		while (isalnum((unsigned char)p[n]) || p[n] == '_')
			n++;
	} else if (isdigit((unsigned char)*p)) {
		kind = NUMBER;
		while (isalnum((unsigned char)p[n]) || p[n] == '.' || (strchr("+-", p[n]) && p[n] && strchr("eE", p[n - 1])))
			n++;
	} else if (*p == '\'' || *p == '"') {
		kind = STRING;
		while (p[n] && p[n] != *p)
			n += p[n] == '\\' && p[n + 1] ? 2 : 1;
		if (!p[n])
			kind = BROKEN;
		else
			n++;
	} else if (p[1] == '=' && strchr("=!<>", *p)) {
		n = 2;
	} else if (p[0] == '-' && p[1] == '>') {
		n = 2;
	}
	r->now = (token){kind, p, n};
	r->p = p + n;
}

static bool is(const reader *r, const char *s)
{
	return r->now.n == strlen(s) && !strncmp(r->now.at, s, r->now.n) && r->now.kind != STRING;
}

static char *text_of(reader *r, token t) { return qn_arena_strndup(r->a, t.at, t.n); }

static qn_status expect(reader *r, const char *s)
{
	if (!is(r, s))
		return bad(r, qn_arena_printf(r->a, "'%s' expected", s));
	next(r);
	return QUERN_OK;
}

static void count_operator(reader *r, const char *name)
{
	qn_nnef_text *o = r->out;
	size_t k = (size_t)(uintptr_t)qn_names_get(r->operators, name);
	if (!k) {
		QN_GROW(r->a, o->operators, o->n_operators, o->cap_operators);
		o->operators[o->n_operators++] = (qn_nnef_operator){name, 0};
		k = o->n_operators;
		qn_names_put(r->operators, name, (void *)(uintptr_t)k);
	}
	o->operators[k - 1].count++;
}

static qn_status read_extension(reader *r)
{
	next(r);
	bool symbol = is(r, "tract_symbol");
	for (next(r); !is(r, ";"); next(r)) {
		if (r->now.kind == END || r->now.kind == BROKEN)
			return bad(r, "an extension without an end");
		if (symbol && r->now.kind == WORD) {
			QN_GROW(r->a, r->out->symbols, r->out->n_symbols, r->out->cap_symbols);
			r->out->symbols[r->out->n_symbols++] = text_of(r, r->now);
		}
	}
	next(r);
	return QUERN_OK;
}

/* A fragment: to its ';' or through its body. */
static qn_status skip_fragment(reader *r)
{
	int depth = 0;
	for (;; next(r)) {
		if (r->now.kind == END || r->now.kind == BROKEN)
			return bad(r, "a fragment without an end");
		depth += is(r, "{") - is(r, "}");
		if (depth == 0 && (is(r, "}") || is(r, ";")))
			break;
	}
	next(r);
	return QUERN_OK;
}

static qn_status read_ports(reader *r, qn_nnef_port **ports, size_t *n, size_t *cap)
{
	QN_TRY(expect(r, "("));
	while (r->now.kind == WORD) {
		QN_GROW(r->a, *ports, *n, *cap);
		(*ports)[(*n)++] = (qn_nnef_port){text_of(r, r->now), ""};
		next(r);
		if (is(r, ","))
			next(r);
	}
	return expect(r, ")");
}

static const char *infix_name(const reader *r)
{
	static const char *const names[][2] = {{"+", "add"}, {"-", "sub"}, {"*", "mul"}, {"/", "div"}, {"^", "pow"}, {"<", "lt"},
		{">", "gt"}, {"<=", "le"}, {">=", "ge"}, {"==", "eq"}, {"!=", "ne"}};
	for (size_t i = 0; i < QN_LEN(names); i++)
		if (is(r, names[i][0]))
			return names[i][1];
	return NULL;
}

/* label = 'x' of a variable */
static qn_status read_label(reader *r)
{
	next(r);
	QN_TRY(expect(r, "="));
	if (r->now.kind != STRING)
		return bad(r, "a label that is no string");
	QN_GROW(r->a, r->out->labels, r->out->n_labels, r->out->cap_labels);
	r->out->labels[r->out->n_labels++] = qn_arena_strndup(r->a, r->now.at + 1, r->now.n - 2);
	next(r);
	return QUERN_OK;
}

/* The expression up to ';'. Arithmetic on sizes stands in square brackets and is not counted. */
static qn_status read_expression(reader *r)
{
	int brackets = 0;
	bool operand = false, variable = false;
	while (!is(r, ";")) {
		token t = r->now;
		const char *infix = infix_name(r);
		if (t.kind == END || t.kind == BROKEN)
			return bad(r, "a statement without an end");
		brackets += is(r, "[") - is(r, "]");
		if (variable && is(r, "label")) {
			QN_TRY(read_label(r));
			operand = true;
			continue;
		}
		if (infix && operand && !brackets)
			count_operator(r, infix);
		operand = t.kind == WORD || t.kind == NUMBER || is(r, ")") || is(r, "]");
		next(r);
		if (t.kind != WORD)
			continue;
		bool generic = is(r, "<");
		if (generic) { /* name<type>( */
			const char *p = r->p;
			while (isspace((unsigned char)*p) || isalpha((unsigned char)*p) || *p == '?')
				p++;
			if (*p != '>')
				continue;
			r->p = p + 1;
			next(r);
		}
		if (!is(r, "("))
			continue;
		const char *name = text_of(r, t);
		variable = !strcmp(name, "variable");
		if (!variable && strcmp(name, "external") && strcmp(name, "tract_core_external"))
			count_operator(r, name);
	}
	return QUERN_OK;
}

/* Ports of one name share a definition. */
static void define(reader *r, const char *name, const char *from, const char *to)
{
	while (to > from && isspace((unsigned char)to[-1]))
		to--;
	qn_nnef_text *o = r->out;
	const char *text = NULL;
	for (size_t i = 0; i < o->n_inputs + o->n_outputs; i++) {
		qn_nnef_port *p = i < o->n_inputs ? &o->inputs[i] : &o->outputs[i - o->n_inputs];
		if (strcmp(p->name, name))
			continue;
		if (!text)
			text = qn_arena_strndup(r->a, from, (size_t)(to - from));
		p->definition = text;
	}
}

static qn_status read_statement(reader *r)
{
	const char **names = NULL;
	size_t n = 0, cap = 0;
	for (; !is(r, "="); next(r)) {
		if (r->now.kind == END || r->now.kind == BROKEN || is(r, ";") || is(r, "}"))
			return bad(r, "a statement without '='");
		if (r->now.kind == WORD && qn_names_get(r->ports, text_of(r, r->now))) {
			QN_GROW(r->a, names, n, cap);
			names[n++] = text_of(r, r->now);
		}
	}
	next(r);
	const char *from = r->now.at;
	QN_TRY(read_expression(r));
	for (size_t i = 0; i < n; i++)
		define(r, names[i], from, r->now.at);
	next(r);
	return QUERN_OK;
}

static int by_count(const void *a, const void *b)
{
	const qn_nnef_operator *x = a, *y = b;
	return x->count != y->count ? (x->count < y->count) - (x->count > y->count) : strcmp(x->name, y->name);
}

static qn_status read_graph(reader *r)
{
	qn_nnef_text *o = r->out;
	next(r);
	if (r->now.kind != WORD)
		return bad(r, "a graph without a name");
	o->graph = text_of(r, r->now);
	next(r);
	QN_TRY(read_ports(r, &o->inputs, &o->n_inputs, &o->cap_inputs));
	QN_TRY(expect(r, "->"));
	QN_TRY(read_ports(r, &o->outputs, &o->n_outputs, &o->cap_outputs));
	for (size_t i = 0; i < o->n_inputs; i++)
		qn_names_put(r->ports, o->inputs[i].name, r);
	for (size_t i = 0; i < o->n_outputs; i++)
		qn_names_put(r->ports, o->outputs[i].name, r);
	QN_TRY(expect(r, "{"));
	while (!is(r, "}"))
		QN_TRY(read_statement(r));
	next(r);
	if (o->n_operators)
		qsort(o->operators, o->n_operators, sizeof *o->operators, by_count);
	return QUERN_OK;
}

qn_status qn_nnef_text_read(qn_ctx *ctx, qn_arena *a, const char *text, qn_nnef_text *out)
{
	*out = (qn_nnef_text){.graph = NULL};
	reader r = {.ctx = ctx, .a = a, .text = text, .p = text, .out = out, .operators = qn_names_new(a), .ports = qn_names_new(a)};
	next(&r);
	if (!is(&r, "version"))
		return bad(&r, "it does not start with 'version'");
	while (!is(&r, ";") && r.now.kind != END)
		next(&r);
	QN_TRY(expect(&r, ";"));
	while (is(&r, "extension"))
		QN_TRY(read_extension(&r));
	while (is(&r, "fragment"))
		QN_TRY(skip_fragment(&r));
	if (!is(&r, "graph"))
		return bad(&r, "'graph' expected");
	QN_TRY(read_graph(&r));
	if (r.now.kind != END)
		return bad(&r, "text after the graph");
	return QUERN_OK;
}
