/* FusedMatMul of com.microsoft and its kin: MatMul with transposed operands, a factor and an activation. */
#include "graph/ops/_build.h"

/* An operand in plain order: `batch` says that its first axis is the rows' and the batch axes follow it, `turn` that the matrix is
 * transposed. */
static qn_value *plain(const qn_build *b, int i, const char *label, const char *batch_attr, const char *turn_attr)
{
	qn_value *x = b->n->in[i];
	int rank = x->fact.shape.rank;
	bool batch = qn_node_int(b->n, batch_attr, 0) != 0 && rank > 2, turn = qn_node_int(b->n, turn_attr, 0) != 0 && rank >= 2;
	if (!batch && !turn)
		return x;
	int64_t perm[QN_MAX_RANK];
	for (int k = 0; k < rank; k++)
		perm[k] = k;
	if (batch) {
		for (int k = 0; k < rank - 2; k++)
			perm[k] = k + 1;
		perm[rank - 2] = 0;
	}
	if (turn) {
		int64_t last = perm[rank - 1];
		perm[rank - 1] = perm[rank - 2];
		perm[rank - 2] = last;
	}
	return qn_build_transpose(b, label, x, perm, rank);
}

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	QN_TRY(qn_build_rank(b, 0, "A", 1, QN_MAX_RANK));
	QN_TRY(qn_build_rank(b, 1, "B", 1, QN_MAX_RANK));
	qn_value *x =
		qn_build_op2(b, "MatMul", "product", plain(b, 0, "a", "transBatchA", "transA"), plain(b, 1, "b", "transBatchB", "transB"));
	float alpha = qn_node_float(n, "alpha", 1);
	if (alpha != 1)
		x = qn_build_with(b, "Mul", "scaled", x, n->in[0]->fact.type, (double)alpha);
	QN_TRY(qn_build_activation(b, x, &x));
	qn_build_give(b, 0, x);
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_fused_mat_mul = {
	.name = "FusedMatMul",
	.domain = "com.microsoft",
	.also = "com.microsoft:TransposeMatMul com.microsoft:FusedMatMulActivation",
	.min_in = 2,
	.max_in = 2,
	.lower = lower,
};
