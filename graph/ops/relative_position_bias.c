/* RelativePositionBias of com.microsoft: the binned distances of T5. A constant table maps each clipped distance to its
 * bin, so that the graph keeps two gathers and no logarithm. The bias table says [bins, heads] but holds [heads, bins]. */
#include "graph/ops/_build.h"
#include <math.h>

/* The bin of the distance `key - query`; one way, keys on the right are taken for those on the left (a causal mask hides them). */
static int64_t bin(int64_t distance, int64_t bins, int64_t furthest, bool both_ways)
{
	int64_t first = 0;
	if (both_ways) {
		bins /= 2;
		first = distance > 0 ? bins : 0;
	}
	distance = distance < 0 ? -distance : distance;
	int64_t exact = bins / 2;
	if (distance < exact || exact == 0)
		return first + (distance < bins ? distance : bins - 1);
	float part = logf((float)distance / (float)exact) / logf((float)furthest / (float)exact) * (float)(bins - exact);
	int64_t far = exact + (int64_t)part;
	return first + (far < bins ? far : bins - 1);
}

static qn_status length_of(const qn_build *b, int i, const char *what, qn_dim *out)
{
	qn_value *v = qn_build_in(b, i);
	const qn_tensor *t = v ? v->fact.value : NULL;
	if (!t || qn_tensor_count(t) != 1)
		return qn_build_fail(b, QUERN_ERR_UNSUPPORTED, "its %s must follow from the shapes, '%s' does not", what, v ? v->name : "");
	*out = t->type == QN_DIM ? *(const qn_dim *)t->data : qn_dim_const(qn_tensor_get_i64(t, 0));
	return QUERN_OK;
}

static qn_value *positions(const qn_build *b, const char *label, qn_dim n, int64_t axis)
{
	qn_value *x = qn_build_range(b, qn_arena_printf(b->g->arena, "%s.range", label), qn_dim_const(0), n);
	return qn_build_unsqueeze(b, label, qn_build_cast(b, qn_arena_printf(b->g->arena, "%s.float", label), x, QN_F32), axis);
}

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	qn_dim queries, keys;
	int64_t bins, heads, furthest = qn_node_int(n, "max_distance", 128);
	QN_TRY(qn_build_rank(b, 0, "bias_table", 2, 2));
	QN_TRY(length_of(b, 1, "query_length", &queries));
	QN_TRY(length_of(b, 2, "key_length", &keys));
	QN_TRY(qn_build_known(b, n->in[0]->fact.shape.dim[0], "the number of bins", &bins));
	QN_TRY(qn_build_known(b, n->in[0]->fact.shape.dim[1], "the number of heads", &heads));
	if (bins <= 0 || heads <= 0 || furthest <= 0 || furthest > 1 << 20)
		return qn_build_fail(b, QUERN_ERR_FORMAT, "%lld bins up to the distance %lld", (long long)bins, (long long)furthest);
	int64_t *by_distance = QN_NEW(g->arena, int64_t, 2 * furthest + 1);
	for (int64_t d = -furthest; d <= furthest; d++)
		by_distance[d + furthest] = bin(d, bins, furthest, qn_node_int(n, "is_bidirectional", 0) != 0);

	qn_value *x = qn_build_op2(b, "Sub", "distance", positions(b, "keys", keys, 0), positions(b, "queries", queries, 1));
	x = qn_build_op3(b, "Clip", "distance.near", x, qn_build_number(b, "distance.low", QN_F32, (double)-furthest),
		qn_build_number(b, "distance.high", QN_F32, (double)furthest));
	x = qn_build_cast(b, "distance.index", qn_build_with(b, "Add", "distance.from_0", x, QN_F32, (double)furthest), QN_I64);
	x = qn_build_op2(b, "Gather", "bins", qn_build_ints(b, "bin_by_distance", by_distance, (int)(2 * furthest + 1)), x);
	const int64_t stored[] = {heads, bins}, turn[] = {1, 0}, perm[] = {2, 0, 1};
	qn_value *table = qn_build_transpose(b, "table", qn_build_reshape(b, "table.stored", n->in[0], stored, 2), turn, 2);
	x = qn_build_op2(b, "Gather", "bias.by_head", table, x); /* [Q, K, heads] */
	qn_build_give(b, 0, qn_build_unsqueeze(b, "bias", qn_build_transpose(b, "bias.heads", x, perm, 3), 0));
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_relative_position_bias = {
	.name = "RelativePositionBias",
	.domain = "com.microsoft",
	.min_in = 3,
	.max_in = 3,
	.lower = lower,
};
