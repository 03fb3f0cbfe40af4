/* channel_numbers.c - numbers of channels sent through the graph. */
#include "passes/channel_numbers.h"

#include "graph/exec.h"

enum { SYMBOL_SIZE = 2 };

static int64_t symbol_size(void *user, const char *text)
{
	(void)user;
	(void)text;
	return SYMBOL_SIZE;
}

bool qn_numbers_shape(const qn_shape *s, int64_t *dim)
{
	for (int i = 0; i < s->rank; i++) {
		dim[i] = s->dim[i].k;
		if (!qn_dim_is_const(s->dim[i]) && (!qn_dim_eval(s->dim[i], symbol_size, NULL, &dim[i]) || dim[i] < 0))
			return false;
	}
	return s->rank >= 0;
}

qn_tensor *qn_numbers_filled(qn_numbers *c, const qn_value *v)
{
	int64_t dim[QN_MAX_RANK];
	if (!qn_numbers_shape(&v->fact.shape, dim)) {
		c->failed = true;
		return NULL;
	}
	qn_tensor *t = qn_tensor_new(c->a, QN_I64, v->fact.shape.rank, dim);
	int64_t n = qn_tensor_count(t);
	for (int64_t i = 0; i < n; i++)
		((int64_t *)(uintptr_t)t->data)[i] = QN_NO_CHANNEL;
	return t;
}

qn_tensor *qn_numbers_own(qn_numbers *c, const qn_layer *l, const qn_value *v)
{
	qn_tensor *t = qn_numbers_filled(c, v);
	if (!t)
		return NULL;
	int axis = (l->node->op->traits & QN_CONVOLUTION) ? 1 : t->rank - 1;
	int64_t inner = 1, n = qn_tensor_count(t);
	for (int i = axis + 1; i < t->rank; i++)
		inner *= t->dim[i];
	for (int64_t i = 0; i < n; i++)
		((int64_t *)(uintptr_t)t->data)[i] = i / inner % t->dim[axis];
	return t;
}

const qn_tensor *qn_numbers_constant(qn_numbers *c, qn_value *v)
{
	const qn_tensor *t;
	if (qn_graph_load(c->g, v, c->a, &t) != QUERN_OK) {
		c->failed = true;
		return NULL;
	}
	if (t->type != QN_DIM)
		return t;
	qn_tensor *r = qn_tensor_new(c->a, QN_I64, t->rank, t->dim);
	int64_t n = qn_tensor_count(t);
	const qn_dim *d = t->data;
	for (int64_t i = 0; i < n; i++)
		if (qn_dim_is_const(d[i]))
			((int64_t *)(uintptr_t)r->data)[i] = d[i].k;
		else if (!qn_dim_eval(d[i], symbol_size, NULL, (int64_t *)(uintptr_t)r->data + i))
			c->failed = true;
	return r;
}

qn_tensor *qn_numbers_run(qn_numbers *c, const qn_node *n, const qn_tensor *const *x)
{
	qn_tensor *y = QN_NEW(c->a, qn_tensor, n->n_out + 1);
	return qn_exec_node(c->g->ctx, c->g->dims, n, x, c->a, y, NULL) == QUERN_OK ? y : NULL;
}

bool qn_numbers_any(const qn_tensor *t)
{
	int64_t n = t->type == QN_I64 ? qn_tensor_count(t) : 0;
	for (int64_t i = 0; i < n; i++)
		if (((const int64_t *)t->data)[i] >= 0)
			return true;
	return false;
}
