/* _quantized.h - operators whose weights another tool has made integers. */
#ifndef QN_OPS_QUANTIZED_H
#define QN_OPS_QUANTIZED_H

#include "graph/op.h"

/* A `lower` that refuses the node: the scales of that tool cannot be undone into the widths asked for here. */
qn_status qn_lower_quantized(qn_graph *g, qn_node *n, bool *done);
/* The same for operators that also compute on activations alone: they are refused only with a constant integer matrix among their inputs.
 */
qn_status qn_lower_quantized_weight(qn_graph *g, qn_node *n, bool *done);

#endif
