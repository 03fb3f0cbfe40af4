/* SequenceConstruct: values side by side. No value of a graph is a sequence: who reads one is lowered to reading its elements, after which
 * nothing reads this node. Its fact, that of the first element, only says that it was reached. */
#include "graph/ops/_sequence.h"

static qn_status infer(qn_call *c) { return qn_infer_same(c); }

const qn_op qn_op_sequence_construct = {.name = "SequenceConstruct", .since = 11, .min_in = 1, .max_in = -1, .infer = infer};
