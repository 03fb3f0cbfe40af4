/* EmbedLayerNormalization of com.microsoft: the norm of the sum of two or three embeddings. */
#include "graph/ops/_build.h"

enum { IDS, SEGMENTS, WORD, POSITION, SEGMENT, GAMMA, BETA, MASK, POSITIONS };

/* Words of each sentence, i32 [B]; without a mask ONNX Runtime writes zeros. */
static qn_value *mask_index(const qn_build *b)
{
	qn_value *mask = qn_build_in(b, MASK);
	if (!mask)
		return qn_build_full(b, "mask_index", QN_I32, 0, b->n->in[IDS]->fact.shape.dim, 1);
	const int64_t axis = 1;
	qn_value *n = qn_build_op2(
		b, "ReduceSum", "mask.sum", qn_build_cast(b, "mask.float", mask, QN_F32), qn_build_ints(b, "mask.axis", &axis, 1));
	qn_node_set_int(b->g, n->producer, "keepdims", 0);
	return qn_build_cast(b, "mask_index", n, QN_I32);
}

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	QN_TRY(qn_build_rank(b, IDS, "input_ids", 2, 2));
	QN_TRY(qn_build_rank(b, WORD, "word_embedding", 2, 2));
	QN_TRY(qn_build_rank(b, POSITION, "position_embedding", 2, 2));
	QN_TRY(qn_build_rank(b, GAMMA, "gamma", 1, 1));
	if (!qn_build_in(b, SEGMENTS) != !qn_build_in(b, SEGMENT))
		return qn_build_fail(b, QUERN_ERR_FORMAT, "segment_ids and segment_embedding must come together");
	qn_value *positions = qn_build_in(b, POSITIONS);
	if (!positions)
		positions = qn_build_unsqueeze(
			b, "positions", qn_build_range(b, "positions.row", qn_dim_const(0), n->in[IDS]->fact.shape.dim[1]), 0);
	qn_value *x = qn_build_op2(b, "Add", "sum", qn_build_op2(b, "Gather", "word", n->in[WORD], n->in[IDS]),
		qn_build_op2(b, "Gather", "position", n->in[POSITION], positions));
	if (qn_build_in(b, SEGMENTS))
		x = qn_build_op2(b, "Add", "sum.all", x, qn_build_op2(b, "Gather", "segment", n->in[SEGMENT], n->in[SEGMENTS]));
	qn_build_give(b, 0, qn_build_norm(b, "norm", x, n->in[GAMMA], qn_build_in(b, BETA), false, qn_node_float(n, "epsilon", 1e-12f)));
	if (qn_build_wants(b, 1))
		qn_build_give(b, 1, mask_index(b));
	qn_build_give(b, 2, x);
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_ms_embed_layer_normalization = {
	.name = "EmbedLayerNormalization",
	.domain = "com.microsoft",
	.min_in = 6,
	.max_in = 9,
	.max_out = 3,
	.lower = lower,
};
