/* exec_many.c - one node in several runs side by side. */
#include "graph/exec.h"

/* The operands of a linear layer when all runs read the same weight and bias and rows of one width; their rows are counted. */
static bool stackable(qn_exec *const *e, size_t count, const qn_node *n, int64_t *rows)
{
	if (count < 2 || !qn_node_is(n, "quern:Linear"))
		return false;
	*rows = 0;
	const qn_tensor *first = qn_exec_value(e[0], n->in[0]);
	for (size_t i = 0; i < count; i++) {
		const qn_tensor *x = qn_exec_value(e[i], n->in[0]);
		if (!x || x->type != QN_F32 || x->rank < 1 || x->dim[x->rank - 1] != first->dim[first->rank - 1] || !x->dim[x->rank - 1])
			return false;
		for (int k = 1; k < n->n_in; k++)
			if (n->in[k] && qn_exec_value(e[i], n->in[k]) != qn_exec_value(e[0], n->in[k]))
				return false;
		*rows += qn_tensor_count(x) / x->dim[x->rank - 1];
	}
	return true;
}

static qn_tensor *stack(qn_exec *const *e, size_t count, qn_value *v, int64_t rows, qn_arena *a)
{
	const qn_tensor *first = qn_exec_value(e[0], v);
	int64_t dim[] = {rows, first->dim[first->rank - 1]};
	qn_tensor *t = qn_tensor_new(a, QN_F32, 2, dim);
	char *at = (char *)(uintptr_t)t->data;
	for (size_t i = 0; i < count; i++) {
		const qn_tensor *x = qn_exec_value(e[i], v);
		size_t bytes = qn_tensor_bytes(x);
		if (bytes)
			memcpy(at, x->data, bytes);
		at += bytes;
	}
	return t;
}

static qn_status step_stacked(qn_exec *const *e, size_t count, const qn_node *n, const qn_graph *g, int64_t rows, qn_arena *a)
{
	const qn_tensor **x = QN_NEW(a, const qn_tensor *, n->n_in);
	qn_tensor y;
	x[0] = stack(e, count, n->in[0], rows, a);
	for (int k = 1; k < n->n_in; k++)
		x[k] = n->in[k] ? qn_exec_value(e[0], n->in[k]) : NULL;
	QN_TRY(qn_exec_node(g->ctx, g->dims, n, x, a, &y, NULL));
	const char *at = y.data;
	for (size_t i = 0; i < count; i++) {
		qn_tensor part = *qn_exec_value(e[i], n->in[0]);
		part.dim[part.rank - 1] = y.dim[1];
		part.data = at;
		qn_exec_give(e[i], n, &part);
		at += qn_tensor_bytes(&part);
	}
	return QUERN_OK;
}

qn_status qn_exec_step_many(qn_exec *const *e, size_t count, qn_node *n)
{
	int64_t rows;
	if (stackable(e, count, n, &rows)) {
		const qn_graph *g = qn_exec_graph(e[0]);
		qn_arena a;
		qn_arena_init(&a, g->ctx);
		qn_status status = step_stacked(e, count, n, g, rows, &a);
		qn_arena_release(&a);
		return status;
	}
	for (size_t i = 0; i < count; i++)
		QN_TRY(qn_exec_step(e[i], n));
	return QUERN_OK;
}
