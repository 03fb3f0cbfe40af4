/* RotaryEmbedding of ai.onnx: (x, cos, sin, position_ids). */
#include "graph/ops/_attention.h"

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	QN_TRY(qn_build_rank(b, 0, "X", 3, 4));
	if (!qn_build_in(b, 1) || !qn_build_in(b, 2))
		return qn_build_fail(b, QUERN_ERR_FORMAT, "cos_cache or sin_cache is missing");
	qn_value *x = n->in[0], *cos = n->in[1], *sin = n->in[2], *at = qn_build_in(b, 3);
	const qn_shape *s = &x->fact.shape;
	bool packed = s->rank == 3;
	qn_rotary r = {.rank = 4, .interleaved = qn_node_int(n, "interleaved", 0) != 0};
	QN_TRY(qn_build_known(b, s->dim[s->rank - 1], "the last dimension of X", &r.size));
	if (packed) {
		int64_t heads;
		QN_TRY(qn_build_attr(b, "num_heads", 0, 1, QN_BUILD_MOST, &heads));
		if (r.size % heads)
			return qn_build_fail(b, QUERN_ERR_SHAPE, "the last dimension of X, %lld, does not fit num_heads = %lld",
				(long long)r.size, (long long)heads);
		const int64_t shape[] = {0, 0, heads, -1};
		r.size /= heads;
		x = qn_build_reshape(b, "apart", x, shape, 4);
	}
	r.rotated = qn_node_int(n, "rotary_embedding_dim", 0);
	if (r.rotated == 0)
		r.rotated = r.size;
	if (r.rotated < 0 || r.rotated > r.size || r.rotated % 2)
		return qn_build_fail(b, QUERN_ERR_SHAPE, "rotary_embedding_dim %lld is not an even part of the head size %lld",
			(long long)r.rotated, (long long)r.size);
	if (at) {
		QN_TRY(qn_build_rank(b, 1, "cos_cache", 2, 2));
		QN_TRY(qn_build_rank(b, 2, "sin_cache", 2, 2));
		QN_TRY(qn_build_rank(b, 3, "position_ids", 2, 2));
		cos = qn_rotary_at(b, "cos", cos, at, !packed);
		sin = qn_rotary_at(b, "sin", sin, at, !packed);
	} else {
		QN_TRY(qn_build_rank(b, 1, "cos_cache, without position_ids,", 3, 3));
		QN_TRY(qn_build_rank(b, 2, "sin_cache, without position_ids,", 3, 3));
		cos = qn_build_unsqueeze(b, "cos.by_head", cos, packed ? 2 : 1);
		sin = qn_build_unsqueeze(b, "sin.by_head", sin, packed ? 2 : 1);
	}
	qn_value *y = qn_rotary_apply(b, "rotary", x, cos, sin, &r);
	if (packed) {
		const int64_t shape[] = {0, 0, -1};
		y = qn_build_reshape(b, "together", y, shape, 3);
	}
	qn_build_give(b, 0, y);
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_rotary_embedding = {
	.name = "RotaryEmbedding",
	.since = 23,
	.min_in = 3,
	.max_in = 4,
	.lower = lower,
};
