#include "graph/ops/_sequence.h"

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	qn_value *const *elements;
	int count;
	QN_TRY(qn_sequence_of(b, &elements, &count));
	qn_build_give(b, 0, qn_build_dim(b, "length", qn_dim_const(count)));
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_sequence_length = {.name = "SequenceLength", .since = 11, .min_in = 1, .max_in = 1, .lower = lower};
