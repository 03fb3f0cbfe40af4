/* GatherBlockQuantized of com.microsoft: an embedding table of few bits with a scale for each block. */
#include "graph/ops/_blocks.h"

enum { DATA, INDICES, SCALES, ZEROS };

/* Whether bytes of `data` hold several numbers each along the last axis. Other data of few bits come as one number an element; where the
 * scales fit both (a tiny table), bytes are taken for packed. */
static bool is_packed(const qn_blocks *k, int bits)
{
	const qn_shape *s = &k->scales->fact.shape;
	int last = k->rank - 1;
	if (bits == 8 || k->data->fact.type != QN_U8)
		return false;
	int64_t whole = k->dim[last] * 8 / bits;
	return qn_dim_is(s->dim[last], k->axis == last ? (whole + k->block - 1) / k->block : whole);
}

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	QN_TRY(qn_build_need(b, SCALES + 1));
	QN_TRY(qn_build_rank(b, DATA, "data", 1, QN_MAX_RANK));
	int rank = n->in[DATA]->fact.shape.rank, bits = (int)qn_node_int(n, "bits", 4);
	QN_TRY(qn_build_rank(b, SCALES, "scales", rank, rank));
	qn_dtype type = n->in[DATA]->fact.type, plain = qn_dtype_plain(type);
	int64_t axis = qn_node_int(n, "quantize_axis", 1), gather = qn_node_int(n, "gather_axis", 0);
	axis += axis < 0 ? rank : 0;
	gather += gather < 0 ? rank : 0;
	if ((plain != QN_U8 && plain != QN_I8) || (bits != 2 && bits != 4 && bits != 8) || axis < 0 || axis >= rank || gather < 0 ||
		gather >= rank)
		return qn_build_fail(b, QUERN_ERR_UNSUPPORTED,
			"a table of %s with bits = %d, quantize_axis = %lld, gather_axis = %lld is not supported", qn_dtype_name(type),
			bits, (long long)axis, (long long)gather);
	qn_blocks k = {.data = n->in[DATA],
		.scales = n->in[SCALES],
		.zeros = qn_build_in(b, ZEROS),
		.bits = 8,
		.zero_bits = 8,
		.axis = (int)axis,
		.rank = rank};
	QN_TRY(qn_build_attr(b, "block_size", 128, 1, QN_BUILD_MOST, &k.block));
	for (int i = 0; i < rank; i++)
		QN_TRY(qn_build_known(b, k.data->fact.shape.dim[i], "a dimension of the table", &k.dim[i]));
	bool packed = is_packed(&k, bits);
	if (packed) {
		k.bits = k.zero_bits = bits;
		k.dim[rank - 1] *= 8 / bits;
	}
	if (packed || (type == QN_U8 && bits == 8))
		k.zero = (int64_t)1 << (bits - 1);
	qn_value *table;
	QN_TRY(qn_blocks_apply(b, &k, &table));
	qn_value *y = qn_build_op2(b, "Gather", "rows", table, n->in[INDICES]);
	qn_node_set_int(g, y->producer, "axis", gather);
	qn_build_give(b, 0, y);
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_gather_block_quantized = {
	.name = "GatherBlockQuantized",
	.domain = "com.microsoft",
	.min_in = 3,
	.max_in = 4,
	.lower = lower,
};
