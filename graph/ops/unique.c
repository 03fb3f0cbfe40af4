/* unique.c - the distinct elements, or the distinct slices along an axis, with first positions, inverse and counts. The engine has no such
 * operator: what can be folded is, the rest is refused. */
#include "graph/ops/_move.h"

typedef struct slices {
	const qn_tensor *x;
	int64_t n, outer, inner; /* n slices; element (o, i) of slice s is at (o * n + s) * inner + i */
} slices;

static qn_status find_slices(qn_call *c, const qn_tensor *x, slices *s, int *axis)
{
	const qn_attr *a = qn_node_attr(c->node, "axis");
	*s = (slices){x, qn_tensor_count(x), 1, 1};
	*axis = -1;
	if (!a)
		return QUERN_OK;
	QN_TRY(qn_call_axis(c, a->i, x->rank, axis));
	s->n = x->dim[*axis];
	for (int i = 0; i < x->rank; i++) {
		s->outer *= i < *axis ? x->dim[i] : 1;
		s->inner *= i > *axis ? x->dim[i] : 1;
	}
	return QUERN_OK;
}

/* Element by element; NaN last and equal to itself only by position, as in numpy for slices. */
static int compare(const slices *s, int64_t a, int64_t b)
{
	bool wide = s->x->type == QN_I64 || s->x->type == QN_U64;
	for (int64_t o = 0; o < s->outer; o++)
		for (int64_t i = 0; i < s->inner; i++) {
			int64_t p = (o * s->n + a) * s->inner + i, q = (o * s->n + b) * s->inner + i;
			if (wide) {
				uint64_t flip = s->x->type == QN_I64 ? 0 : 1ull << 63;
				int64_t v = (int64_t)((uint64_t)qn_tensor_get_i64(s->x, p) ^ flip),
					w = (int64_t)((uint64_t)qn_tensor_get_i64(s->x, q) ^ flip);
				if (v != w)
					return v < w ? -1 : 1;
				continue;
			}
			double v = qn_tensor_get(s->x, p), w = qn_tensor_get(s->x, q);
			if (v < w || (w != w && v == v))
				return -1;
			if (v > w || (v != v && w == w))
				return 1;
		}
	return 0;
}

/* Stable merge sort of slice numbers. */
static void sort(const slices *s, int64_t *v, int64_t *spare, int64_t n)
{
	if (n < 2)
		return;
	int64_t half = n / 2;
	sort(s, v, spare, half);
	sort(s, v + half, spare, n - half);
	memcpy(spare, v, (size_t)n * sizeof *v);
	for (int64_t i = 0, a = 0, b = half; i < n; i++)
		v[i] = b >= n || (a < half && compare(s, spare[a], spare[b]) <= 0) ? spare[a++] : spare[b++];
}

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	const qn_attr *a = qn_node_attr(c->node, "axis");
	int axis;
	qn_dim n = qn_dim_symbol(c->dims, qn_arena_printf(c->scratch, "?distinct elements of '%s'", c->node->in[0]->name));
	for (int i = 0; i < c->node->n_out; i++) {
		c->out[i].type = QN_I64;
		c->out[i].shape = (qn_shape){1, {n}};
	}
	c->out[0].type = c->in[0].type;
	qn_dim size = qn_shape_count(c->dims, &c->in[0].shape);
	if (a) {
		QN_TRY(qn_call_axis(c, a->i, c->in[0].shape.rank, &axis));
		size = c->in[0].shape.dim[axis];
		c->out[0].shape = c->in[0].shape;
		c->out[0].shape.dim[axis] = n;
	}
	if (c->node->n_out > 2)
		c->out[2].shape.dim[0] = size;
	return QUERN_OK;
}

typedef struct groups {
	int64_t n, *first, *count, *of; /* first slice and size of each group; the group of each slice */
} groups;

static void find_groups(qn_call *c, const slices *s, groups *g)
{
	int64_t *order = QN_NEW(c->scratch, int64_t, s->n + 1), *spare = QN_NEW(c->scratch, int64_t, s->n + 1);
	g->first = QN_NEW(c->scratch, int64_t, s->n + 1);
	g->count = QN_NEW(c->scratch, int64_t, s->n + 1);
	g->of = QN_NEW(c->scratch, int64_t, s->n + 1);
	for (int64_t i = 0; i < s->n; i++)
		order[i] = i;
	sort(s, order, spare, s->n);
	for (int64_t i = 0; i < s->n; i++) {
		if (i == 0 || compare(s, order[i - 1], order[i]) != 0)
			g->first[g->n++] = order[i];
		g->of[order[i]] = g->n - 1;
	}
	if (!qn_node_int(c->node, "sorted", 1)) { /* in order of first appearance */
		int64_t *rank = spare, seen = 0;
		for (int64_t i = 0; i < s->n; i++)
			if (g->first[g->of[i]] == i)
				rank[g->of[i]] = seen++;
		for (int64_t i = 0; i < s->n; i++)
			g->of[i] = rank[g->of[i]];
		for (int64_t i = s->n - 1; i >= 0; i--)
			g->first[g->of[i]] = i;
	}
	for (int64_t i = 0; i < s->n; i++)
		g->count[g->of[i]]++;
}

static qn_status eval(qn_call *c)
{
	slices s;
	groups g = {0};
	int axis;
	QN_TRY(find_slices(c, c->x[0], &s, &axis));
	find_groups(c, &s, &g);
	int64_t dim[QN_MAX_RANK] = {g.n};
	for (int i = 0; axis >= 0 && i < c->x[0]->rank; i++)
		dim[i] = i == axis ? g.n : c->x[0]->dim[i];
	if (qn_call_wants(c, 0)) {
		qn_call_resize(c, 0, axis < 0 ? 1 : c->x[0]->rank, dim);
		size_t run = (size_t)s.inner * qn_dtype_size(c->x[0]->type);
		for (int64_t o = 0; o < s.outer && run; o++)
			for (int64_t k = 0; k < g.n; k++)
				memcpy(QN_OUT(c, 0, char) + (size_t)(o * g.n + k) * run,
					(const char *)c->x[0]->data + (size_t)(o * s.n + g.first[k]) * run, run);
	}
	const int64_t *extra[] = {NULL, g.first, g.of, g.count};
	for (int i = 1; i < 4; i++) {
		if (!qn_call_wants(c, i))
			continue;
		int64_t n = i == 2 ? s.n : g.n;
		qn_call_resize(c, i, 1, &n);
		if (n)
			memcpy(QN_OUT(c, i, int64_t), extra[i], (size_t)n * sizeof(int64_t));
	}
	return QUERN_OK;
}

const qn_op qn_op_unique = {.name = "Unique",
	.also = "com.microsoft:Unique",
	.min_in = 1,
	.max_in = 1,
	.max_out = 4,
	.traits = QN_DYNAMIC_OUTPUT,
	.infer = infer,
	.eval = eval};
