/* MultiHeadAttention of com.microsoft: the projections are outside, their biases may be inside. */
#include "graph/ops/_attention.h"
#include <math.h>

enum { QUERY, KEY, VALUE, BIAS, MASK, MORE_BIAS, PAST_K, PAST_V, PAST_LENGTH, CACHE_INDIRECTION };

static const qn_limit limits[] = {
	{QN_LIMIT_INPUT, "past_sequence_length", PAST_LENGTH, 0},
	{QN_LIMIT_INPUT, "cache_indirection", CACHE_INDIRECTION, 0},
	{QN_LIMIT_OUTPUT, "qk", 3, 0},
};

/* Part `index` of what is packed along axis 3 of [B, S, H, parts, D], as [B, H, S, D]. */
static qn_value *unpack(const qn_build *b, const char *label, qn_value *x, int index)
{
	static const int64_t perm[] = {0, 2, 1, 3};
	qn_arena *a = b->g->arena;
	x = qn_build_slice(b, qn_arena_printf(a, "%s.part", label), x, 3, qn_dim_const(index), qn_dim_const(index + 1));
	x = qn_build_squeeze(b, qn_arena_printf(a, "%s.alone", label), x, 3);
	return qn_build_transpose(b, qn_arena_printf(a, "%s.heads", label), x, perm, 4);
}

/* [B, S, H * D] with its part of the bias, as [B, H, S, D]; *from moves on by the width. */
static qn_status projected(const qn_build *b, const char *label, int i, int64_t heads, int64_t *from, int64_t *size, qn_value **out)
{
	qn_value *x = b->n->in[i], *bias = qn_build_in(b, BIAS);
	int64_t width;
	QN_TRY(qn_build_known(b, x->fact.shape.dim[2], qn_arena_printf(b->g->arena, "the last dimension of %s", label), &width));
	if (width % heads)
		return qn_build_fail(b, QUERN_ERR_SHAPE, "the last dimension of %s, %lld, is no multiple of %lld heads", label,
			(long long)width, (long long)heads);
	*size = width / heads;
	if (bias) {
		bias = qn_build_slice(
			b, qn_arena_printf(b->g->arena, "%s.bias", label), bias, 0, qn_dim_const(*from), qn_dim_const(*from + width));
		x = qn_build_op2(b, "Add", qn_arena_printf(b->g->arena, "%s.biased", label), x, bias);
	}
	*from += width;
	*out = qn_attention_split_heads(b, label, x, heads);
	return QUERN_OK;
}

static qn_status packed(const qn_build *b, int i, int parts, qn_attention *at)
{
	const qn_shape *s = &b->n->in[i]->fact.shape;
	if (!qn_dim_is(s->dim[2], at->heads) || !qn_dim_is(s->dim[3], parts))
		return qn_build_fail(b, QUERN_ERR_SHAPE, "packed input '%s' has the shape %s, expected [batch, length, %lld, %d, size]",
			b->n->in[i]->name, qn_shape_text(b->g->arena, s), (long long)at->heads, parts);
	QN_TRY(qn_build_known(b, s->dim[4], "the head size", &at->size));
	at->v_size = at->size;
	at->keys = s->dim[1];
	if (parts == 3)
		at->q = unpack(b, "query", b->n->in[i], 0);
	at->k = unpack(b, "key", b->n->in[i], parts - 2);
	at->v = unpack(b, "value", b->n->in[i], parts - 1);
	return QUERN_OK;
}

