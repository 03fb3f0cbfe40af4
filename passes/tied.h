/* tied.h - embedding tables and layers that are one matrix. */
#ifndef QN_TIED_H
#define QN_TIED_H

#include "passes/plan.h"

/* A table that is also a layer's weight (the same initializer, or an equal copy, transposed or not) is stored once, so both get one width: the one that was pinned, else the
 * wider of the two. One log line a pair says so. */
qn_status qn_tie_tables(qn_graph *g, qn_plan *p);
/* Equal content in the stored order [N, K]; copies that an exporter made are found by their bytes. */
qn_status qn_same_matrix(qn_graph *g, qn_value *a, qn_value *b, bool *same);

#endif
