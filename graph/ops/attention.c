/* Attention of ai.onnx, opsets 23 to 25. */
#include "graph/ops/_attention.h"
#include <math.h>

enum { Q, K, V, MASK, PAST_K, PAST_V, LENGTHS };

static qn_status check(const qn_build *b)
{
	QN_TRY(qn_build_rank(b, Q, "Q", 3, 4));
	int rank = b->n->in[Q]->fact.shape.rank;
	QN_TRY(qn_build_rank(b, K, "K", rank, rank));
	QN_TRY(qn_build_rank(b, V, "V", rank, rank));
	if (!qn_build_in(b, PAST_K) != !qn_build_in(b, PAST_V))
		return qn_build_fail(b, QUERN_ERR_FORMAT, "past_key and past_value must come together");
	if (qn_build_in(b, PAST_K)) {
		QN_TRY(qn_build_rank(b, PAST_K, "past_key", 4, 4));
		QN_TRY(qn_build_rank(b, PAST_V, "past_value", 4, 4));
		if (qn_build_in(b, LENGTHS))
			return qn_build_fail(b, QUERN_ERR_FORMAT, "nonpad_kv_seqlen cannot be used with past_key");
	}
	if (qn_build_in(b, LENGTHS))
		QN_TRY(qn_build_rank(b, LENGTHS, "nonpad_kv_seqlen", 1, 1));
	return QUERN_OK;
}

/* One operand as [B, heads, length, size]. */
static qn_status operand(const qn_build *b, int i, const char *what, const char *heads_attr, qn_value **out, int64_t *heads, int64_t *size)
{
	qn_value *x = b->n->in[i];
	const qn_shape *s = &x->fact.shape;
	*out = x;
	if (s->rank == 4) {
		QN_TRY(qn_build_known(b, s->dim[1], qn_arena_printf(b->g->arena, "the number of heads of %s", what), heads));
		return qn_build_known(b, s->dim[3], qn_arena_printf(b->g->arena, "the head size of %s", what), size);
	}
	int64_t hidden;
	QN_TRY(qn_build_attr(b, heads_attr, 0, 1, QN_BUILD_MOST, heads));
	QN_TRY(qn_build_known(b, s->dim[2], qn_arena_printf(b->g->arena, "the last dimension of %s", what), &hidden));
	if (hidden % *heads)
		return qn_build_fail(b, QUERN_ERR_SHAPE, "the last dimension of %s, %lld, does not fit %s = %lld", what, (long long)hidden,
			heads_attr, (long long)*heads);
	*size = hidden / *heads;
	*out = qn_attention_split_heads(b, what, x, *heads);
	return QUERN_OK;
}

/* The mask with what it lacks in length filled up, so that those keys are hidden. */
static qn_value *full_length(const qn_build *b, qn_value *mask, qn_dim keys)
{
	const qn_shape *s = &mask->fact.shape;
	qn_dim has = s->dim[s->rank - 1];
	/* a fixed length meets a symbolic one: it may be shorter. Of two symbols, the two are taken for one. */
	bool may_be_short = qn_dim_is_const(has) && has.k > 1 && !qn_dim_is_const(keys);
	if (qn_dim_lt(b->g->dims, has, keys) != QN_TRUE && !may_be_short)
		return mask;
	qn_dim shape[QN_MAX_RANK];
	memcpy(shape, s->dim, sizeof(shape));
	shape[s->rank - 1] = qn_dim_sub(b->g->dims, keys, has);
	qn_dtype type = mask->fact.type;
	qn_value *fill = qn_build_full(b, "mask.fill", type, type == QN_BOOL ? 0 : -INFINITY, shape, s->rank);
	return qn_build_concat(b, "mask.full", -1, mask, fill);
}

