/* dense.c - a list of chosen positions becomes all positions with a mask.
 *
 * needs: shapes. gives: no NonZero where rows are taken by a mask, worked on one by one, and put or added back to where they came from (the
 * experts of a mixture): every row is worked on, and the mask chooses what is added. The sizes no longer depend on data; the results are
 * the same. spoils: facts (infer again). What only depends on the row's place along one axis is worked on once, whatever else the mask
 * ranges over. */
#include "passes/dense.h"

#include "graph/ops/_positions.h"
#include "passes/passes.h"

typedef struct rewrite {
	qn_list *l;
	qn_dim others;          /* positions of the mask for each one along l->into */
	int order[QN_MAX_RANK]; /* of the mask's axes in the new list, into last */
	uint8_t *brief;         /* by value id: has one row for each position along l->into, not for all */
	qn_value **full;        /* by value id: a brief value with its rows repeated */
} rewrite;

static qn_shape ordered_dims(const rewrite *r)
{
	qn_shape s = {.rank = r->l->rank};
	for (int i = 0; i < s.rank; i++)
		s.dim[i] = r->l->dim[r->order[i]];
	return s;
}

static qn_value *reshaped(const qn_build *b, const char *label, qn_value *v, const qn_shape *s)
{
	return qn_build_op2(b, "Reshape", label, v, qn_build_dims(b, qn_arena_printf(b->g->arena, "%s.shape", label), s->dim, s->rank));
}

/* The mask in the order of the list as bool [L, 1, ..] of `rank` axes. */
static qn_value *mask_rows(const rewrite *r, const qn_build *b, qn_dim length, int rank)
{
	int64_t perm[QN_MAX_RANK];
	for (int i = 0; i < r->l->rank; i++)
		perm[i] = r->order[i];
	qn_value *m = r->l->mask;
	if (m->fact.type != QN_BOOL)
		m = qn_build_cast(b, "chosen", m, QN_BOOL);
	qn_shape s = {.rank = rank, .dim = {length}};
	for (int i = 1; i < rank; i++)
		s.dim[i] = qn_dim_const(1);
	return reshaped(b, "mask", qn_build_transpose(b, "ordered", m, perm, r->l->rank), &s);
}

static bool is_brief(const rewrite *r, const qn_value *v)
{
	return v && (size_t)v->id < r->l->n_values && r->brief[v->id];
}

static qn_value *full_of(rewrite *r, qn_node *before, qn_value *v)
{
	if (!is_brief(r, v))
		return v;
	if (r->full[v->id])
		return r->full[v->id];
	qn_build build = {r->l->g, before}, *b = &build;
	qn_dim repeats[QN_MAX_RANK];
	for (int i = 0; i < v->fact.shape.rank; i++)
		repeats[i] = i == qn_list_axis(r->l, v) ? r->others : qn_dim_const(1);
	return r->full[v->id] = qn_build_op2(b, "Tile", "repeated", v, qn_build_dims(b, "repeats", repeats, v->fact.shape.rank));
}

/* --- rows taken by coordinates ------------------------------------------------------------------------------------- */
/* Rows of `data` at one coordinate each are the data itself, for all positions along that axis. */
static bool take_axis(rewrite *r, qn_node *n)
{
	const qn_list *l = r->l;
	qn_coords c = qn_list_coords(l, n->in[1]);
	int rank = n->in[0]->fact.shape.rank, axis = 0;
	bool nd = qn_node_is(n, "GatherND");
	if (!nd)
		axis = (int)qn_node_int(n, "axis", 0);
	axis += axis < 0 ? rank : 0;
	if (c.n != 1 || n->in[1]->fact.shape.rank != (nd ? 2 : 1) || qn_node_int(n, "batch_dims", 0) || c.of[0] != l->into ||
		!qn_dim_equal(n->in[0]->fact.shape.dim[axis], l->dim[c.of[0]]))
		return false;
	qn_value *data = n->in[0];
	qn_node_become(l->g, n, qn_op_find("", "Identity"), &data, 1);
	r->brief[n->out[0]->id] = l->rank > 1;
	return true;
}

