/* permute.c - regions of hidden tensors, their order, and the constants that follow it. */
#include "passes/gptq/permute.h"

#include "graph/op.h"
#include "passes/gptq/layer.h"

#include <stdlib.h>

/* All tensors that have to be in one order, with the constants that meet them. */
typedef struct region {
	qn_graph *g;
	qn_plan *p;
	qn_arena *a;
	size_t *in, number;  /* by value id, over all regions: the number of the region that holds it; this one's number, from 1 */
	int64_t width;
	qn_value **values;
	size_t n, cap;
	qn_layer **makers, **readers;
	size_t n_makers, cap_makers, n_readers, cap_readers;
	qn_use *constants;   /* of each channel, on element-wise operators */
	size_t n_constants, cap_constants;
} region;

static bool has_width(const qn_value *v, int64_t width)
{
	const qn_shape *s = &v->fact.shape;
	return s->rank > 0 && qn_dim_is_const(s->dim[s->rank - 1]) && s->dim[s->rank - 1].k == width;
}

/* One number for all channels. */
static bool is_broadcast(const qn_value *v)
{
	const qn_shape *s = &v->fact.shape;
	return s->rank == 0 || has_width(v, 1);
}

/* False where another region has the value: that one was given up before it came here, else it would hold all that is connected. */
static bool add_value(region *r, qn_value *v)
{
	if (r->in[v->id])
		return r->in[v->id] == r->number;
	r->in[v->id] = r->number;
	QN_GROW(r->a, r->values, r->n, r->cap);
	r->values[r->n++] = v;
	return true;
}

/* A linear layer whose weight can be put in another order for itself. */
static qn_layer *own_linear(region *r, qn_node *n)
{
	qn_layer *l = n->op == qn_op_find("quern", "Linear") ? qn_plan_find(r->p, n) : NULL;
	bool fits = l && !l->n_parts && l->weight_in == 1 && n->in[1]->is_const && n->in[1]->fact.shape.rank == 2 && !l->ready_weight;
	return fits && !qn_gptq_shares_weight(r->p, l) ? l : NULL;
}

/* The operands of an element-wise node follow; false where one cannot. */
static bool follow_operands(region *r, qn_node *n)
{
	for (int i = 0; i < n->n_in; i++) {
		qn_value *v = n->in[i];
		if (!v || is_broadcast(v))
			continue;
		if (!has_width(v, r->width) || v->fact.shape.rank > n->out[0]->fact.shape.rank)
			return false;
		if (!v->is_const) {
			if (!add_value(r, v))
				return false;
			continue;
		}
		QN_GROW(r->a, r->constants, r->n_constants, r->cap_constants);
		r->constants[r->n_constants++] = (qn_use){n, i};
	}
	return true;
}

static bool is_elementwise(const qn_node *n) { return (n->op->traits & QN_ELEMENTWISE) && n->n_out == 1 && n->out[0]; }

static bool follow_producer(region *r, qn_value *v)
{
	qn_node *n = v->producer;
	if (!n || v->is_const)
		return false;
	if (is_elementwise(n))
		return follow_operands(r, n);
	qn_layer *l = own_linear(r, n);
	if (!l || (qn_node_has_in(n, 2) && !n->in[2]->is_const))
		return false;
	QN_GROW(r->a, r->makers, r->n_makers, r->cap_makers);
	r->makers[r->n_makers++] = l;
	return true;
}

static bool follow_uses(region *r, qn_value *v)
{
	for (size_t i = 0; i < v->n_uses; i++) {
		qn_node *n = v->uses[i].node;
		if (is_elementwise(n)) {
			if (!has_width(n->out[0], r->width) || !add_value(r, n->out[0]))
				return false;
			continue;
		}
		qn_layer *l = v->uses[i].input == 0 ? own_linear(r, n) : NULL;
		if (!l)
			return false;
		QN_GROW(r->a, r->readers, r->n_readers, r->cap_readers);
		r->readers[r->n_readers++] = l;
	}
	return true;
}

/* Everything that is connected with v; false where something cannot follow. */
static bool grow(region *r, qn_value *v)
{
	bool whole = add_value(r, v);
	for (size_t i = 0; i < r->n; i++) {
		qn_value *at = r->values[i];
		whole &= !at->is_output && !at->is_input && has_width(at, r->width) && follow_producer(r, at) && follow_uses(r, at);
		if (!whole)
			return false;
	}
	return r->n_makers > 0;
}

/* --- the order ------------------------------------------------------------------------------------------------------------ */
typedef struct channel {
	double norm;
	int64_t from;
} channel;

