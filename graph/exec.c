/* exec.c - runs nodes on the CPU: one at a time for folding, a whole graph for `quern run` and calibration. */
#include "graph/exec.h"

#include <stdlib.h>

static qn_fact fact_of(const qn_tensor *t)
{
	if (!t)
		return (qn_fact){.type = QN_NONE};
	return (qn_fact){t->type == QN_DIM ? QN_I64 : t->type, qn_shape_of(t), t};
}

/* Concrete dims of an inferred output, or a message that names the axis. */
static qn_status concrete(qn_call *c, int i, int64_t *dim)
{
	const qn_shape *s = &c->out[i].shape;
	if (s->rank < 0)
		QN_OP_FAIL(c, QUERN_ERR_INTERNAL, "output %d has no rank", i);
	for (int k = 0; k < s->rank; k++) {
		if (!qn_dim_is_const(s->dim[k]) || s->dim[k].k < 0)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "output %d: axis %d has no size", i, k);
		dim[k] = s->dim[k].k;
	}
	return QUERN_OK;
}

/* Whether the operands that may hold dims do: then all of them are given as QN_DIM, and so is the result. */
static bool promote_dims(const qn_node *n, const qn_tensor **x, qn_arena *a)
{
	bool any = false;
	for (int i = 0; i < n->n_in; i++)
		any |= x[i] && x[i]->type == QN_DIM && (n->op->dims_in >> (i < 31 ? i : 31) & 1);
	for (int i = 0; any && i < n->n_in; i++)
		if (x[i] && qn_dtype_is_int(x[i]->type) && (n->op->dims_in >> (i < 31 ? i : 31) & 1)) {
			qn_tensor *t = qn_tensor_new(a, QN_DIM, x[i]->rank, x[i]->dim);
			int64_t count = qn_tensor_count(t);
			for (int64_t k = 0; k < count; k++)
				((qn_dim *)(uintptr_t)t->data)[k] = qn_dim_const(qn_tensor_get_i64(x[i], k));
			x[i] = t;
		}
	return any;
}

/* Dims left on operands that take plain integers become integers; false where one is symbolic. */
static bool demote_dims(const qn_node *n, const qn_tensor **x, qn_arena *a)
{
	for (int i = 0; i < n->n_in; i++) {
		if (!x[i] || x[i]->type != QN_DIM || (n->op->dims_in >> (i < 31 ? i : 31) & 1))
			continue;
		int64_t count = qn_tensor_count(x[i]);
		const qn_dim *d = x[i]->data;
		qn_tensor *t = qn_tensor_new(a, QN_I64, x[i]->rank, x[i]->dim);
		for (int64_t k = 0; k < count; k++) {
			if (!qn_dim_is_const(d[k]))
				return false;
			((int64_t *)(uintptr_t)t->data)[k] = d[k].k;
		}
		x[i] = t;
	}
	return true;
}

static qn_status allocate_outputs(qn_call *c, bool dims)
{
	for (int i = 0; i < c->node->n_out; i++) {
		qn_tensor *y = &c->y[i];
		if (!c->node->out[i])
			continue;
		if (c->out[i].type == QN_NONE)
			QN_OP_FAIL(c, QUERN_ERR_INTERNAL, "output %d has no type", i);
		y->type = dims && c->out[i].type != QN_BOOL ? QN_DIM : c->out[i].type;
		if (c->node->op->traits & QN_DYNAMIC_OUTPUT)
			continue;
		QN_TRY(concrete(c, i, y->dim));
		y->rank = c->out[i].shape.rank;
		size_t bytes;
		int64_t count = 1;
		for (int k = 0; k < y->rank; k++)
			if (__builtin_mul_overflow(count, y->dim[k], &count))
				QN_OP_FAIL(c, QUERN_ERR_SHAPE, "output %d is too large", i);
		if (!qn_dtype_bytes(y->type, count, &bytes))
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "output %d is too large", i);
		y->data = qn_arena_alloc(c->scratch, bytes ? bytes : 1);
	}
	return QUERN_OK;
}