/* Elements of `data` at all coordinates are the data in the order of the list. */
static bool take_all(rewrite *r, qn_node *n)
{
	const qn_list *l = r->l;
	qn_coords c = qn_list_coords(l, n->in[1]);
	const qn_shape *s = &n->in[0]->fact.shape;
	if (!qn_node_is(n, "GatherND") || c.n != l->rank || n->in[1]->fact.shape.rank != 2 || qn_node_int(n, "batch_dims", 0))
		return false;
	int64_t perm[QN_MAX_RANK], seen = 0;
	for (int i = 0; i < s->rank; i++)
		perm[i] = i;
	for (int i = 0; i < l->rank; i++) {
		if (!qn_dim_equal(s->dim[i], l->dim[c.of[i]]))
			return false;
		seen |= 1 << c.of[i];
		for (int k = 0; k < l->rank; k++)
			if (r->order[k] == c.of[i])
				perm[k] = i;
	}
	if (seen != (1 << l->rank) - 1)
		return false;
	qn_build build = {l->g, n}, *b = &build;
	qn_shape all = ordered_dims(r), to = {.rank = s->rank - l->rank + 1, .dim = {qn_shape_count(l->g->dims, &all)}};
	for (int i = l->rank; i < s->rank; i++)
		to.dim[i - l->rank + 1] = s->dim[i];
	qn_value *in[] = {qn_build_transpose(b, "ordered", n->in[0], perm, s->rank), qn_build_dims(b, "rows", to.dim, to.rank)};
	qn_node_become(l->g, n, qn_op_find("", "Reshape"), in, 2);
	return true;
}

/* --- rows worked on ------------------------------------------------------------------------------------------------- */
/* A list of sizes that speaks of the list's length, with the positions along l->into instead. */
static qn_value *brief_sizes(const rewrite *r, const qn_build *b, qn_value *v)
{
	const qn_tensor *t = v->fact.value;
	if (!t || t->type != QN_DIM || t->rank > 1)
		return v;
	int n = (int)qn_tensor_count(t);
	qn_dim *d = QN_NEW(b->g->arena, qn_dim, n);
	bool changed = false;
	for (int i = 0; i < n; i++) {
		bool length = qn_dim_equal(((const qn_dim *)t->data)[i], r->l->length);
		changed |= length;
		d[i] = length ? r->l->dim[r->l->into] : ((const qn_dim *)t->data)[i];
	}
	return changed ? qn_build_dims(b, "sizes", d, n) : v;
}

static void work_on_rows(rewrite *r, qn_node *n)
{
	qn_build build = {r->l->g, n}, *b = &build;
	bool brief = true, any = false;
	for (int i = 0; i < n->n_in; i++)
		if (qn_list_axis(r->l, n->in[i]) >= 0) {
			brief &= is_brief(r, n->in[i]);
			any = true;
		}
	for (int i = 0; i < n->n_in; i++) {
		qn_value *v = n->in[i];
		if (!v)
			continue;
		qn_value *to = brief && any ? brief_sizes(r, b, v) : full_of(r, n, v);
		if (to != v)
			qn_node_set_input(r->l->g, n, i, to);
	}
	for (int i = 0; i < n->n_out; i++)
		if (n->out[i])
			r->brief[n->out[i]->id] = brief && any;
}

/* --- rows put back ---------------------------------------------------------------------------------------------------- */
static bool is_zero(const qn_value *v)
{
	if (v->fact.value && v->fact.value->type != QN_DIM) {
		int64_t n = qn_tensor_count(v->fact.value);
		for (int64_t i = 0; i < n; i++)
			if (qn_tensor_get(v->fact.value, i) != 0)
				return false;
		return true;
	}
	const qn_node *n = v->producer;
	if (n && (n->op->traits & (QN_LAYOUT | QN_KEEPS_WEIGHT)))
		return is_zero(n->in[0]);
	if (!n || !qn_node_is(n, "ConstantOfShape"))
		return false;
	const qn_attr *value = qn_node_attr(n, "value");
	return !value || !value->t || qn_tensor_get(value->t, 0) == 0;
}