/* Query, key and value as [B, H, length, size] from whichever form they come in. */
static qn_status operands(const qn_build *b, qn_attention *at)
{
	qn_node *n = b->n;
	QN_TRY(qn_build_rank(b, QUERY, "query", 3, 5));
	const qn_shape *q = &n->in[QUERY]->fact.shape;
	at->batch = q->dim[0];
	at->queries = q->dim[1];
	int64_t from = 0;
	if (!qn_build_in(b, KEY)) {
		QN_TRY(qn_build_rank(b, QUERY, "query, being packed without key,", 5, 5));
		if (qn_build_in(b, BIAS))
			return qn_build_fail(
				b, QUERN_ERR_UNSUPPORTED, "a bias beside a packed query is not supported; add it before the operator");
		return packed(b, QUERY, 3, at);
	}
	QN_TRY(qn_build_rank(b, QUERY, "query", 3, 3));
	QN_TRY(qn_build_rank(b, KEY, "key", 3, 5));
	QN_TRY(projected(b, "query", QUERY, at->heads, &from, &at->size, &at->q));
	const qn_shape *k = &n->in[KEY]->fact.shape;
	if (!qn_build_in(b, VALUE)) {
		QN_TRY(qn_build_rank(b, KEY, "key, being packed without value,", 5, 5));
		return packed(b, KEY, 2, at);
	}
	QN_TRY(qn_build_rank(b, VALUE, "value", k->rank, k->rank));
	if (k->rank == 4) { /* projected before, as in cross attention */
		at->k = n->in[KEY];
		at->v = n->in[VALUE];
		at->keys = k->dim[2];
		return qn_build_known(b, n->in[VALUE]->fact.shape.dim[3], "the head size of value", &at->v_size);
	}
	QN_TRY(qn_build_rank(b, KEY, "key", 3, 3));
	at->keys = k->dim[1];
	int64_t size;
	QN_TRY(projected(b, "key", KEY, at->heads, &from, &size, &at->k));
	if (size != at->size)
		return qn_build_fail(b, QUERN_ERR_SHAPE, "query has heads of %lld, key of %lld", (long long)at->size, (long long)size);
	return projected(b, "value", VALUE, at->heads, &from, &at->v_size, &at->v);
}

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	QN_TRY(qn_build_refuse(b, limits, QN_LEN(limits)));
	qn_attention at = {0};
	QN_TRY(qn_build_attr(b, "num_heads", 0, 1, QN_BUILD_MOST, &at.heads));
	at.kv_heads = at.heads;
	if (!qn_build_in(b, PAST_K) != !qn_build_in(b, PAST_V))
		return qn_build_fail(b, QUERN_ERR_FORMAT, "past_key and past_value must come together");
	QN_TRY(operands(b, &at));
	at.type = n->in[QUERY]->fact.type;
	qn_dim past = qn_dim_const(0);
	if (qn_build_in(b, PAST_K)) {
		QN_TRY(qn_build_rank(b, PAST_K, "past_key", 4, 4));
		QN_TRY(qn_build_rank(b, PAST_V, "past_value", 4, 4));
		past = n->in[PAST_K]->fact.shape.dim[2];
		at.keys = qn_dim_add(g->dims, past, at.keys);
		at.k = qn_build_concat(b, "present_key", 2, n->in[PAST_K], at.k);
		at.v = qn_build_concat(b, "present_value", 2, n->in[PAST_V], at.v);
	}
	double filter = qn_node_float(n, "mask_filter_value", -10000.0f);
	if (qn_build_in(b, MASK))
		QN_TRY(qn_attention_mask_index(b, n->in[MASK], at.type, at.batch, at.keys, filter, &at.bias));
	at.bias = qn_attention_sum(b, "bias", at.bias, qn_build_in(b, MORE_BIAS));
	if (qn_node_int(n, "unidirectional", 0))
		at.allow = qn_attention_band(b, at.queries, at.keys, qn_dim_sub(g->dims, at.keys, at.queries), -1, 0);
	at.scale = qn_node_float(n, "scale", 0);
	if (at.scale == 0)
		at.scale = 1 / sqrt((double)at.size);
	qn_build_give(b, 0, qn_attention_merge_heads(b, "context", qn_attention_apply(b, &at)));
	for (int i = 0; i < 2; i++) {
		qn_value *present = i ? at.v : at.k;
		bool borrowed = present == qn_build_in(b, KEY) || present == qn_build_in(b, VALUE);
		if (qn_build_wants(b, 1 + i))
			qn_build_give(b, 1 + i, borrowed ? qn_build_op1(b, "Identity", "present", present) : present);
	}
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_ms_multi_head_attention = {
	.name = "MultiHeadAttention",
	.domain = "com.microsoft",
	.min_in = 1,
	.max_in = 10,
	.max_out = 4,
	.lower = lower,
};