static qn_status masks(const qn_build *b, qn_attention *at, qn_dim past)
{
	int64_t left, right;
	QN_TRY(qn_build_attr(b, "left_window_size", -1, -1, QN_BUILD_MOST, &left));
	QN_TRY(qn_build_attr(b, "right_window_size", -1, -1, QN_BUILD_MOST, &right));
	if (qn_node_int(b->n, "is_causal", 0))
		right = 0;
	qn_value *mask = qn_build_in(b, MASK), *lengths = qn_build_in(b, LENGTHS);
	if (mask) {
		QN_TRY(qn_build_rank(b, MASK, "attn_mask", 1, 4));
		mask = full_length(b, mask, at->keys);
		if (b->n->in[MASK]->fact.type == QN_BOOL)
			at->allow = mask;
		else
			at->bias = mask;
	}
	qn_value *band = lengths ? qn_attention_band_by_length(b, lengths, at->queries, at->keys, left, right)
				 : qn_attention_band(b, at->queries, at->keys, past, left, right);
	at->allow = qn_attention_both(b, at->allow, band);
	at->may_be_empty = mask || lengths || left >= 0;
	return QUERN_OK;
}

static void give(const qn_build *b, const qn_attention *at, qn_value *context, bool packed)
{
	qn_build_give(b, 0, packed ? qn_attention_merge_heads(b, "context", context) : context);
	if (qn_build_wants(b, 1))
		qn_build_give(b, 1, at->k == b->n->in[K] ? qn_build_op1(b, "Identity", "present_key", at->k) : at->k);
	if (qn_build_wants(b, 2))
		qn_build_give(b, 2, at->v == b->n->in[V] ? qn_build_op1(b, "Identity", "present_value", at->v) : at->v);
	if (qn_build_wants(b, 3)) {
		qn_value *const by_mode[] = {at->scores, at->capped, at->masked, at->probs};
		qn_build_give(b, 3, by_mode[qn_node_int(b->n, "qk_matmul_output_mode", 0)]);
	}
}

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	QN_TRY(check(b));
	int64_t mode, v_heads, k_size;
	QN_TRY(qn_build_attr(b, "qk_matmul_output_mode", 0, 0, 3, &mode));
	qn_attention at = {.type = n->in[Q]->fact.type, .want_masked = mode == 2 && qn_build_wants(b, 3)};
	QN_TRY(operand(b, Q, "Q", "q_num_heads", &at.q, &at.heads, &at.size));
	QN_TRY(operand(b, K, "K", "kv_num_heads", &at.k, &at.kv_heads, &k_size));
	QN_TRY(operand(b, V, "V", "kv_num_heads", &at.v, &v_heads, &at.v_size));
	if (k_size != at.size || v_heads != at.kv_heads || at.kv_heads == 0 || at.heads % at.kv_heads)
		return qn_build_fail(b, QUERN_ERR_SHAPE, "%lld heads of %lld in Q, %lld of %lld in K and %lld in V do not fit",
			(long long)at.heads, (long long)at.size, (long long)at.kv_heads, (long long)k_size, (long long)v_heads);

	bool packed = n->in[Q]->fact.shape.rank == 3;
	const qn_dim *q_dim = n->in[Q]->fact.shape.dim, *k_dim = n->in[K]->fact.shape.dim;
	at.batch = q_dim[0];
	at.queries = q_dim[packed ? 1 : 2];
	at.keys = k_dim[packed ? 1 : 2];
	qn_dim past = qn_dim_const(0);
	if (qn_build_in(b, PAST_K)) {
		past = n->in[PAST_K]->fact.shape.dim[2];
		at.keys = qn_dim_add(g->dims, past, at.keys);
		at.k = qn_build_concat(b, "present_key", 2, n->in[PAST_K], at.k);
		at.v = qn_build_concat(b, "present_value", 2, n->in[PAST_V], at.v);
	}
	at.scale = qn_node_float(n, "scale", 0);
	if (!qn_node_attr(n, "scale"))
		at.scale = 1 / sqrt((double)at.size);
	at.softcap = qn_node_float(n, "softcap", 0);
	QN_TRY(masks(b, &at, past));
	qn_value *context = qn_attention_apply(b, &at);
	give(b, &at, context, packed);
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_attention = {
	.name = "Attention",
	.since = 23,
	.min_in = 3,
	.max_in = 7,
	.max_out = 4,
	.lower = lower,
};
