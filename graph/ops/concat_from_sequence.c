/* ConcatFromSequence: Concat, or a stack along a new axis. */
#include "graph/ops/_sequence.h"

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	qn_value *const *elements;
	int count;
	QN_TRY(qn_sequence_of(b, &elements, &count));
	int64_t axis = qn_node_int(n, "axis", 0);
	qn_value **parts = QN_NEW(g->arena, qn_value *, count);
	for (int i = 0; i < count; i++)
		parts[i] = qn_node_int(n, "new_axis", 0) ? qn_build_unsqueeze(b, "part", elements[i], axis) : elements[i];
	qn_value *y = qn_graph_apply(g, n, "Concat", qn_arena_printf(g->arena, "%s/joined", n->name), parts, count);
	qn_node_set_int(g, y->producer, "axis", axis);
	qn_build_give(b, 0, y);
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_concat_from_sequence = {.name = "ConcatFromSequence", .since = 11, .min_in = 1, .max_in = 1, .lower = lower};
