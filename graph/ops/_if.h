/* _if.h - what the loader must know of If. */
#ifndef QN_OPS_IF_H
#define QN_OPS_IF_H

#include "graph/op.h"

/* The values of the outer graph that the node's subgraphs read, as the subgraphs' own values, each name once, in a fixed order. Input
 * 1 + k of the node is the outer value of that name. Returns their number. */
int qn_if_captures(qn_arena *a, const qn_node *n, qn_value ***list);

#endif
