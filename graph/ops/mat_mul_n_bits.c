/* MatMulNBits of com.microsoft: a weight [N, K] of 2 to 8 bits with a scale and a zero point for each block of K. It becomes an ordinary
 * weight, to be quantized anew to the widths asked for. */
#include "graph/ops/_blocks.h"

enum { A, B, SCALES, ZEROS, GROUPS, BIAS };

/* accuracy_level only permits less precision, so that computing in the operands' type honours it. */
static const qn_limit limits[] = {
	{QN_LIMIT_ATTR, "weight_prepacked", 0, 0},
	{QN_LIMIT_INPUT, "g_idx", GROUPS, 0},
};

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	QN_TRY(qn_build_refuse(b, limits, QN_LEN(limits)));
	QN_TRY(qn_build_rank(b, A, "A", 1, QN_MAX_RANK));
	QN_TRY(qn_build_rank(b, B, "B", 1, 3));
	QN_TRY(qn_build_rank(b, SCALES, "scales", 1, 2));
	int64_t bits, rows, width, block;
	QN_TRY(qn_build_attr(b, "bits", 4, 1, 8, &bits));
	QN_TRY(qn_build_attr(b, "N", 0, 1, QN_BUILD_MOST, &rows));
	QN_TRY(qn_build_attr(b, "K", 0, 1, QN_BUILD_MOST, &width));
	QN_TRY(qn_build_attr(b, "block_size", 0, 8, QN_BUILD_MOST, &block));
	if (block % 8)
		return qn_build_fail(b, QUERN_ERR_FORMAT, "block_size is %lld, no multiple of 8", (long long)block);
	qn_value *zeros = qn_build_in(b, ZEROS);
	qn_blocks k = {.data = n->in[B],
		.scales = n->in[SCALES],
		.zeros = zeros,
		.bits = (int)bits,
		.zero_bits = (int)bits,
		.zero = (int64_t)1 << (bits - 1),
		.block = block,
		.axis = 1,
		.rank = 2,
		.dim = {rows, width}};
	qn_value *w;
	QN_TRY(qn_blocks_apply(b, &k, &w));
	const int64_t perm[] = {1, 0};
	qn_value *x = qn_build_op2(b, "MatMul", "product", n->in[A], qn_build_transpose(b, "weight.turned", w, perm, 2));
	if (qn_build_in(b, BIAS))
		x = qn_build_op2(b, "Add", "biased", x, n->in[BIAS]);
	qn_build_give(b, 0, x);
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_mat_mul_n_bits = {
	.name = "MatMulNBits",
	.domain = "com.microsoft",
	.min_in = 3,
	.max_in = 6,
	.lower = lower,
};
