/* fingerprint.h - what tells one model from another. */
#ifndef QN_FINGERPRINT_H
#define QN_FINGERPRINT_H

#include "graph/graph.h"

/* 32 hex digits over the nodes, their attributes, the types and shapes of the inputs, the names of the outputs, and the bytes of every constant of a graph as
 * loaded. Where the file lies, whether weights are in it or beside it, and the number of threads do not enter. */
const char *qn_fingerprint(const qn_graph *g, qn_arena *a);

/* The same kind of digest over whatever is added, in order. */
typedef struct qn_hash qn_hash;
qn_hash *qn_hash_new(qn_arena *a);
void qn_hash_text(qn_hash *h, const char *s);
void qn_hash_tensor(qn_hash *h, const qn_tensor *t); /* type, dims, elements; NULL is something too */
const char *qn_hash_digits(const qn_hash *h, qn_arena *a);

#endif
