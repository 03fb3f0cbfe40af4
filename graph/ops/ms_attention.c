/* Attention of com.microsoft: the projections of query, key and value are one weight inside the operator. */
#include "graph/ops/_attention.h"
#include <math.h>

enum { INPUT, WEIGHTS, BIAS, MASK, PAST, MORE_BIAS, PAST_LENGTH };

static const qn_limit limits[] = {
	{QN_LIMIT_ATTR, "do_rotary", 0, 0},
	{QN_LIMIT_ATTR, "rotary_embedding_dim", 0, 0},
	{QN_LIMIT_ATTR, "past_present_share_buffer", 0, 0},
	{QN_LIMIT_INPUT, "past_sequence_length", PAST_LENGTH, 0},
};

/* Widths of the three parts of the weight. */
static qn_status widths(const qn_build *b, int64_t heads, int64_t part[3])
{
	int64_t total;
	QN_TRY(qn_build_known(b, b->n->in[WEIGHTS]->fact.shape.dim[1], "the width of the weights", &total));
	const qn_attr *sizes = qn_node_attr(b->n, "qkv_hidden_sizes");
	if (sizes && sizes->n == 3)
		memcpy(part, sizes->ints, 3 * sizeof(*part));
	else
		part[0] = part[1] = part[2] = total / 3;
	bool fits = part[0] == part[1];
	for (int i = 0; i < 3; i++)
		fits = fits && part[i] > 0 && part[i] <= total && part[i] % heads == 0;
	fits = fits && part[0] + part[1] + part[2] == total;
	if (!fits)
		return qn_build_fail(b, QUERN_ERR_SHAPE, "a weight of width %lld does not give query, key and value of %lld heads",
			(long long)total, (long long)heads);
	return QUERN_OK;
}

/* Joins the past [2, B, H, P, D] in front of key and value, and gives the present in the same form. */
static void join_past(const qn_build *b, qn_attention *at)
{
	qn_value *past = qn_build_in(b, PAST);
	if (past) {
		qn_value *halves[2];
		const int64_t one[] = {1, 1};
		qn_build_split(b, "past", past, 0, one, 2, halves);
		at->k = qn_build_concat(b, "key.all", 2, qn_build_squeeze(b, "past.key", halves[0], 0), at->k);
		at->v = qn_build_concat(b, "value.all", 2, qn_build_squeeze(b, "past.value", halves[1], 0), at->v);
		at->keys = qn_dim_add(b->g->dims, past->fact.shape.dim[3], at->keys);
	}
	if (qn_build_wants(b, 1))
		qn_build_give(b, 1,
			qn_build_concat(b, "present", 0, qn_build_unsqueeze(b, "present.key", at->k, 0),
				qn_build_unsqueeze(b, "present.value", at->v, 0)));
}

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	QN_TRY(qn_build_refuse(b, limits, QN_LEN(limits)));
	QN_TRY(qn_build_rank(b, INPUT, "input", 3, 3));
	QN_TRY(qn_build_rank(b, WEIGHTS, "weights", 2, 2));
	if (qn_build_in(b, PAST))
		QN_TRY(qn_build_rank(b, PAST, "past", 5, 5));
	const qn_shape *s = &n->in[INPUT]->fact.shape;
	qn_attention at = {.type = n->in[INPUT]->fact.type, .batch = s->dim[0], .queries = s->dim[1], .keys = s->dim[1]};
	int64_t part[3];
	QN_TRY(qn_build_attr(b, "num_heads", 0, 1, QN_BUILD_MOST, &at.heads));
	at.kv_heads = at.heads;
	QN_TRY(widths(b, at.heads, part));
	at.size = part[0] / at.heads;
	at.v_size = part[2] / at.heads;

	qn_value *x = qn_build_op2(b, "MatMul", "qkv", n->in[INPUT], n->in[WEIGHTS]), *split[3];
	if (qn_build_in(b, BIAS))
		x = qn_build_op2(b, "Add", "qkv.biased", x, n->in[BIAS]);
	qn_build_split(b, "qkv.parts", x, 2, part, 3, split);
	at.q = qn_attention_split_heads(b, "query", split[0], at.heads);
	at.k = qn_attention_split_heads(b, "key", split[1], at.heads);
	at.v = qn_attention_split_heads(b, "value", split[2], at.heads);
	join_past(b, &at);

	double filter = qn_node_float(n, "mask_filter_value", -10000.0f);
	if (qn_build_in(b, MASK))
		QN_TRY(qn_attention_mask_index(b, n->in[MASK], at.type, at.batch, at.keys, filter, &at.bias));
	at.bias = qn_attention_sum(b, "bias", at.bias, qn_build_in(b, MORE_BIAS));
	if (qn_node_int(n, "unidirectional", 0)) {
		qn_dim past = qn_dim_sub(g->dims, at.keys, at.queries);
		at.allow = qn_attention_band(b, at.queries, at.keys, past, -1, 0);
	}
	at.scale = qn_node_float(n, "scale", 0);
	if (at.scale == 0) /* ONNX Runtime takes 0 for absent */
		at.scale = 1 / sqrt((double)at.size);
	qn_build_give(b, 0, qn_attention_merge_heads(b, "context", qn_attention_apply(b, &at)));
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_ms_attention = {
	.name = "Attention",
	.domain = "com.microsoft",
	.min_in = 2,
	.max_in = 7,
	.max_out = 2,
	.lower = lower,
};
