#include "graph/ops/_sequence.h"

qn_status qn_sequence_of(const qn_build *b, qn_value *const **elements, int *n)
{
	const qn_node *maker = b->n->in[0]->producer;
	if (!maker || maker->op != qn_op_find("", "SequenceConstruct"))
		return qn_build_fail(b, QUERN_ERR_UNSUPPORTED,
			"the sequence '%s' does not have a known number of elements; export with Split and Concat instead",
			b->n->in[0]->name);
	*elements = maker->in;
	*n = maker->n_in;
	return QUERN_OK;
}