qn_status qn_exec_node(qn_ctx *ctx, qn_dims *dims, const qn_node *n, const qn_tensor *const *x, qn_arena *a, qn_tensor *y, bool *undecided)
{
	const qn_tensor **args = QN_NEW(a, const qn_tensor *, n->n_in + 1);
	qn_fact *in = QN_NEW(a, qn_fact, n->n_in + 1);
	for (int i = 0; i < n->n_in; i++) {
		args[i] = x[i] ? qn_tensor_aligned(a, x[i]) : NULL;
		in[i] = fact_of(args[i]);
		if (args[i] && args[i]->type == QN_DIM && n->in[i]->fact.type != QN_NONE)
			in[i].type = n->in[i]->fact.type;
	}
	qn_call c = {.ctx = ctx, .node = n, .dims = dims, .scratch = a, .threads = ctx->threads, .in = in};
	c.out = QN_NEW(a, qn_fact, n->n_out + 1);
	c.y = y;
	memset(y, 0, sizeof *y * (size_t)n->n_out);
	if (undecided)
		*undecided = false;
	if (!n->op->eval)
		QN_OP_FAIL(&c, QUERN_ERR_UNSUPPORTED, "this operator cannot be run here");
	QN_TRY(n->op->infer(&c));
	bool with_dims = promote_dims(n, args, a);
	if (!demote_dims(n, args, a)) {
		c.undecided = true;
	} else {
		c.x = args;
		QN_TRY(allocate_outputs(&c, with_dims));
		QN_TRY(n->op->eval(&c));
	}
	if (c.undecided && !undecided)
		QN_OP_FAIL(&c, QUERN_ERR_SHAPE, "the result depends on a dim that is not known");
	if (undecided)
		*undecided = c.undecided;
	return QUERN_OK;
}

/* --- a whole graph ---------------------------------------------------------------------------------------- */
/* A computed value lives in an arena of its own, released after its last use. */
typedef struct slot {
	qn_tensor t;
	bool known;
	size_t uses_left;
	qn_arena arena;
} slot;

typedef struct run {
	qn_ctx *ctx;
	qn_graph *g;
	slot *slots;
	qn_arena *shared; /* what several outputs of a node live in */
} run;

static void release_slots(void *arg)
{
	run *r = arg;
	for (size_t i = 0; i < r->g->n_values; i++)
		if (r->slots[i].arena.ctx)
			qn_arena_release(&r->slots[i].arena);
}

static void release_arena(void *arg) { qn_arena_release(arg); }

static qn_status operand(run *r, qn_value *v, qn_arena *scratch, const qn_tensor **out)
{
	if (r->slots[v->id].known) {
		*out = &r->slots[v->id].t;
		return QUERN_OK;
	}
	if (v->is_const)
		return qn_graph_load(r->g, v, scratch, out);
	QN_FAIL(r->ctx, QUERN_ERR_INTERNAL, "value '%s' is used before it is computed", v->name);
}

static void keep_output(run *r, qn_value *v, const qn_tensor *y, qn_arena *scratch)
{
	slot *s = &r->slots[v->id];
	s->t = *y;
	s->known = true;
	size_t bytes = qn_tensor_bytes(y);
	(void)scratch;
	qn_arena_init(&s->arena, r->ctx);
	void *copy = qn_arena_alloc(&s->arena, bytes ? bytes : 1);
	if (bytes)
		memcpy(copy, y->data, bytes);
	s->t.data = copy;
}

static void done_with(run *r, const qn_node *n)
{
	for (int i = 0; i < n->n_in; i++) {
		if (!n->in[i])
			continue;
		slot *s = &r->slots[n->in[i]->id];
		if (s->uses_left && --s->uses_left == 0 && s->arena.ctx && !n->in[i]->is_output) {
			qn_arena_release(&s->arena);
			s->known = false;
		}
	}
}

static qn_status run_node(run *r, qn_node *n, qn_arena *scratch, qn_observe_fn observe, void *user)
{
	const qn_tensor **x = QN_NEW(scratch, const qn_tensor *, n->n_in + 1);
	qn_tensor *y = QN_NEW(scratch, qn_tensor, n->n_out + 1);
	for (int i = 0; i < n->n_in; i++)
		if (n->in[i])
			QN_TRY(operand(r, n->in[i], scratch, &x[i]));
	QN_TRY(qn_exec_node(r->ctx, r->g->dims, n, x, scratch, y, NULL));
	for (int i = 0; i < n->n_out; i++) {
		if (!n->out[i])
			continue;
		if (observe)
			QN_TRY(observe(user, n->out[i], &y[i]));
		if (n->out[i]->n_uses || n->out[i]->is_output)
			keep_output(r, n->out[i], &y[i], scratch);
	}
	done_with(r, n);
	return QUERN_OK;
}

/* Each declared symbol has one value over all inputs; an input that contradicts its declaration is named with the axis. */
typedef struct binding {
	const char *symbol;
	int64_t size;
	const char *input;
} binding;

