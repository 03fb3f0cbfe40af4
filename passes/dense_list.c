/* dense_list.c - what hangs on a list of chosen positions, and whether each row of it is worked on alone. */
#include "passes/dense.h"

static void note_symbol(void *user, const char *text)
{
	qn_list *l = user;
	if (!strcmp(text, l->symbol))
		l->symbol = NULL; /* seen */
}

static bool mentions(const qn_list *l, qn_dim d)
{
	qn_list probe = *l;
	qn_dim_each_symbol(d, note_symbol, &probe);
	return !probe.symbol;
}

/* The one axis that runs along the list: *axis is -1 where none does. False where the list is mixed into an axis. */
static bool find_axis(const qn_list *l, const qn_shape *s, int *axis)
{
	*axis = -1;
	for (int i = 0; i < s->rank; i++) {
		if (!mentions(l, s->dim[i]))
			continue;
		if (*axis >= 0 || !qn_dim_equal(s->dim[i], l->length))
			return false;
		*axis = i;
	}
	return s->rank >= 0;
}

/* --- coordinates ------------------------------------------------------------------------------------------------ */
static qn_coords some_of(const qn_coords *c, int64_t from, qn_dim n)
{
	qn_coords r = {0};
	if (!qn_dim_is_const(n) || from < 0 || n.k < 1 || from + n.k > c->n)
		return r;
	r = (qn_coords){(int)n.k, c->axis, {0}};
	memcpy(r.of, c->of + from, (size_t)n.k * sizeof *r.of);
	return r;
}

static bool known_int(const qn_node *n, int i, int64_t *v)
{
	const qn_tensor *t = qn_node_has_in(n, i) ? n->in[i]->fact.value : NULL;
	if (!t || t->type == QN_DIM || qn_tensor_count(t) != 1)
		return false;
	*v = qn_tensor_get_i64(t, 0);
	return true;
}

static bool named(const qn_node *n, const char *name)
{
	return qn_node_is(n, name);
}

static int axis_of(const qn_node *n, int rank)
{
	int64_t axis = qn_node_int(n, "axis", 0);
	return (int)(axis < 0 ? axis + rank : axis);
}

static qn_coords joined(const qn_list *l, const qn_node *n)
{
	qn_coords r = {0, n->out[0]->fact.shape.rank - 1, {0}};
	if (axis_of(n, n->out[0]->fact.shape.rank) != r.axis)
		return (qn_coords){0};
	for (int i = 0; i < n->n_in; i++) {
		qn_coords c = qn_list_coords(l, n->in[i]);
		if (!c.n || (c.n > 1 && c.axis != r.axis) || r.n + c.n > QN_MAX_RANK || !qn_dim_is(n->in[i]->fact.shape.dim[r.axis], c.n))
			return (qn_coords){0};
		memcpy(r.of + r.n, c.of, (size_t)c.n * sizeof *c.of);
		r.n += c.n;
	}
	return r;
}

/* Coordinates in output `out` of a node that reads some. */
static qn_coords coords_of(const qn_list *l, const qn_node *n, int out)
{
	qn_coords c = qn_list_coords(l, n->in[0]), none = {0};
	int rank = n->in[0]->fact.shape.rank;
	int64_t at;
	if (named(n, "Concat"))
		return joined(l, n);
	if (!c.n)
		return none;
	if (c.n == 1)
		return (n->op->traits & (QN_LAYOUT | QN_KEEPS_WEIGHT)) ? c : none;
	const qn_attr *perm = qn_node_attr(n, "perm");
	if (named(n, "Transpose") && perm) {
		for (size_t i = 0; i < perm->n; i++)
			if (perm->ints[i] == c.axis)
				return (qn_coords){c.n, (int)i, {c.of[0], c.of[1], c.of[2], c.of[3], c.of[4], c.of[5], c.of[6], c.of[7]}};
		return none;
	}
	if (named(n, "Identity") || named(n, "Cast"))
		return c;
	if (named(n, "Split") && axis_of(n, rank) == c.axis) {
		at = 0;
		for (int i = 0; i < out; i++)
			at += n->out[i] ? n->out[i]->fact.shape.dim[c.axis].k : 1;
		return some_of(&c, at, n->out[out]->fact.shape.dim[c.axis]);
	}
	if (named(n, "Gather") && axis_of(n, rank) == c.axis && known_int(n, 1, &at))
		return some_of(&c, at < 0 ? at + c.n : at, qn_dim_const(1));
	int64_t axis, step;
	if (named(n, "Slice") && known_int(n, 1, &at) && known_int(n, 3, &axis) && (axis < 0 ? axis + rank : axis) == c.axis &&
		(!qn_node_has_in(n, 4) || (known_int(n, 4, &step) && step == 1)))
		return some_of(&c, at < 0 ? at + c.n : at, n->out[0]->fact.shape.dim[c.axis]);
	return none;
}

