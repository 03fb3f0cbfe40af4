/* _positions.h - the index tuples of all elements of a shape. */
#ifndef QN_OPS_POSITIONS_H
#define QN_OPS_POSITIONS_H

#include "graph/ops/_build.h"

/* [rank, number of elements] i64: row i holds the positions along axis i. The elements follow each other with axis order[rank - 1] running
 * fastest. */
qn_value *qn_build_positions(const qn_build *b, const qn_dim *dim, const int *order, int rank);

#endif
