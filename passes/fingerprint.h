/* fingerprint.h - what tells one model from another. */
#ifndef QN_FINGERPRINT_H
#define QN_FINGERPRINT_H

#include "graph/graph.h"

/* 32 hex digits over the nodes, their attributes, the types and shapes of the inputs, the names of the outputs, and the bytes of every constant of a graph as
 * loaded. Where the file lies, whether weights are in it or beside it, and the number of threads do not enter. */
const char *qn_fingerprint(const qn_graph *g, qn_arena *a);

#endif
