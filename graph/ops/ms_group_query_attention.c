/* GroupQueryAttention of com.microsoft. The cache grows by concatenation: all sequences of a batch have the length
 * past + new, which is what seqlens_k then says, so it is not read (a line in the log says so). Right-padded prompts of a
 * batch still give the right rows, since the mask is causal. */
#include "graph/ops/_attention.h"
#include <math.h>

enum {
	QUERY,
	KEY,
	VALUE,
	PAST_K,
	PAST_V,
	SEQLENS,
	TOTAL,
	COS,
	SIN,
	POSITIONS,
	MORE_BIAS,
	SINK,
	K_SCALE,
	V_SCALE,
	Q_NORM,
	K_NORM,
	QUERY_SEQLENS
};

static const qn_limit limits[] = {
	{QN_LIMIT_ATTR, "sliding_window_cache", 0, 0},
	{QN_LIMIT_ATTR, "kv_cache_bit_width", 0, 0},
	{QN_LIMIT_ATTR, "k_quant_type", 0, 0},
	{QN_LIMIT_ATTR, "v_quant_type", 0, 0},
	{QN_LIMIT_INPUT, "k_scale", K_SCALE, 0},
	{QN_LIMIT_INPUT, "v_scale", V_SCALE, 0},
	{QN_LIMIT_INPUT, "query_seqlens", QUERY_SEQLENS, 0},
	{QN_LIMIT_OUTPUT, "output_qk", 3, 0},
};

static qn_status check(const qn_build *b)
{
	QN_TRY(qn_build_refuse(b, limits, QN_LEN(limits)));
	QN_TRY(qn_build_rank(b, QUERY, "query", 3, 3));
	if (!qn_build_in(b, KEY) != !qn_build_in(b, VALUE))
		return qn_build_fail(b, QUERN_ERR_FORMAT, "key and value must come together");
	if (qn_build_in(b, KEY)) {
		QN_TRY(qn_build_rank(b, KEY, "key", 3, 3));
		QN_TRY(qn_build_rank(b, VALUE, "value", 3, 3));
	}
	if (!qn_build_in(b, PAST_K) != !qn_build_in(b, PAST_V))
		return qn_build_fail(b, QUERN_ERR_FORMAT, "past_key and past_value must come together");
	if (qn_build_in(b, PAST_K)) {
		QN_TRY(qn_build_rank(b, PAST_K, "past_key", 4, 4));
		QN_TRY(qn_build_rank(b, PAST_V, "past_value", 4, 4));
	}
	if (qn_node_int(b->n, "do_rotary", 0)) {
		QN_TRY(qn_build_rank(b, COS, "cos_cache", 2, 2));
		QN_TRY(qn_build_rank(b, SIN, "sin_cache", 2, 2));
		if (qn_build_in(b, POSITIONS))
			QN_TRY(qn_build_rank(b, POSITIONS, "position_ids", 2, 2));
	}
	if (!qn_build_in(b, Q_NORM) != !qn_build_in(b, K_NORM))
		return qn_build_fail(b, QUERN_ERR_FORMAT, "q_norm_weight and k_norm_weight must come together");
	return QUERN_OK;
}

/* Query, key and value as [B, S, H * D]. */
static qn_status operands(const qn_build *b, qn_attention *at, qn_value *x[3])
{
	const qn_shape *s = &b->n->in[QUERY]->fact.shape;
	int64_t width, kv_width = 0;
	QN_TRY(qn_build_known(b, s->dim[2], "the last dimension of query", &width));
	at->batch = s->dim[0];
	at->queries = at->keys = s->dim[1];
	int64_t heads_inside = qn_build_in(b, KEY) ? at->heads : at->heads + 2 * at->kv_heads;
	at->size = at->v_size = width / heads_inside;
	bool fits = width % heads_inside == 0 && at->heads % at->kv_heads == 0;
	if (!qn_build_in(b, KEY)) {
		const int64_t part[] = {at->heads * at->size, at->kv_heads * at->size, at->kv_heads * at->size};
		if (fits)
			qn_build_split(b, "qkv.parts", b->n->in[QUERY], 2, part, 3, x);
	} else {
		QN_TRY(qn_build_known(b, b->n->in[KEY]->fact.shape.dim[2], "the last dimension of key", &kv_width));
		fits = fits && kv_width == at->kv_heads * at->size;
		at->keys = b->n->in[KEY]->fact.shape.dim[1];
		for (int i = 0; i < 3; i++)
			x[i] = b->n->in[QUERY + i];
	}
	if (!fits)
		return qn_build_fail(b, QUERN_ERR_SHAPE,
			"query of width %lld and key of width %lld do not fit num_heads = %lld, kv_num_heads = %lld", (long long)width,
			(long long)kv_width, (long long)at->heads, (long long)at->kv_heads);
	return QUERN_OK;
}

/* cos or sin as [B or 1, 1, S, rotated / 2]. Without position_ids the new tokens stand in a row after the past. */
static qn_value *table(const qn_build *b, const char *label, int i, const qn_attention *at, qn_dim past)
{
	if (qn_build_in(b, POSITIONS))
		return qn_rotary_at(b, label, b->n->in[i], b->n->in[POSITIONS], true);
	qn_arena *a = b->g->arena;
	qn_value *x =
		qn_build_slice(b, qn_arena_printf(a, "%s.at", label), b->n->in[i], 0, past, qn_dim_add(b->g->dims, past, at->queries));
	x = qn_build_unsqueeze(b, qn_arena_printf(a, "%s.by_batch", label), x, 0);
	return qn_build_unsqueeze(b, qn_arena_printf(a, "%s.by_head", label), x, 1);
}

