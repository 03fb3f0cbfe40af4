/* path.c - the numbers of a layer's channels go through the graph behind it as far as each step is linear in them. */
#include "passes/channel_numbers.h"
#include "passes/equalize/equalize.h"

typedef struct walk {
	qn_numbers numbers;
	qn_graph *g;
	qn_plan *p;
	int64_t channels;     /* of what is followed */
	const qn_tensor **of; /* by value id: channels that it is linear in; NULL: in none */
	qn_equal_path *path;
} walk;

static const qn_tensor *carried(const walk *w, const qn_value *v)
{
	return v ? w->of[v->id] : NULL;
}

static void stop(walk *w, const char *why)
{
	w->path->why = why;
}

static void stop_at(walk *w, const qn_node *n, const char *why)
{
	stop(w, qn_arena_printf(w->p->arena, "'%s' (%s) %s", n->name, n->op->name, why));
}

static void set(walk *w, const qn_node *n, const qn_value *v, const qn_tensor *t)
{
	if (!v || !qn_numbers_any(t))
		return;
	w->of[v->id] = t;
	if (v->is_output)
		stop(w, qn_arena_printf(w->p->arena, "'%s' is an output of the graph", v->name));
	else if (v->fact.type != QN_F32)
		stop_at(w, n, "changes its type");
}

/* --- steps ------------------------------------------------------------------------------------------------------------ */
/* An operand of a product by its matrices: what is kept of it in the product's rows (or columns), and what is summed over. */
typedef struct operand {
	const int64_t *from;
	int64_t kept, summed, keep_step, sum_step;
} operand;

static operand operand_of(const qn_tensor *x, int side)
{
	int64_t rows = x->dim[x->rank - 2], cols = x->dim[x->rank - 1];
	return side ? (operand){x->data, cols, rows, 1, cols} : (operand){x->data, rows, cols, cols, 1};
}

/* The channel that is kept at each place of a matrix; false where different ones are summed. */
static bool summed_channels(const operand *o, int64_t base, int64_t *channel)
{
	for (int64_t i = 0; i < o->kept; i++) {
		const int64_t *at = o->from + base + i * o->keep_step;
		for (int64_t k = 1; k < o->summed; k++)
			if (at[k * o->sum_step] != at[0])
				return false;
		channel[i] = at[0];
	}
	return true;
}

/* The elements of operand `side` that are summed for one of the product have to be of one channel, which is then the product's. */
static const qn_tensor *through_product(walk *w, const qn_node *n, int side)
{
	const qn_tensor *x = carried(w, n->in[side]);
	qn_tensor *y = qn_numbers_filled(&w->numbers, n->out[0]);
	if (!y || x->rank < 2 || y->rank < 2)
		return NULL;
	int64_t stride[QN_MAX_RANK], like[QN_MAX_RANK], rows = y->dim[y->rank - 2], cols = y->dim[y->rank - 1];
	memcpy(like, y->dim, sizeof like);
	like[y->rank - 2] = x->dim[x->rank - 2];
	like[y->rank - 1] = x->dim[x->rank - 1];
	qn_broadcast_strides(x, y->rank, like, stride);
	operand o = operand_of(x, side);
	int64_t *to = (int64_t *)(uintptr_t)y->data, *channel = QN_NEW(w->numbers.a, int64_t, o.kept), count = qn_tensor_count(y);
	if (o.kept != (side ? cols : rows) || !o.summed || !count)
		return NULL;
	for (int64_t m = 0; m < count / (rows * cols); m++) {
		int64_t base = 0, rest = m;
		for (int i = y->rank - 3; i >= 0; i--) {
			base += rest % y->dim[i] * stride[i];
			rest /= y->dim[i];
		}
		if (!summed_channels(&o, base, channel))
			return NULL;
		for (int64_t i = 0; i < rows * cols; i++)
			to[m * rows * cols + i] = channel[side ? i % cols : i / cols];
	}
	return y;
}

static bool same_dims(const qn_tensor *t, const qn_value *v)
{
	int64_t dim[QN_MAX_RANK];
	return qn_numbers_shape(&v->fact.shape, dim) && v->fact.shape.rank == t->rank &&
	       !memcmp(dim, t->dim, (size_t)t->rank * sizeof *dim);
}

/* Far from the numbers that an operator might put in by itself, as padding does. */
static const int64_t MARK = INT64_C(1) << 40;

static qn_tensor *marked(walk *w, const qn_tensor *t)
{
	qn_tensor *y = qn_tensor_new(w->numbers.a, QN_I64, t->rank, t->dim);
	int64_t n = qn_tensor_count(t);
	for (int64_t i = 0; i < n; i++)
		((int64_t *)(uintptr_t)y->data)[i] = ((const int64_t *)t->data)[i] + MARK;
	return y;
}

/* Back from marked numbers; false where something else is among them, or nothing at all at the sizes that stand for symbols. */
static bool unmark(const walk *w, qn_tensor *t)
{
	int64_t n = t->type == QN_I64 ? qn_tensor_count(t) : 0, *c = (int64_t *)(uintptr_t)t->data;
	bool known = n > 0;
	for (int64_t i = 0; i < n; i++) {
		c[i] -= MARK;
		known &= c[i] >= QN_NO_CHANNEL && c[i] < w->channels;
	}
	return known;
}

/* An operand with numbers in the place of its floats; NULL where its content matters and is not known. */
static const qn_tensor *moved_operand(walk *w, qn_value *v)
{
	if (carried(w, v))
		return marked(w, carried(w, v));
	if (v->fact.type != QN_F32)
		return v->is_const ? qn_numbers_constant(&w->numbers, v) : NULL;
	const qn_tensor *none = qn_numbers_filled(&w->numbers, v);
	return none ? marked(w, none) : NULL;
}