static int by_norm(const void *a, const void *b)
{
	const channel *x = a, *y = b;
	if (x->norm > y->norm || x->norm < y->norm)
		return x->norm > y->norm ? -1 : 1;
	return x->from < y->from ? -1 : 1;
}

static qn_status find_order(region *r, int64_t *order)
{
	channel *c = QN_NEW(r->a, channel, r->width);
	for (int64_t i = 0; i < r->width; i++)
		c[i].from = i;
	for (size_t i = 0; i < r->n_readers; i++) {
		qn_arena a;
		qn_arena_init(&a, r->g->ctx);
		const qn_tensor *t;
		qn_status status = qn_graph_load(r->g, r->readers[i]->node->in[1], &a, &t);
		const float *w = status == QUERN_OK ? qn_tensor_f32(&a, t) : NULL;
		for (int64_t k = 0; w && k < r->readers[i]->n * r->width; k++)
			c[k % r->width].norm += (double)w[k] * (double)w[k];
		qn_arena_release(&a);
		QN_TRY(status);
	}
	qsort(c, (size_t)r->width, sizeof *c, by_norm);
	for (int64_t i = 0; i < r->width; i++)
		order[i] = c[i].from;
	return QUERN_OK;
}

/* --- constants ------------------------------------------------------------------------------------------------------------ */
typedef struct recipe {
	qn_value *source;
	const int64_t *order;
	bool rows; /* axis 0, else the last one */
} recipe;

static qn_status make_ordered(qn_graph *g, void *arg, qn_arena *scratch, const qn_tensor **out)
{
	const recipe *r = arg;
	const qn_tensor *t;
	QN_TRY(qn_graph_load(g, r->source, scratch, &t));
	qn_tensor *y = qn_tensor_new(scratch, t->type, t->rank, t->dim);
	size_t total = qn_tensor_bytes(t), size = qn_dtype_size(t->type);
	int64_t width = t->dim[r->rows ? 0 : t->rank - 1];
	size_t item = r->rows ? total / (size_t)width : size; /* what moves as a whole */
	const char *from = t->data;
	char *to = (char *)(uintptr_t)y->data;
	for (size_t i = 0; i < total / item; i++) {
		size_t in_row = i % (size_t)width;
		memcpy(to + i * item, from + (i - in_row + (size_t)r->order[in_row]) * item, item);
	}
	*out = y;
	return QUERN_OK;
}

static void set_ordered(qn_graph *g, qn_node *n, int input, const int64_t *order, bool rows)
{
	qn_value *old = n->in[input], *v = qn_graph_value(g, old->name);
	recipe *r = QN_NEW(g->arena, recipe, 1);
	*r = (recipe){old, order, rows};
	v->is_const = true;
	v->weight = old->weight;
	v->fact = (qn_fact){old->fact.type, old->fact.shape, NULL};
	v->make = make_ordered;
	v->make_arg = r;
	qn_node_set_input(g, n, input, v);
}

static qn_status reorder(region *r)
{
	qn_graph *g = r->g;
	int64_t *order = QN_NEW(g->arena, int64_t, r->width);
	QN_TRY(find_order(r, order));
	for (size_t i = 0; i < r->n_makers; i++) {
		qn_node *n = r->makers[i]->node;
		set_ordered(g, n, 1, order, true);
		if (qn_node_has_in(n, 2))
			set_ordered(g, n, 2, order, false);
		r->makers[i]->order = order;
	}
	for (size_t i = 0; i < r->n_constants; i++)
		set_ordered(g, r->constants[i].node, r->constants[i].input, order, false);
	for (size_t i = 0; i < r->n_readers; i++)
		set_ordered(g, r->readers[i]->node, 1, order, false);
	return QUERN_OK;
}

qn_status qn_gptq_permute(qn_graph *g, qn_plan *p, qn_arena *scratch, size_t *tensors)
{
	size_t *in = QN_NEW(scratch, size_t, g->n_values), number = 0;
	*tensors = 0;
	for (qn_layer *l = p->layers; l < p->layers + p->n; l++) {
		if (!l->rounding || l->form != QN_FORM_Q4_0 || in[l->node->in[0]->id])
			continue;
		qn_arena a;
		qn_arena_init(&a, g->ctx);
		region r = {.g = g, .p = p, .a = &a, .in = in, .number = ++number, .width = l->k};
		qn_status status = QUERN_OK;
		if (grow(&r, l->node->in[0])) {
			status = reorder(&r);
			*tensors += 1;
		}
		qn_arena_release(&a);
		QN_TRY(status);
	}
	return QUERN_OK;
}
