#include "graph/ops/_sequence.h"

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	qn_value *const *elements;
	int count;
	QN_TRY(qn_sequence_of(b, &elements, &count));
	const qn_tensor *t = n->in[1]->fact.value;
	if (!t || t->type == QN_DIM || qn_tensor_count(t) != 1)
		return qn_build_fail(b, QUERN_ERR_UNSUPPORTED, "the index of the element, '%s', is not constant", n->in[1]->name);
	int64_t i = qn_tensor_get_i64(t, 0);
	if (i < -count || i >= count)
		return qn_build_fail(b, QUERN_ERR_SHAPE, "element %lld of a sequence of %d", (long long)i, count);
	qn_build_give(b, 0, elements[i < 0 ? i + count : i]);
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_sequence_at = {.name = "SequenceAt", .since = 11, .min_in = 2, .max_in = 2, .lower = lower};
