#include "graph/ops/_attention.h"
#include <math.h>

static const int64_t swap_middle[] = {0, 2, 1, 3}, swap_last[] = {0, 1, 3, 2};

qn_value *qn_attention_split_heads(const qn_build *b, const char *label, qn_value *x, int64_t heads)
{
	const int64_t apart[] = {0, 0, heads, -1};
	qn_value *y = qn_build_reshape(b, qn_arena_printf(b->g->arena, "%s.apart", label), x, apart, 4);
	return qn_build_transpose(b, qn_arena_printf(b->g->arena, "%s.heads", label), y, swap_middle, 4);
}

qn_value *qn_attention_merge_heads(const qn_build *b, const char *label, qn_value *x)
{
	const int64_t together[] = {0, 0, -1};
	qn_value *y = qn_build_transpose(b, qn_arena_printf(b->g->arena, "%s.rows", label), x, swap_middle, 4);
	return qn_build_reshape(b, qn_arena_printf(b->g->arena, "%s.merged", label), y, together, 3);
}

static qn_value *repeat_heads(const qn_build *b, const char *label, qn_value *x, const qn_attention *at, int64_t size)
{
	if (at->heads == at->kv_heads)
		return x;
	qn_arena *a = b->g->arena;
	const int64_t times[] = {1, 1, at->heads / at->kv_heads, 1, 1}, shape[] = {0, at->heads, -1, size};
	qn_value *y = qn_build_unsqueeze(b, qn_arena_printf(a, "%s.group", label), x, 2);
	y = qn_build_op2(
		b, "Expand", qn_arena_printf(a, "%s.repeat", label), y, qn_build_ints(b, qn_arena_printf(a, "%s.times", label), times, 5));
	return qn_build_reshape(b, qn_arena_printf(a, "%s.repeated", label), y, shape, 4);
}

/* Softmax with one more logit for each head, whose probability is dropped. */
static qn_value *sink_softmax(const qn_build *b, const qn_attention *at, qn_value *x)
{
	const qn_dim column[] = {at->batch, qn_dim_const(at->heads), at->queries, qn_dim_const(1)};
	qn_value *logit;
	if (at->sink) {
		const int64_t shape[] = {1, -1, 1, 1};
		logit = qn_build_cast(b, "sink.typed", qn_build_reshape(b, "sink.column", at->sink, shape, 4), at->type);
		logit = qn_build_op2(b, "Expand", "sink", logit, qn_build_dims(b, "sink.shape", column, 4));
	} else {
		logit = qn_build_full(b, "sink", at->type, 0, column, 4);
	}
	x = qn_build_softmax(b, "softmax", qn_build_concat(b, "with_sink", -1, x, logit));
	return qn_build_slice(b, "probs", x, -1, qn_dim_const(0), at->keys);
}

/* All of what is added to the scores, or NULL. A query without keys has -inf in all of its row. */
static qn_value *mask_bias(const qn_build *b, const qn_attention *at)
{
	qn_value *bias = at->bias;
	if (at->allow) {
		qn_value *zero = qn_build_number(b, "open", at->type, 0), *hidden = qn_build_number(b, "hidden", at->type, -INFINITY);
		bias = qn_attention_sum(b, "mask", bias, qn_build_op3(b, "Where", "allow.bias", at->allow, zero, hidden));
	}
	return bias;
}

/* The rows of the mask that hide every key. The engine's maximum of infinities is finite, so that flags are counted instead. */
static qn_value *without_keys(const qn_build *b, const qn_attention *at, qn_value *bias)
{
	const int64_t last = -1;
	qn_value *axis = qn_build_ints(b, "mask.axis", &last, 1);
	if (!at->bias) {
		qn_value *open = qn_build_cast(b, "mask.open", at->allow, QN_F32);
		return qn_build_with(b, "Less", "mask.empty", qn_build_op2(b, "ReduceMax", "mask.most", open, axis), QN_F32, 0.5);
	}
	qn_value *shut = qn_build_cast(b, "mask.shut", qn_build_with(b, "Equal", "mask.hides", bias, at->type, -INFINITY), QN_F32);
	return qn_build_with(b, "Greater", "mask.empty", qn_build_op2(b, "ReduceMin", "mask.least", shut, axis), QN_F32, 0.5);
}

static qn_value *attend(const qn_build *b, qn_attention *at)
{
	qn_value *k = repeat_heads(b, "key", at->k, at, at->size), *v = repeat_heads(b, "value", at->v, at, at->v_size);
	qn_value *x = qn_build_op2(b, "MatMul", "qk", at->q, qn_build_transpose(b, "key.turned", k, swap_last, 4));
	if (at->scale != 1)
		x = qn_build_with(b, "Mul", "qk.scaled", x, at->type, at->scale);
	at->scores = x;
	if (at->softcap > 0) {
		x = qn_build_op1(b, "Tanh", "qk.tanh", qn_build_with(b, "Div", "qk.small", x, at->type, at->softcap));
		x = qn_build_with(b, "Mul", "qk.capped", x, at->type, at->softcap);
	}
	at->capped = x;

	bool sink = at->sink || at->zero_sink;
	qn_value *bias = mask_bias(b, at), *dead = NULL;
	if (at->want_masked)
		at->masked = bias ? qn_build_op2(b, "Add", "qk.masked_all", x, bias) : x;
	if (bias && at->may_be_empty && !sink) {
		/* such a row is opened before the softmax and closed after it, so that no NaN ever appears */
		dead = without_keys(b, at, bias);
		bias = qn_build_op3(b, "Where", "mask.safe", dead, qn_build_number(b, "mask.zero", at->type, 0), bias);
	}
	if (bias)
		x = qn_build_op2(b, "Add", "qk.masked", x, bias);
	x = sink ? sink_softmax(b, at, x) : qn_build_softmax(b, "softmax", x);
	if (dead)
		x = qn_build_op3(b, "Where", "probs.safe", dead, qn_build_number(b, "probs.zero", at->type, 0), x);
	at->probs = x;
	return qn_build_op2(b, "MatMul", "context", x, v);
}

qn_value *qn_attention_apply(const qn_build *b, qn_attention *at)
{
	qn_dtype type = at->type;
	if (type != QN_F16 && type != QN_BF16)
		return attend(b, at);
	qn_attention wide = *at;
	wide.type = QN_F32;
	wide.q = qn_build_cast(b, "query.wide", at->q, QN_F32);
	wide.k = qn_build_cast(b, "key.wide", at->k, QN_F32);
	wide.v = qn_build_cast(b, "value.wide", at->v, QN_F32);
	wide.bias = at->bias ? qn_build_cast(b, "bias.wide", at->bias, QN_F32) : NULL;
	qn_value *context = attend(b, &wide);
	at->scores = qn_build_cast(b, "qk.narrow", wide.scores, type);
	at->capped = qn_build_cast(b, "qk.capped.narrow", wide.capped, type);
	at->masked = wide.masked ? qn_build_cast(b, "qk.masked.narrow", wide.masked, type) : NULL;
	at->probs = qn_build_cast(b, "probs.narrow", wide.probs, type);
	return qn_build_cast(b, "context.narrow", context, type);
}