static void put_back(rewrite *r, qn_node *n)
{
	const qn_list *l = r->l;
	qn_build build = {l->g, n}, *b = &build;
	qn_shape all = ordered_dims(r), wide = all;
	qn_value *data = n->in[0], *updates = full_of(r, n, n->in[2]);
	int rest = n->in[2]->fact.shape.rank - 1, summed = l->into < 0 ? 0 : l->rank - 1;
	qn_dtype type = data->fact.type;
	bool add = !strcmp(qn_node_string(n, "reduction", "none"), "add");
	for (int i = 0; i < rest; i++)
		wide.dim[wide.rank++] = n->in[2]->fact.shape.dim[1 + i];
	qn_value *mask = mask_rows(r, b, qn_shape_count(l->g->dims, &all), 1 + rest);
	qn_value *y = qn_build_op3(b, "Where", "kept", mask, updates, qn_build_number(b, "zero", type, 0));
	y = reshaped(b, "apart", y, &wide);
	qn_shape chosen = all;
	for (int i = 0; i < rest; i++)
		chosen.dim[chosen.rank++] = qn_dim_const(1);
	qn_value *any = reshaped(b, "any", qn_build_cast(b, "counted", mask, QN_F32), &chosen);
	int64_t axes[QN_MAX_RANK];
	for (int i = 0; i < summed; i++)
		axes[i] = i;
	if (summed) {
		y = qn_build_op2(b, "ReduceSum", "sum", y, qn_build_ints(b, "sum.axes", axes, summed));
		qn_node_set_int(l->g, y->producer, "keepdims", 0);
		any = qn_build_op2(b, "ReduceSum", "count", any, qn_build_ints(b, "count.axes", axes, summed));
		qn_node_set_int(l->g, any->producer, "keepdims", 0);
	}
	if (!is_zero(data))
		y = add ? qn_build_op2(b, "Add", "added", data, y)
			: qn_build_op3(b, "Where", "put", qn_build_cast(b, "put.mask", any, QN_BOOL), y, data);
	y->fact = (qn_fact){n->out[0]->fact.type, n->out[0]->fact.shape, NULL}; /* the next list may end in it */
	qn_build_give(b, 0, y);
}

static void rewrite_list(qn_list *l)
{
	rewrite r = {.l = l,
		.others = qn_dim_const(1),
		.brief = QN_NEW(l->a, uint8_t, l->n_values),
		.full = QN_NEW(l->a, qn_value *, l->n_values)};
	int n = 0;
	for (int i = 0; i < l->rank; i++)
		if (i != l->into) {
			r.order[n++] = i;
			r.others = qn_dim_mul(l->g->dims, r.others, l->dim[i]);
		}
	if (l->into >= 0)
		r.order[n] = l->into;
	qn_build build = {l->g, l->source};
	qn_value_replace(l->g, l->source->out[0], qn_build_positions(&build, l->dim, r.order, l->rank));
	for (size_t i = 0; i < l->n_nodes; i++) {
		qn_node *node = l->nodes[i];
		bool takes = (qn_node_is(node, "Gather") || qn_node_is(node, "GatherND") || qn_node_is(node, "GatherElements")) &&
			     qn_list_axis(l, node->in[0]) < 0;
		if (qn_list_is_scatter(node))
			put_back(&r, node);
		else if (!takes || (!take_axis(&r, node) && !take_all(&r, node)))
			work_on_rows(&r, node);
	}
}

static bool read_source(qn_list *l)
{
	const qn_shape *s = &l->mask->fact.shape;
	qn_dim length = l->source->out[0]->fact.shape.rank == 2 ? l->source->out[0]->fact.shape.dim[1] : qn_dim_const(0);
	if (s->rank < 1 || qn_dim_is_const(length))
		return false;
	l->rank = s->rank;
	memcpy(l->dim, s->dim, sizeof l->dim);
	l->length = length;
	l->symbol = qn_dim_text(l->a, length, NULL, NULL);
	return qn_dim_equal(qn_dim_symbol(l->g->dims, l->symbol), length);
}

qn_status qn_pass_dense(qn_graph *g, qn_pass_env *env)
{
	const qn_op *op = qn_op_find("", "NonZero");
	for (qn_node *n = g->first, *next; n; n = next) {
		next = n->next;
		if (n->op != op || !n->out[0] || n->out[0]->is_const)
			continue;
		qn_list l = {.g = g, .a = env->scratch, .source = n, .mask = n->in[0]};
		if (!read_source(&l) || !qn_list_follow(&l))
			continue;
		rewrite_list(&l);
		qn_shape all = l.mask->fact.shape;
		if (!qn_dim_equate(g->dims, l.length, qn_shape_count(g->dims, &all)))
			QN_FAIL(g->ctx, QUERN_ERR_SHAPE, "node '%s' (%s): the number of chosen elements cannot be all of them", n->name,
				n->op_type);
	}
	qn_graph_sweep(g);
	return QUERN_OK;
}
