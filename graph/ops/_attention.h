/* _attention.h - scaled dot product attention as primitive operators, shared by every fused attention row.
 *
 * The result is the form that exporters write when they decompose: MatMul(q, k^T), scale, softcap, mask, Softmax, MatMul(v); heads split by
 * Reshape and Transpose. Grouped key/value heads are repeated by Unsqueeze, Expand, Reshape. */
#ifndef QN_OPS_ATTENTION_H
#define QN_OPS_ATTENTION_H

#include "graph/ops/_build.h"

typedef struct qn_attention {
	qn_dtype type;                         /* of q, k and v */
	qn_value *q, *k, *v;                   /* [B, H, S, D], [B, H or G, T, D], [B, H or G, T, Dv] */
	int64_t heads, kv_heads, size, v_size; /* H, G, D, Dv */
	qn_dim batch, queries, keys;           /* B, S, T */
	double scale, softcap;                 /* softcap 0: none */
	qn_value *allow;                       /* bool, broadcasts to [B, H, S, T]: false is -inf; NULL: all */
	qn_value *bias;                        /* float, the same shapes: added; NULL: none */
	bool may_be_empty;                     /* a row may have no key left; it then gives zeros instead of NaN */
	qn_value *sink;                        /* [H]: a further logit of each head that takes part in the sum only; NULL: none */
	bool zero_sink;                        /* the same with logit 0 for each head */
	bool want_masked;                      /* make `masked` */
	/* what was made, for rows that give these away: after the scale, after softcap, after the mask, after softmax */
	qn_value *scores, *capped, *masked, *probs;
} qn_attention;

/* [B, H, S, Dv]. */
qn_value *qn_attention_apply(const qn_build *b, qn_attention *a);

/* [B, S, H * D] -> [B, H, S, D] and back. */
qn_value *qn_attention_split_heads(const qn_build *b, const char *label, qn_value *x, int64_t heads);
qn_value *qn_attention_merge_heads(const qn_build *b, const char *label, qn_value *x);

/* Which keys a query may see by position: query i stands at position `past` + i and sees key j when
 * position - left <= j <= position + right; -1 leaves a side open. Bool [S, T], or NULL when both sides are open. */
qn_value *qn_attention_band(const qn_build *b, qn_dim queries, qn_dim keys, qn_dim past, int64_t left, int64_t right);
/* The same where query i stands at lengths[b] - S + i, lengths being i64 [B]; also hides keys from lengths[b] on. Bool [B, 1, S, T]. */
qn_value *qn_attention_band_by_length(const qn_build *b, qn_value *lengths, qn_dim queries, qn_dim keys, int64_t left, int64_t right);
/* Keys j with from[b] <= j < to[b] as bool [B, 1, 1, T]; `from` may be NULL. Both integer [B]. */
qn_value *qn_attention_between(const qn_build *b, qn_value *from, qn_value *to, qn_dim keys);
/* a and b; either may be NULL. */
qn_value *qn_attention_both(const qn_build *b, qn_value *x, qn_value *y);

/* An integer mask of ONNX Runtime's operators (0 hides) of rank 1 (lengths, or ends and starts), 2 [B, T] or 3 [B, S, T], as a float bias
 * of `filter` where a key is hidden. */
qn_status qn_attention_mask_index(
	const qn_build *b, qn_value *mask, qn_dtype type, qn_dim batch, qn_dim keys, double filter, qn_value **bias);

/* The sum of two biases; either may be NULL. */
qn_value *qn_attention_sum(const qn_build *b, const char *label, qn_value *x, qn_value *y);

/* Rotary embedding of x, whose rotated size is `rotated` of `size` in the last axis. cos and sin: [.., rotated / 2], broadcasting to x
 * without its last axis. rank: of x. */
typedef struct qn_rotary {
	int rank;
	int64_t size, rotated;
	bool interleaved;
} qn_rotary;
qn_value *qn_rotary_apply(const qn_build *b, const char *label, qn_value *x, qn_value *cos, qn_value *sin, const qn_rotary *r);
/* The rows of a table [positions, rotated / 2] at the positions [B, S] as [B, S, 1, rotated / 2], or with heads_first as [B, 1, S, rotated
 * / 2]. */
qn_value *qn_rotary_at(const qn_build *b, const char *label, qn_value *table, qn_value *positions, bool heads_first);

#endif