/* --- nodes that work on each row alone ---------------------------------------------------------------------------- */
static bool is_row_wise(const qn_list *l, const qn_node *n)
{
	int in = -1, out = n->out[0] ? qn_list_axis(l, n->out[0]) : -1;
	for (int i = 0; i < n->n_in && in < 0; i++)
		in = qn_list_axis(l, n->in[i]);
	switch (n->op->hint) {
	case QN_HINT_CONTRACTION: /* with a constant matrix, or for each row apart */
		return n->op->weight_input && qn_node_has_in(n, n->op->weight_input - 1) && n->in[n->op->weight_input - 1]->is_const &&
		       n->in[n->op->weight_input - 1]->fact.shape.rank == 2 && out == in;
	case QN_HINT_NORM:
		return out + 1 < n->out[0]->fact.shape.rank;
	case QN_HINT_SOFTMAX:
		return n->out[0] && axis_of(n, n->out[0]->fact.shape.rank) != out;
	case QN_HINT_SELECTION:
		return false;
	case QN_HINT_POSITION:
	case QN_HINT_NONE:
		break;
	}
	if (n->op->traits & (QN_ELEMENTWISE | QN_LAYOUT | QN_KEEPS_WEIGHT))
		return true;
	if (named(n, "Split") || named(n, "Concat") || named(n, "Slice")) {
		int64_t step = 1;
		return out == in && (!qn_node_has_in(n, 4) || (known_int(n, 4, &step) && step > 0));
	}
	return (named(n, "Gather") || named(n, "GatherND")) && qn_list_axis(l, n->in[0]) < 0;
}

bool qn_list_is_scatter(const qn_node *n)
{
	return named(n, "ScatterND") || named(n, "ScatterElements");
}

static bool same_dims(const qn_shape *a, int from_a, const qn_shape *b, int from_b)
{
	if (a->rank - from_a != b->rank - from_b)
		return false;
	for (int i = 0; from_a + i < a->rank; i++)
		if (!qn_dim_equal(a->dim[from_a + i], b->dim[from_b + i]))
			return false;
	return true;
}

/* Rows of the list put, or added, to where they came from: along one axis of the mask, or along all in their order. */
static bool scatter_fits(qn_list *l, const qn_node *n)
{
	const qn_value *data = n->in[0], *updates = n->in[2];
	qn_coords c = qn_list_coords(l, n->in[1]);
	const char *how = qn_node_string(n, "reduction", "none");
	if (qn_list_axis(l, data) >= 0 || qn_list_axis(l, updates) != 0 || !c.n || (strcmp(how, "none") && strcmp(how, "add")))
		return false;
	if (named(n, "ScatterElements")) {
		if (axis_of(n, data->fact.shape.rank) != 0 || c.n != 1 || !qn_shape_equal(&n->in[1]->fact.shape, &updates->fact.shape))
			return false;
	} else if (n->in[1]->fact.shape.rank != 2 || !qn_dim_is(n->in[1]->fact.shape.dim[1], c.n)) {
		return false;
	}
	bool all = c.n == l->rank;
	for (int i = 0; i < c.n; i++) {
		all &= c.of[i] == i;
		if (!qn_dim_equal(data->fact.shape.dim[i], l->dim[c.of[i]]))
			return false;
	}
	int into = all && l->rank > 1 ? -1 : c.of[0];
	if ((!all && c.n > 1) || !same_dims(&data->fact.shape, c.n, &updates->fact.shape, 1) || (l->into != -2 && l->into != into))
		return false;
	l->into = into;
	return true;
}

static bool follow_node(qn_list *l, qn_node *n)
{
	bool reads = false;
	for (int i = 0; i < n->n_in; i++)
		reads |= qn_list_axis(l, n->in[i]) >= 0;
	for (int i = 0; i < n->n_out && !reads; i++) { /* nothing else may make something of this length */
		int axis;
		if (n->out[i] && n->out[i]->fact.shape.rank >= 0 && !n->out[i]->is_const &&
			(!find_axis(l, &n->out[i]->fact.shape, &axis) || axis >= 0))
			return false;
	}
	if (!reads)
		return true;
	QN_GROW(l->a, l->nodes, l->n_nodes, l->cap_nodes);
	l->nodes[l->n_nodes++] = n;
	if (qn_list_is_scatter(n))
		return scatter_fits(l, n);
	bool index = true;
	for (int i = 0; i < n->n_out; i++) {
		int axis;
		if (!n->out[i])
			continue;
		if (n->out[i]->is_output || !find_axis(l, &n->out[i]->fact.shape, &axis) || axis < 0)
			return false;
		l->axis[n->out[i]->id] = (int8_t)(axis + 1);
		l->coords[n->out[i]->id] = coords_of(l, n, i);
		index &= l->coords[n->out[i]->id].n > 0;
	}
	return index || is_row_wise(l, n);
}

bool qn_list_follow(qn_list *l)
{
	l->into = -2;
	l->n_values = l->g->n_values;
	l->coords = QN_NEW(l->a, qn_coords, l->n_values);
	l->axis = QN_NEW(l->a, int8_t, l->n_values);
	qn_value *v = l->source->out[0];
	l->axis[v->id] = 2;
	qn_coords *c = &l->coords[v->id];
	c->n = l->rank;
	for (int i = 0; i < l->rank; i++)
		c->of[i] = i;
	for (qn_node *n = l->source->next; n; n = n->next)
		if (!follow_node(l, n))
			return false;
	return l->into != -2 && !v->is_output;
}