static qn_status rotate(const qn_build *b, qn_attention *at, qn_dim past)
{
	if (!qn_node_int(b->n, "do_rotary", 0))
		return QUERN_OK;
	int64_t half;
	QN_TRY(qn_build_known(b, b->n->in[COS]->fact.shape.dim[1], "the width of cos_cache", &half));
	qn_rotary r = {.rank = 4, .size = at->size, .rotated = 2 * half, .interleaved = qn_node_int(b->n, "rotary_interleaved", 0) != 0};
	if (r.rotated <= 0 || r.rotated > r.size)
		return qn_build_fail(
			b, QUERN_ERR_SHAPE, "cos_cache of width %lld does not fit heads of %lld", (long long)half, (long long)r.size);
	qn_value *cos = table(b, "cos", COS, at, past), *sin = table(b, "sin", SIN, at, past);
	at->q = qn_rotary_apply(b, "query", at->q, cos, sin, &r);
	at->k = qn_rotary_apply(b, "key", at->k, cos, sin, &r);
	return QUERN_OK;
}

/* What the file says of the total length must be past + new, where it is known at all. */
static qn_status check_total(const qn_build *b, const qn_attention *at)
{
	qn_value *total = qn_build_in(b, TOTAL);
	if (!total || !total->fact.value || qn_tensor_count(total->fact.value) != 1)
		return QUERN_OK;
	const qn_tensor *t = total->fact.value;
	qn_dim has = t->type == QN_DIM ? *(const qn_dim *)t->data : qn_dim_const(qn_tensor_get_i64(t, 0));
	if (qn_dim_eq(b->g->dims, has, at->keys) == QN_TRUE || qn_dim_equate(b->g->dims, has, at->keys))
		return QUERN_OK;
	qn_arena *a = b->g->arena;
	return qn_build_fail(b, QUERN_ERR_UNSUPPORTED,
		"total_sequence_length is '%s' where past and new tokens make '%s'; export with a cache that "
		"grows instead of a shared buffer",
		qn_dim_text(a, has, NULL, NULL), qn_dim_text(a, at->keys, NULL, NULL));
}

static qn_value *normed(const qn_build *b, const char *label, qn_value *x, int weight, const char *epsilon)
{
	if (!qn_build_in(b, weight))
		return x;
	float e = qn_node_float(b->n, epsilon, qn_node_float(b->n, "qk_norm_epsilon", 1e-6f));
	return qn_build_norm(b, label, x, b->n->in[weight], NULL, true, e);
}

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	QN_TRY(check(b));
	qn_attention at = {.type = n->in[QUERY]->fact.type};
	QN_TRY(qn_build_attr(b, "num_heads", 0, 1, QN_BUILD_MOST, &at.heads));
	QN_TRY(qn_build_attr(b, "kv_num_heads", 0, 1, QN_BUILD_MOST, &at.kv_heads));
	qn_value *x[3];
	QN_TRY(operands(b, &at, x));
	at.q = normed(b, "query.norm", qn_attention_split_heads(b, "query", x[0], at.heads), Q_NORM, "q_norm_epsilon");
	at.k = normed(b, "key.norm", qn_attention_split_heads(b, "key", x[1], at.kv_heads), K_NORM, "k_norm_epsilon");
	at.v = qn_attention_split_heads(b, "value", x[2], at.kv_heads);
	qn_dim past = qn_build_in(b, PAST_K) ? n->in[PAST_K]->fact.shape.dim[2] : qn_dim_const(0);
	QN_TRY(rotate(b, &at, past));
	if (qn_build_in(b, PAST_K)) {
		at.keys = qn_dim_add(g->dims, past, at.keys);
		at.k = qn_build_concat(b, "present_key", 2, n->in[PAST_K], at.k);
		at.v = qn_build_concat(b, "present_value", 2, n->in[PAST_V], at.v);
	}
	QN_TRY(check_total(b, &at));
	if (!qn_dim_is(at.batch, 1))
		qn_build_note(b, "'seqlens_k' is not read; the cached sequences of a batch have one length");
	if (qn_node_int(n, "causal", 1)) {
		int64_t window;
		QN_TRY(qn_build_attr(b, "local_window_size", -1, -1, QN_BUILD_MOST, &window));
		at.allow = qn_attention_band(b, at.queries, at.keys, past, window > 0 ? window - 1 : -1, 0);
	}
	at.bias = qn_build_in(b, MORE_BIAS);
	at.sink = qn_build_in(b, SINK);
	at.zero_sink = !at.sink && qn_node_int(n, "smooth_softmax", 0) > 0;
	at.softcap = qn_node_float(n, "softcap", 0);
	at.scale = qn_node_float(n, "scale", 0);
	if (at.scale == 0)
		at.scale = 1 / sqrt((double)at.size);
	qn_build_give(b, 0, qn_attention_merge_heads(b, "context", qn_attention_apply(b, &at)));
	qn_build_give(b, 1, at.k);
	qn_build_give(b, 2, at.v);
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_ms_group_query_attention = {
	.name = "GroupQueryAttention",
	.domain = "com.microsoft",
	.min_in = 1,
	.max_in = 17,
	.max_out = 4,
	.lower = lower,
};