typedef struct bindings {
	binding *b;
	size_t n, cap;
	bool unknown;
} bindings;

static int64_t bound_size(void *user, const char *text)
{
	bindings *s = user;
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->b[i].symbol, text))
			return s->b[i].size;
	s->unknown = true;
	return 0;
}

static qn_status check_axis(qn_graph *g, bindings *s, qn_arena *a, const qn_value *v, int axis, qn_dim want, int64_t got, bool lone_only)
{
	const char *text = qn_dim_text(a, want, NULL, NULL);
	s->unknown = false;
	int64_t expected = 0;
	bool known = qn_dim_is_const(want) || qn_dim_eval(want, bound_size, s, &expected);
	if (qn_dim_is_const(want))
		expected = want.k;
	else if (!known || s->unknown) {
		if (!qn_dim_equal(qn_dim_symbol(g->dims, text), want))
			return QUERN_OK; /* an expression: checked in the second round */
		QN_GROW(a, s->b, s->n, s->cap);
		s->b[s->n++] = (binding){text, got, v->name};
		return QUERN_OK;
	}
	if (expected == got || (lone_only && !qn_dim_is_const(want)))
		return QUERN_OK;
	QN_FAIL(g->ctx, QUERN_ERR_SHAPE, "input '%s': axis %d is %lld, but the graph needs %lld there%s%s%s", v->name, axis, (long long)got,
		(long long)expected, qn_dim_is_const(want) ? "" : " (", qn_dim_is_const(want) ? "" : text, qn_dim_is_const(want) ? "" : ")");
}

static qn_status check_inputs(qn_ctx *ctx, qn_graph *g, const qn_tensor *const *inputs, qn_arena *a)
{
	bindings s = {0};
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < g->n_inputs; i++) {
			const qn_value *v = g->inputs[i];
			const qn_tensor *t = inputs[i];
			if (!t)
				QN_FAIL(ctx, QUERN_ERR_CONFIG, "input '%s' is missing", v->name);
			if (t->type != v->fact.type)
				QN_FAIL(ctx, QUERN_ERR_CONFIG, "input '%s' is %s, the graph takes %s", v->name, qn_dtype_name(t->type),
					qn_dtype_name(v->fact.type));
			if (v->fact.shape.rank < 0)
				continue;
			if (t->rank != v->fact.shape.rank)
				QN_FAIL(ctx, QUERN_ERR_SHAPE, "input '%s' has rank %d, the graph takes %d", v->name, t->rank, v->fact.shape.rank);
			for (int k = 0; k < t->rank; k++)
				QN_TRY(check_axis(g, &s, a, v, k, qn_dim_resolve(g->dims, v->fact.shape.dim[k]), t->dim[k], round == 0));
		}
	return QUERN_OK;
}

qn_status qn_exec_run(qn_ctx *ctx, qn_graph *g, const qn_tensor *const *inputs, qn_arena *a, qn_tensor *outputs, qn_observe_fn observe, void *user)
{
	run *r = QN_NEW(a, run, 1);
	*r = (run){.ctx = ctx, .g = g, .slots = QN_NEW(a, slot, g->n_values)};
	qn_arena_defer(a, release_slots, r);
	QN_TRY(check_inputs(ctx, g, inputs, a));
	for (size_t i = 0; i < g->n_values; i++)
		if (g->values[i])
			r->slots[i].uses_left = g->values[i]->n_uses;
	for (int i = 0; i < g->n_inputs; i++) {
		slot *s = &r->slots[g->inputs[i]->id];
		s->t = *inputs[i];
		s->known = true;
		if (observe)
			QN_TRY(observe(user, g->inputs[i], inputs[i]));
	}
	qn_arena *scratch = QN_NEW(a, qn_arena, 1);
	qn_arena_init(scratch, ctx);
	qn_arena_defer(a, release_arena, scratch);
	for (qn_node *n = g->first; n; n = n->next) {
		bool needed = !(n->out[0] && n->out[0]->is_const);
		if (needed)
			QN_TRY(run_node(r, n, scratch, observe, user));
		qn_arena_release(scratch);
	}
	for (int i = 0; i < g->n_outputs; i++) {
		const qn_tensor *t;
		QN_TRY(operand(r, g->outputs[i], a, &t));
		outputs[i] = *t;
		size_t bytes = qn_tensor_bytes(t);
		void *copy = qn_arena_alloc(a, bytes ? bytes : 1);
		if (bytes)
			memcpy(copy, t->data, bytes);
		outputs[i].data = copy;
	}
	release_slots(r);
	return QUERN_OK;
}
