/* graph.c - making values and nodes, and the verbs that rewrite them. */
#include "graph/op.h"
#include "graph/names.h"

#include <assert.h>

qn_graph *qn_graph_new(qn_arena *a, qn_ctx *ctx, qn_dims *dims)
{
	qn_graph *g = QN_NEW(a, qn_graph, 1);
	g->ctx = ctx;
	g->arena = a;
	g->dims = dims;
	g->name = "graph";
	g->names = qn_names_new(a);
	return g;
}

/* Values and nodes are two name spaces in ONNX: nodes are kept under a prefix that no text from a file can begin with. */
static const char *node_key(qn_graph *g, const char *name) { return qn_arena_printf(g->arena, "\x01%s", name); }

qn_value *qn_graph_value(qn_graph *g, const char *name)
{
	qn_value *v = QN_NEW(g->arena, qn_value, 1);
	v->name = qn_names_unique(g->names, name && *name ? name : "value");
	v->fact.shape.rank = -1;
	v->id = (int)g->n_values;
	qn_names_put(g->names, v->name, v);
	QN_GROW(g->arena, g->values, g->n_values, g->cap_values);
	g->values[g->n_values++] = v;
	return v;
}

qn_value *qn_graph_find_value(qn_graph *g, const char *name) { return qn_names_get(g->names, name); }

qn_value *qn_graph_const(qn_graph *g, const char *name, const qn_tensor *t)
{
	qn_value *v = qn_graph_value(g, name);
	v->is_const = true;
	v->fact = (qn_fact){t->type == QN_DIM ? QN_I64 : t->type, qn_shape_of(t), t};
	return v;
}

static void add_use(qn_graph *g, qn_value *v, qn_node *n, int input)
{
	QN_GROW(g->arena, v->uses, v->n_uses, v->cap_uses);
	v->uses[v->n_uses++] = (qn_use){n, input};
}

static void drop_use(qn_value *v, const qn_node *n, int input)
{
	for (size_t i = 0; i < v->n_uses; i++)
		if (v->uses[i].node == n && v->uses[i].input == input) {
			memmove(v->uses + i, v->uses + i + 1, (v->n_uses - i - 1) * sizeof *v->uses);
			v->n_uses--;
			return;
		}
	assert(!"a use that its value does not know");
}

static void link_before(qn_graph *g, qn_node *n, qn_node *before)
{
	n->next = before;
	n->prev = before ? before->prev : g->last;
	*(n->prev ? &n->prev->next : &g->first) = n;
	*(before ? &before->prev : &g->last) = n;
}

static void unlink_node(qn_graph *g, qn_node *n)
{
	*(n->prev ? &n->prev->next : &g->first) = n->next;
	*(n->next ? &n->next->prev : &g->last) = n->prev;
	n->prev = n->next = NULL;
}

qn_node *qn_graph_node(qn_graph *g, qn_node *before, const qn_op *op, const char *name, qn_value *const *in, int n_in, int n_out)
{
	qn_node *n = QN_NEW(g->arena, qn_node, 1);
	n->op = op;
	n->op_type = op->name;
	n->domain = op->domain ? op->domain : "";
	n->opset = *n->domain ? 1 : QN_OWN_OPSET;
	n->id = g->next_node_id++;
	const char *key = qn_names_unique(g->names, node_key(g, name && *name ? name : op->name));
	n->name = key + 1;
	qn_names_put(g->names, key, n);
	n->n_in = n_in;
	n->in = QN_NEW(g->arena, qn_value *, n_in);
	for (int i = 0; i < n_in; i++) {
		n->in[i] = in[i];
		if (in[i])
			add_use(g, in[i], n, i);
	}
	n->n_out = n_out;
	n->out = QN_NEW(g->arena, qn_value *, n_out);
	for (int i = 0; i < n_out; i++) {
		n->out[i] = qn_graph_value(g, n_out == 1 ? n->name : qn_arena_printf(g->arena, "%s.%d", n->name, i));
		n->out[i]->producer = n;
		n->out[i]->producer_output = i;
	}
	link_before(g, n, before);
	return n;
}

qn_value *qn_graph_apply(qn_graph *g, qn_node *before, const char *op, const char *name, qn_value *const *in, int n_in)
{
	const qn_op *row = qn_op_find("quern", op);
	if (!row)
		row = qn_op_find("", op);
	assert(row && "a pass asks for an operator that has no row");
	return qn_graph_node(g, before, row, name, in, n_in, 1)->out[0];
}

/* --- attributes ----------------------------------------------------------------------------------------- */
static qn_attr *put_attr(qn_graph *g, qn_node *n, const char *name, qn_attr_kind kind)
{
	qn_attr *attrs = QN_NEW(g->arena, qn_attr, n->n_attrs + 1);
	int m = 0;
	for (int i = 0; i < n->n_attrs; i++)
		if (strcmp(n->attrs[i].name, name))
			attrs[m++] = n->attrs[i];
	attrs[m] = (qn_attr){.name = qn_arena_strdup(g->arena, name), .kind = kind};
	n->attrs = attrs;
	n->n_attrs = m + 1;
	return &attrs[m];
}

void qn_node_set_int(qn_graph *g, qn_node *n, const char *name, int64_t v) { put_attr(g, n, name, QN_ATTR_INT)->i = v; }
void qn_node_set_float(qn_graph *g, qn_node *n, const char *name, float v) { put_attr(g, n, name, QN_ATTR_FLOAT)->f = v; }

void qn_node_set_string(qn_graph *g, qn_node *n, const char *name, const char *v)
{
	put_attr(g, n, name, QN_ATTR_STRING)->s = qn_arena_strdup(g->arena, v);
}

