/* RotaryEmbedding of com.microsoft: (x, position_ids, cos, sin). */
#include "graph/ops/_attention.h"

static const qn_limit limits[] = {
	{QN_LIMIT_ATTR, "is_packed_batching", 0, 0},
	{QN_LIMIT_ATTR, "scale", 0, 1},
};

/* Heads and their size, of which at most two of three are written in the node. */
static qn_status sizes(const qn_build *b, qn_rotary *r, int64_t *heads)
{
	const qn_shape *s = &b->n->in[0]->fact.shape;
	int64_t width, half;
	QN_TRY(qn_build_known(b, s->dim[s->rank - 1], "the last dimension of input", &width));
	QN_TRY(qn_build_known(b, b->n->in[2]->fact.shape.dim[1], "the width of cos_cache", &half));
	QN_TRY(qn_build_attr(b, "num_heads", 0, 0, QN_BUILD_MOST, heads));
	r->rotated = qn_node_int(b->n, "rotary_embedding_dim", 0);
	if (s->rank == 4) {
		r->size = width;
	} else {
		if (*heads == 0 && half > 0)
			*heads = width / (2 * half);
		if (*heads <= 0 || width % *heads)
			return qn_build_fail(b, QUERN_ERR_SHAPE, "the last dimension of input, %lld, does not fit %lld heads",
				(long long)width, (long long)*heads);
		r->size = width / *heads;
	}
	if (r->rotated == 0)
		r->rotated = 2 * half;
	if (r->rotated != 2 * half || r->rotated > r->size || r->rotated <= 0)
		return qn_build_fail(b, QUERN_ERR_SHAPE, "a rotary size of %lld does not fit heads of %lld and tables of width %lld",
			(long long)r->rotated, (long long)r->size, (long long)half);
	return QUERN_OK;
}

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	QN_TRY(qn_build_refuse(b, limits, QN_LEN(limits)));
	QN_TRY(qn_build_rank(b, 0, "input", 3, 4));
	QN_TRY(qn_build_rank(b, 1, "position_ids", 1, 2));
	QN_TRY(qn_build_rank(b, 2, "cos_cache", 2, 2));
	QN_TRY(qn_build_rank(b, 3, "sin_cache", 2, 2));
	qn_value *x = n->in[0], *at = n->in[1];
	const qn_shape *s = &x->fact.shape;
	bool packed = s->rank == 3;
	qn_rotary r = {.rank = 4, .interleaved = qn_node_int(n, "interleaved", 0) != 0};
	int64_t heads;
	QN_TRY(sizes(b, &r, &heads));
	if (packed) {
		const int64_t shape[] = {0, 0, heads, r.size};
		x = qn_build_reshape(b, "apart", x, shape, 4);
	}
	if (at->fact.shape.rank == 1) { /* the position of the first row */
		at = qn_build_op2(b, "Add", "positions", qn_build_cast(b, "first", at, QN_I64),
			qn_build_range(b, "rows", qn_dim_const(0), s->dim[packed ? 1 : 2]));
		at = qn_build_unsqueeze(b, "positions.batch", at, 0);
	}
	qn_value *cos = qn_rotary_at(b, "cos", n->in[2], at, !packed), *sin = qn_rotary_at(b, "sin", n->in[3], at, !packed);
	qn_value *y = qn_rotary_apply(b, "rotary", x, cos, sin, &r);
	if (packed) {
		const int64_t shape[] = {0, 0, -1};
		y = qn_build_reshape(b, "together", y, shape, 3);
	}
	qn_build_give(b, 0, y);
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_ms_rotary_embedding = {
	.name = "RotaryEmbedding",
	.domain = "com.microsoft",
	.min_in = 4,
	.max_in = 4,
	.lower = lower,
};
