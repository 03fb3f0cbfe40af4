/* exec.c - one node: operands made concrete, outputs allocated as inferred, evaluated. */
#include "graph/exec.h"

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

static bool is_whole(const qn_tensor *t)
{
	if (!qn_dtype_is_float(t->type))
		return qn_dtype_is_int(t->type);
	int64_t n = qn_tensor_count(t);
	for (int64_t i = 0; i < n; i++)
		if (qn_tensor_get(t, i) != (double)qn_tensor_get_i64(t, i))
			return false;
	return true;
}

/* Whether the operands that may hold dims do: then all of them are given as QN_DIM, and so is the result. */
static bool promote_dims(const qn_node *n, const qn_tensor **x, qn_arena *a)
{
	bool any = false;
	for (int i = 0; i < n->n_in; i++)
		any |= x[i] && x[i]->type == QN_DIM && (n->op->dims_in >> (i < 31 ? i : 31) & 1);
	for (int i = 0; any && i < n->n_in; i++)
		if (x[i] && is_whole(x[i]) && (n->op->dims_in >> (i < 31 ? i : 31) & 1)) {
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

static qn_status allocate_outputs(qn_call *c, bool dims, qn_arena *const *out)
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
		y->data = qn_arena_alloc(out[i] ? out[i] : c->scratch, bytes ? bytes : 1);
	}
	return QUERN_OK;
}

/* An output whose shape only its data gives is made in scratch and moved. */
static void move_dynamic(const qn_node *n, qn_arena *const *out, qn_tensor *y)
{
	for (int i = 0; i < n->n_out && (n->op->traits & QN_DYNAMIC_OUTPUT); i++) {
		if (!y[i].data || !out[i])
			continue;
		size_t bytes = qn_tensor_bytes(&y[i]);
		void *data = qn_arena_alloc(out[i], bytes ? bytes : 1);
		if (bytes)
			memcpy(data, y[i].data, bytes);
		y[i].data = data;
	}
}

qn_status qn_exec_node_into(qn_ctx *ctx, qn_dims *dims, const qn_node *n, const qn_tensor *const *x, qn_arena *scratch, qn_arena *const *out,
	qn_tensor *y, bool *undecided)
{
	const qn_tensor **args = QN_NEW(scratch, const qn_tensor *, n->n_in + 1);
	qn_fact *in = QN_NEW(scratch, qn_fact, n->n_in + 1);
	for (int i = 0; i < n->n_in; i++) {
		args[i] = x[i] ? qn_tensor_aligned(scratch, x[i]) : NULL;
		in[i] = fact_of(args[i]);
		if (args[i] && args[i]->type == QN_DIM && n->in[i]->fact.type != QN_NONE) /* a float may be known as a dim too */
			in[i].type = n->in[i]->fact.type;
	}
	qn_call c = {.ctx = ctx, .node = n, .dims = dims, .scratch = scratch, .threads = ctx->threads, .in = in};
	c.out = QN_NEW(scratch, qn_fact, n->n_out + 1);
	c.y = y;
	memset(y, 0, sizeof *y * (size_t)n->n_out);
	if (undecided)
		*undecided = false;
	if (!n->op->eval)
		QN_OP_FAIL(&c, QUERN_ERR_UNSUPPORTED, "this operator cannot be run here");
	QN_TRY(qn_call_infer(&c));
	bool with_dims = promote_dims(n, args, scratch);
	if (!demote_dims(n, args, scratch)) {
		c.undecided = true;
	} else {
		c.x = args;
		QN_TRY(allocate_outputs(&c, with_dims, out));
		QN_TRY(n->op->eval(&c));
		move_dynamic(n, out, y);
	}
	if (c.undecided && !undecided)
		QN_OP_FAIL(&c, QUERN_ERR_SHAPE, "the result depends on a dim that is not known");
	if (undecided)
		*undecided = c.undecided;
	return QUERN_OK;
}

qn_status qn_exec_node(qn_ctx *ctx, qn_dims *dims, const qn_node *n, const qn_tensor *const *x, qn_arena *a, qn_tensor *y, bool *undecided)
{
	qn_arena **out = QN_NEW(a, qn_arena *, n->n_out + 1);
	return qn_exec_node_into(ctx, dims, n, x, a, out, y, undecided);
}
