/* tag_channels.c - which output channels of a fused layer reach an operand. The channel numbers themselves are sent through the graph:
 * the layer's output is replaced by a tensor that holds, in each element, the number of its channel, and the nodes between are run on it.
 * So Split, Slice, Reshape and Transpose need no rules of their own, and uneven or interleaved layouts come out right. */
#include "passes/tag.h"

#include "graph/exec.h"

enum { SYMBOL_SIZE = 2, NO_CHANNEL = -1 };

static int64_t symbol_size(void *user, const char *text)
{
	(void)user;
	(void)text;
	return SYMBOL_SIZE;
}

typedef struct channels {
	qn_tagger *t;
	const qn_layer *layer;
	const qn_tensor **of; /* by value id; NULL: not visited */
	uint8_t *carries;     /* by value id: some element has a channel */
	bool failed;
} channels;

static bool concrete_shape(const qn_shape *s, int64_t *dim)
{
	for (int i = 0; i < s->rank; i++)
		if (qn_dim_is_const(s->dim[i]))
			dim[i] = s->dim[i].k;
		else if (!qn_dim_eval(s->dim[i], symbol_size, NULL, &dim[i]))
			return false;
	return s->rank >= 0;
}

static qn_tensor *filled(channels *c, const qn_value *v)
{
	int64_t dim[QN_MAX_RANK];
	if (!concrete_shape(&v->fact.shape, dim)) {
		c->failed = true;
		return NULL;
	}
	qn_tensor *t = qn_tensor_new(c->t->a, QN_I64, v->fact.shape.rank, dim);
	int64_t n = qn_tensor_count(t);
	for (int64_t i = 0; i < n; i++)
		((int64_t *)(uintptr_t)t->data)[i] = NO_CHANNEL;
	return t;
}

/* The layer's own output: the channel is the last axis of a matrix product, the second of a convolution. */
static qn_tensor *numbered(channels *c, const qn_value *v)
{
	qn_tensor *t = filled(c, v);
	if (!t)
		return NULL;
	int axis = (c->layer->node->op->traits & QN_CONVOLUTION) ? 1 : t->rank - 1;
	int64_t inner = 1, n = qn_tensor_count(t);
	for (int i = axis + 1; i < t->rank; i++)
		inner *= t->dim[i];
	for (int64_t i = 0; i < n; i++)
		((int64_t *)(uintptr_t)t->data)[i] = i / inner % t->dim[axis];
	return t;
}

static const qn_tensor *constant(channels *c, qn_value *v)
{
	const qn_tensor *t;
	if (qn_graph_load(c->t->g, v, c->t->a, &t) != QUERN_OK) {
		c->failed = true;
		return NULL;
	}
	if (t->type != QN_DIM)
		return t;
	qn_tensor *r = qn_tensor_new(c->t->a, QN_I64, t->rank, t->dim);
	int64_t n = qn_tensor_count(t);
	const qn_dim *d = t->data;
	for (int64_t i = 0; i < n; i++)
		if (qn_dim_is_const(d[i]))
			((int64_t *)(uintptr_t)r->data)[i] = d[i].k;
		else if (!qn_dim_eval(d[i], symbol_size, NULL, (int64_t *)(uintptr_t)r->data + i))
			c->failed = true;
	return r;
}

static const qn_tensor *follow(channels *c, qn_value *v);

/* What happens to values does not matter, only where they go: the operand with the result's shape stands for the result. */
static const qn_tensor *pass_through(channels *c, qn_value *v, const qn_node *n)
{
	int64_t dim[QN_MAX_RANK];
	if (!concrete_shape(&v->fact.shape, dim))
		return NULL;
	for (int i = 0; i < n->n_in; i++) {
		const qn_tensor *x = n->in[i] && !n->in[i]->is_const ? follow(c, n->in[i]) : NULL;
		if (x && c->carries[n->in[i]->id] && x->rank == v->fact.shape.rank && !memcmp(x->dim, dim, sizeof dim[0] * (size_t)x->rank))
			return x;
	}
	return NULL;
}

static const qn_tensor *run(channels *c, qn_value *v, const qn_node *n)
{
	const qn_tensor **x = QN_NEW(c->t->a, const qn_tensor *, n->n_in + 1);
	for (int i = 0; i < n->n_in; i++)
		if (n->in[i])
			x[i] = n->in[i]->is_const && n->in[i]->fact.type != QN_F32 ? constant(c, n->in[i]) : follow(c, n->in[i]);
	qn_tensor *y = QN_NEW(c->t->a, qn_tensor, n->n_out + 1);
	if (c->failed)
		return NULL;
	if (qn_exec_node(c->t->g->ctx, c->t->g->dims, n, x, c->t->a, y, NULL) != QUERN_OK)
		return NULL;
	return &y[v->producer_output];
}

static bool carries_channels(const qn_tensor *t)
{
	int64_t n = t->type == QN_I64 ? qn_tensor_count(t) : 0;
	for (int64_t i = 0; i < n; i++)
		if (((const int64_t *)t->data)[i] >= 0)
			return true;
	return false;
}

static const qn_tensor *follow(channels *c, qn_value *v)
{
	if (c->of[v->id] || c->failed)
		return c->of[v->id];
	qn_node *n = v->producer;
	const qn_tensor *t = NULL;
	if (n == c->layer->node)
		t = numbered(c, v);
	else if (!n || v->is_const || n->op->hint == QN_HINT_CONTRACTION || n->op->hint == QN_HINT_SOFTMAX || qn_tag_is_table(c->t, n))
		t = filled(c, v);
	else if ((n->op->traits & QN_ELEMENTWISE) || n->op->hint == QN_HINT_NORM)
		t = pass_through(c, v, n);
	else
		t = run(c, v, n);
	if (!t && !c->failed && n) /* arithmetic that does not take numbers of channels */
		t = pass_through(c, v, n);
	if (!t && !c->failed)
		t = filled(c, v);
	c->of[v->id] = t;
	c->carries[v->id] = t && carries_channels(t);
	return t;
}

qn_status qn_tag_channels(qn_tagger *t, const qn_layer *layer, qn_value *v, int64_t **rows, int64_t *n)
{
	channels c = {.t = t, .layer = layer, .of = QN_NEW(t->a, const qn_tensor *, t->g->n_values), .carries = QN_NEW(t->a, uint8_t, t->g->n_values)};
	const qn_tensor *x = follow(&c, v);
	*n = -1;
	if (!x || c.failed || !c.carries[v->id])
		return QUERN_OK;
	uint8_t *hit = QN_NEW(t->a, uint8_t, layer->n);
	int64_t count = qn_tensor_count(x);
	for (int64_t i = 0; i < count; i++) {
		int64_t k = ((const int64_t *)x->data)[i];
		if (k >= 0 && k < layer->n)
			hit[k] = 1;
	}
	*rows = QN_NEW(t->a, int64_t, layer->n);
	*n = 0;
	for (int64_t k = 0; k < layer->n; k++)
		if (hit[k])
			(*rows)[(*n)++] = k;
	return QUERN_OK;
}