void qn_node_set_tensor(qn_graph *g, qn_node *n, const char *name, const qn_tensor *v) { put_attr(g, n, name, QN_ATTR_TENSOR)->t = v; }

void qn_node_set_ints(qn_graph *g, qn_node *n, const char *name, const int64_t *v, size_t count)
{
	int64_t *copy = QN_NEW(g->arena, int64_t, count);
	if (count)
		memcpy(copy, v, count * sizeof *v);
	qn_attr *a = put_attr(g, n, name, QN_ATTR_INTS);
	a->ints = copy;
	a->n = count;
}

const qn_attr *qn_node_attr(const qn_node *n, const char *name)
{
	for (int i = 0; i < n->n_attrs; i++)
		if (!strcmp(n->attrs[i].name, name))
			return &n->attrs[i];
	return NULL;
}

int64_t qn_node_int(const qn_node *n, const char *name, int64_t otherwise)
{
	const qn_attr *a = qn_node_attr(n, name);
	return a && a->kind == QN_ATTR_INT ? a->i : otherwise;
}

float qn_node_float(const qn_node *n, const char *name, float otherwise)
{
	const qn_attr *a = qn_node_attr(n, name);
	return a && a->kind == QN_ATTR_FLOAT ? a->f : otherwise;
}

const char *qn_node_string(const qn_node *n, const char *name, const char *otherwise)
{
	const qn_attr *a = qn_node_attr(n, name);
	return a && a->kind == QN_ATTR_STRING ? a->s : otherwise;
}

/* --- rewriting ------------------------------------------------------------------------------------------- */
void qn_node_set_input(qn_graph *g, qn_node *n, int i, qn_value *v)
{
	if (i >= n->n_in) {
		qn_value **in = QN_NEW(g->arena, qn_value *, i + 1);
		if (n->n_in)
			memcpy(in, n->in, (size_t)n->n_in * sizeof *in);
		n->in = in;
		n->n_in = i + 1;
	}
	if (n->in[i])
		drop_use(n->in[i], n, i);
	n->in[i] = v;
	if (v)
		add_use(g, v, n, i);
}

void qn_value_replace_except(qn_graph *g, qn_value *old, qn_value *new_value, const qn_node *keep)
{
	assert(old != new_value);
	for (size_t i = 0; i < old->n_uses;) {
		qn_use use = old->uses[i];
		if (use.node == keep)
			i++;
		else
			qn_node_set_input(g, use.node, use.input, new_value);
	}
	for (int i = 0; i < g->n_outputs; i++)
		if (g->outputs[i] == old) {
			g->outputs[i] = new_value;
			new_value->is_output = true;
		}
	old->is_output = false;
}

void qn_value_replace(qn_graph *g, qn_value *old, qn_value *new_value) { qn_value_replace_except(g, old, new_value, NULL); }

void qn_graph_set_output(qn_graph *g, int i, qn_value *v)
{
	qn_value *old = g->outputs[i];
	g->outputs[i] = v;
	v->is_output = true;
	old->is_output = false;
	for (int k = 0; k < g->n_outputs; k++)
		old->is_output |= g->outputs[k] == old;
}

static void kill_value(qn_graph *g, qn_value *v) { g->values[v->id] = NULL; }

void qn_node_remove(qn_graph *g, qn_node *n)
{
	for (int i = 0; i < n->n_in; i++)
		if (n->in[i])
			drop_use(n->in[i], n, i);
	for (int i = 0; i < n->n_out; i++)
		if (n->out[i]) {
			assert(!n->out[i]->n_uses && !n->out[i]->is_output);
			kill_value(g, n->out[i]);
		}
	unlink_node(g, n);
}

void qn_node_move_before(qn_graph *g, qn_node *n, qn_node *before)
{
	unlink_node(g, n);
	link_before(g, n, before);
}

void qn_value_make_const(qn_graph *g, qn_value *v, const qn_tensor *t)
{
	(void)g;
	if (v->producer)
		v->producer->out[v->producer_output] = NULL;
	v->producer = NULL;
	v->is_const = true;
	v->fact.value = t;
}

void qn_node_become(qn_graph *g, qn_node *n, const qn_op *op, qn_value *const *in, int n_in)
{
	qn_value **kept = QN_NEW(g->arena, qn_value *, n_in);
	for (int i = 0; i < n_in; i++)
		kept[i] = in[i]; /* `in` may be part of n->in */
	for (int i = 0; i < n->n_in; i++)
		qn_node_set_input(g, n, i, NULL);
	n->n_in = 0;
	n->op = op;
	n->op_type = op->name;
	n->domain = op->domain ? op->domain : "";
	n->opset = *n->domain ? 1 : QN_OWN_OPSET;
	n->attrs = NULL;
	n->n_attrs = 0;
	for (int i = 0; i < n_in; i++)
		qn_node_set_input(g, n, i, kept[i]);
	if (n_in) /* trailing absent inputs are counted too */
		qn_node_set_input(g, n, n_in - 1, kept[n_in - 1]);
}

static bool is_dead(const qn_node *n)
{
	for (int i = 0; i < n->n_out; i++)
		if (n->out[i] && (n->out[i]->n_uses || n->out[i]->is_output))
			return false;
	return true;
}

void qn_graph_sweep(qn_graph *g)
{
	for (qn_node *n = g->last; n;) {
		qn_node *prev = n->prev;
		if (is_dead(n))
			qn_node_remove(g, n);
		n = prev;
	}
	for (size_t i = 0; i < g->n_values; i++) {
		qn_value *v = g->values[i];
		if (v && v->is_const && !v->producer && !v->n_uses && !v->is_output && !v->is_input)
			kill_value(g, v);
	}
}
