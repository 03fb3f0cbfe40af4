/* tag_channels.c - which output channels of a fused layer reach an operand: their numbers are sent through the graph. */
#include "passes/channel_numbers.h"
#include "passes/tag.h"

typedef struct channels {
	qn_tagger *t;
	const qn_layer *layer;
	qn_numbers numbers;
	const qn_tensor **of; /* by value id; NULL: not visited */
	uint8_t *carries;     /* by value id: some element has a channel */
} channels;

static const qn_tensor *follow(channels *c, qn_value *v);

/* What happens to values does not matter, only where they go: the operand with the result's shape stands for the result. */
static const qn_tensor *pass_through(channels *c, qn_value *v, const qn_node *n)
{
	int64_t dim[QN_MAX_RANK];
	if (!qn_numbers_shape(&v->fact.shape, dim))
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
			x[i] = n->in[i]->is_const && n->in[i]->fact.type != QN_F32 ? qn_numbers_constant(&c->numbers, n->in[i]) : follow(c, n->in[i]);
	qn_tensor *y = c->numbers.failed ? NULL : qn_numbers_run(&c->numbers, n, x);
	return y ? &y[v->producer_output] : NULL;
}

static const qn_tensor *follow(channels *c, qn_value *v)
{
	if (c->of[v->id] || c->numbers.failed)
		return c->of[v->id];
	qn_node *n = v->producer;
	const qn_tensor *t = NULL;
	if (n == c->layer->node)
		t = qn_numbers_own(&c->numbers, c->layer, v);
	else if (!n || v->is_const || n->op->hint == QN_HINT_CONTRACTION || n->op->hint == QN_HINT_SOFTMAX || qn_tag_is_table(c->t, n))
		t = qn_numbers_filled(&c->numbers, v);
	else if ((n->op->traits & QN_ELEMENTWISE) || n->op->hint == QN_HINT_NORM)
		t = pass_through(c, v, n);
	else
		t = run(c, v, n);
	if (!t && !c->numbers.failed && n) /* arithmetic that does not take numbers of channels */
		t = pass_through(c, v, n);
	if (!t && !c->numbers.failed)
		t = qn_numbers_filled(&c->numbers, v);
	c->of[v->id] = t;
	c->carries[v->id] = t && qn_numbers_any(t);
	return t;
}

qn_status qn_tag_channels(qn_tagger *t, const qn_layer *layer, qn_value *v, int64_t **rows, int64_t *n)
{
	channels c = {.t = t, .layer = layer, .numbers = {t->g, t->a, false}, .of = QN_NEW(t->a, const qn_tensor *, t->g->n_values), .carries = QN_NEW(t->a, uint8_t, t->g->n_values)};
	const qn_tensor *x = follow(&c, v);
	*n = -1;
	if (!x || c.numbers.failed || !c.carries[v->id])
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