static void through_moves(walk *w, const qn_node *n)
{
	const qn_tensor **x = QN_NEW(w->numbers.a, const qn_tensor *, n->n_in + 1);
	bool known = true;
	for (int i = 0; i < n->n_in; i++) {
		x[i] = n->in[i] ? moved_operand(w, n->in[i]) : NULL;
		known &= !n->in[i] || x[i];
	}
	qn_tensor *y = known && !w->numbers.failed ? qn_numbers_run(&w->numbers, n, x) : NULL;
	known = y != NULL;
	for (int i = 0; known && i < n->n_out; i++)
		known = !n->out[i] || unmark(w, &y[i]);
	for (int i = 0; known && i < n->n_out; i++)
		set(w, n, n->out[i], &y[i]);
	if (!known)
		stop_at(w, n, "moves or changes its values in a way that is not understood");
}

static void step(walk *w, const qn_node *n, int side, int count)
{
	const qn_tensor *x = carried(w, n->in[side]), *y;
	bool scales = (n->op->traits & QN_HOMOGENEOUS) && (side == 0 || qn_node_is(n, "Mul"));
	if (n->op->hint == QN_HINT_NONE && (n->op->traits & (QN_LAYOUT | QN_KEEPS_WEIGHT | QN_SMALL))) {
		through_moves(w, n);
	} else if (count > 1) {
		w->path->sum = qn_node_is(n, "Add");
		stop_at(w, n, "reads it twice");
	} else if (scales && n->n_out == 1) {
		if (same_dims(x, n->out[0]))
			set(w, n, n->out[0], x);
		else
			stop_at(w, n, "broadcasts it");
	} else if (qn_node_is(n, "MatMul")) {
		y = through_product(w, n, side);
		if (y)
			set(w, n, n->out[0], y);
		else
			stop_at(w, n, "sums over its channels, or over values that are not its own");
	} else {
		w->path->sum = qn_node_is(n, "Add") && !n->in[1 - side]->is_const;
		stop_at(w, n, "is not linear in it");
	}
}

static void reach(walk *w, const qn_node *n, int side, int count)
{
	const qn_layer *l = qn_plan_find(w->p, n);
	if (side != 0 || count > 1 || !qn_equal_is_own(w->p, l))
		stop_at(w, n, "reads it, which is no linear layer with a weight of its own");
	else if (w->path->x && w->path->x != n->in[0])
		stop_at(w, n, "reads it by another tensor than layers before");
	else
		w->path->x = n->in[0];
}

/* The channel of each column of x; it has to be one and the same in all rows. */
static void read_channels(walk *w)
{
	const qn_tensor *t = carried(w, w->path->x);
	int64_t k = t->dim[t->rank - 1], n = qn_tensor_count(t);
	const int64_t *c = t->data;
	for (int64_t i = 0; i < n; i++)
		if (c[i] < 0 || c[i] != c[i % k]) {
			stop(w, qn_arena_printf(w->p->arena, "'%s' holds other values beside it", w->path->x->name));
			return;
		}
	w->path->channel = QN_NEW(w->p->arena, int64_t, k);
	memcpy(w->path->channel, c, (size_t)k * sizeof *c);
}

/* The number of its channel in each element; of a fused weight only those of the value. */
static const qn_tensor *own_numbers(walk *w, const qn_node *from)
{
	const qn_value *y = from->out[0];
	const qn_layer *l = qn_plan_find(w->p, from);
	int rank = y->fact.shape.rank;
	qn_tensor *t = rank > 0 && qn_dim_is_const(y->fact.shape.dim[rank - 1]) ? qn_numbers_filled(&w->numbers, y) : NULL;
	if (!t)
		return NULL;
	int64_t *c = (int64_t *)(uintptr_t)t->data, n = qn_tensor_count(t);
	w->channels = t->dim[rank - 1];
	for (int64_t i = 0; i < n; i++)
		c[i] = i % w->channels;
	for (int p = 0; l && p < l->n_parts; p++)
		for (int64_t r = 0; l->parts[p].role != QN_ROLE_VALUE && r < l->parts[p].n; r++)
			for (int64_t i = l->parts[p].rows[r]; i < n; i += l->n)
				c[i] = QN_NO_CHANNEL;
	return t;
}

qn_status qn_equal_follow(qn_graph *g, qn_plan *p, const qn_node *from, qn_arena *scratch, qn_equal_path *out)
{
	*out = (qn_equal_path){0};
	walk w = {.numbers = {g, scratch, false}, .g = g, .p = p, .of = QN_NEW(scratch, const qn_tensor *, g->n_values), .path = out};
	const qn_tensor *own = own_numbers(&w, from);
	if (own)
		set(&w, from, from->out[0], own);
	else
		stop_at(&w, from, "has a result of unknown size");
	for (const qn_node *n = from->next; n && !out->why; n = n->next) {
		int side = -1, count = 0;
		for (int i = n->n_in - 1; i >= 0; i--)
			if (carried(&w, n->in[i])) {
				side = i;
				count++;
			}
		if (side >= 0 && qn_plan_find(p, n) && n->op->weight_input)
			reach(&w, n, side, count);
		else if (side >= 0)
			step(&w, n, side, count);
	}
	if (!out->why && !out->x)
		stop(&w, "nothing reads it");
	if (!out->why)
		read_channels(&w);
	if (out->why)
		out->x = NULL;
	return QUERN_OK;
}
