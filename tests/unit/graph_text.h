/* graph_text.h - graphs written as text, one line a value:
 *
 *   input x f32[B,S,64]                  a dim is a number or a symbol
 *   const w f32[64,128]                  random numbers; the value counts as an initializer
 *   const n i64[2] = 0 16                or the numbers given
 *   y, - = Split(x, n) axis=-1           attributes: 3, 0.5, word, or 1,2,3 (one item: 1,)
 *   z = com.microsoft:Gelu(y, -)         '-': absent
 *   output z
 */
#ifndef QN_TEST_GRAPH_TEXT_H
#define QN_TEST_GRAPH_TEXT_H

#include "tests/unit/op_fixture.h"

static inline char *text_trim(char *s)
{
	while (*s == ' ')
		s++;
	char *end = s + strlen(s);
	while (end > s && (end[-1] == ' ' || end[-1] == '\r'))
		*--end = 0;
	return s;
}

/* The next part of *s up to `stop`, or NULL. */
static inline char *text_part(char **s, char stop)
{
	if (!*s)
		return NULL;
	char *part = *s, *end = strchr(part, stop);
	*s = end ? end + 1 : NULL;
	if (end)
		*end = 0;
	return text_trim(part);
}

static inline qn_dtype text_type(const char *name)
{
	for (int t = 0; t < QN_DTYPE_COUNT; t++)
		if (!strcmp(qn_dtype_name((qn_dtype)t), name))
			return (qn_dtype)t;
	fail_msg("no type '%s'", name);
	return QN_NONE;
}

/* "f32[B,64]" */
static inline qn_fact text_fact(char *s)
{
	char *type = text_part(&s, '[');
	qn_fact f = {.type = text_type(type)};
	char *dims = text_part(&s, ']'), *d;
	while (dims && *dims && (d = text_part(&dims, ','))) {
		char *end;
		long k = strtol(d, &end, 10);
		f.shape.dim[f.shape.rank++] = *end ? qn_dim_symbol(graph->dims, d) : qn_dim_const(k);
	}
	return f;
}

static inline void text_input(char *line)
{
	char *name = text_part(&line, ' ');
	qn_value *v = qn_graph_value(graph, name);
	v->is_input = true;
	v->fact = text_fact(text_trim(line));
	qn_value **inputs = QN_NEW(&arena, qn_value *, graph->n_inputs + 1);
	if (graph->n_inputs)
		memcpy(inputs, graph->inputs, (size_t)graph->n_inputs * sizeof *inputs);
	inputs[graph->n_inputs++] = v;
	graph->inputs = inputs;
}

static inline void text_const(char *line)
{
	char *name = text_part(&line, ' '), *fact = text_part(&line, '=');
	qn_fact f = text_fact(fact);
	int64_t dim[QN_MAX_RANK];
	for (int i = 0; i < f.shape.rank; i++)
		dim[i] = f.shape.dim[i].k;
	qn_tensor *t = qn_tensor_new(&arena, f.type, f.shape.rank, dim);
	int64_t n = qn_tensor_count(t);
	char *values = line ? text_trim(line) : NULL, *v;
	for (int64_t i = 0; i < n; i++) {
		v = text_part(&values, ' ');
		qn_tensor_set(op_data(t), f.type, i, v ? strtod(v, NULL) : (double)draw(-100, 100) / 200);
	}
	qn_value *c = qn_graph_const(graph, name, t);
	c->weight = c->name;
}

static inline void text_attribute(qn_node *n, char *name, char *value)
{
	char *end;
	if (strchr(value, ',') && strspn(value, "-0123456789,") == strlen(value)) {
		int64_t v[16];
		size_t count = 0;
		char *item;
		while ((item = text_part(&value, ',')))
			if (*item)
				v[count++] = strtol(item, NULL, 10);
		qn_node_set_ints(graph, n, name, v, count);
		return;
	}
	long i = strtol(value, &end, 10);
	if (!*end)
		qn_node_set_int(graph, n, name, i);
	else if (strtod(value, &end), !*end)
		qn_node_set_float(graph, n, name, strtof(value, NULL));
	else
		qn_node_set_string(graph, n, name, value);
}

static inline void text_node(char *line)
{
	char *outs = text_part(&line, '='), *op = text_part(&line, '('), *args = text_part(&line, ')'),
	     *rest = line ? text_trim(line) : NULL;
	char *colon = strchr(op, ':');
	const char *domain = colon ? op : "";
	if (colon)
		*colon = 0;
	const qn_op *row = qn_op_find(domain, colon ? colon + 1 : op);
	if (!row)
		fail_msg("no operator '%s'", op);
	qn_value *in[16];
	const char *names[16];
	int n_in = 0, n_out = 0;
	char *part;
	while (*args && (part = text_part(&args, ','))) {
		in[n_in] = strcmp(part, "-") ? qn_graph_find_value(graph, part) : NULL;
		if (!in[n_in++] && strcmp(part, "-"))
			fail_msg("no value '%s'", part);
		if (!args)
			break;
	}
	while ((part = text_part(&outs, ',')))
		names[n_out++] = part;
	qn_node *n = qn_graph_node(graph, NULL, row, names[0], in, n_in, 0);
	n->n_out = n_out;
	n->out = QN_NEW(&arena, qn_value *, n_out);
	for (int i = 0; i < n_out; i++) {
		if (!strcmp(names[i], "-"))
			continue;
		n->out[i] = qn_graph_value(graph, names[i]);
		n->out[i]->producer = n;
		n->out[i]->producer_output = i;
	}
	while (rest && *rest && (part = text_part(&rest, ' '))) {
		char *value = strchr(part, '=');
		assert_non_null(value);
		*value++ = 0;
		text_attribute(n, part, value);
		rest = rest ? text_trim(rest) : NULL;
	}
}

static inline void text_output(const char *name)
{
	qn_value **outputs = QN_NEW(&arena, qn_value *, graph->n_outputs + 1);
	const char **names = QN_NEW(&arena, const char *, graph->n_outputs + 1);
	for (int i = 0; i < graph->n_outputs; i++) {
		outputs[i] = graph->outputs[i];
		names[i] = graph->output_names[i];
	}
	outputs[graph->n_outputs] = qn_graph_find_value(graph, name);
	names[graph->n_outputs++] = qn_arena_strdup(&arena, name);
	assert_non_null(outputs[graph->n_outputs - 1]);
	outputs[graph->n_outputs - 1]->is_output = true;
	graph->outputs = outputs;
	graph->output_names = names;
}

/* Adds the lines to the fixture's graph. */
static inline void text_graph(const char *text)
{
	char *copy = qn_arena_strdup(&arena, text), *line;
	while ((line = text_part(&copy, '\n'))) {
		if (!*line)
			continue;
		if (!strncmp(line, "input ", 6))
			text_input(line + 6);
		else if (!strncmp(line, "const ", 6))
			text_const(line + 6);
		else if (!strncmp(line, "output ", 7))
			text_output(text_trim(line + 7));
		else
			text_node(line);
	}
}

static inline int text_count(const char *op)
{
	int k = 0;
	for (const qn_node *n = graph->first; n; n = n->next)
		k += !strcmp(n->op->name, op);
	return k;
}

#endif
