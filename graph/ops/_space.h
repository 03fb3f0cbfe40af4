/* _space.h - DepthToSpace and SpaceToDepth: the same permutation of a view with the blocks as axes, in two directions. */
#ifndef QN_OPS_SPACE_H
#define QN_OPS_SPACE_H

#include "graph/ops/_move.h"

/* A reshape to `view` (rank 6), a transposition by `perm`, and the output shape. */
typedef struct qn_space {
	qn_shape view;
	int64_t perm[6];
	qn_shape out;
} qn_space;

/* blocksize from the node; fails unless input 0 has rank 4. */
qn_status qn_space_block(qn_call *c, int64_t *block);
/* d / by for a size that has to divide; `what` names it. */
qn_status qn_space_divide(qn_call *c, qn_dim d, int64_t by, const char *what, qn_dim *out);
qn_status qn_space_eval(qn_call *c, const qn_space *s);
qn_status qn_space_emit(qn_emit *e, const qn_space *s);

#endif
