/* channel_numbers.h - where the output channels of a layer go. The layer's output is replaced by a tensor that holds, in each element, the
 * number of its channel, and the nodes behind it are run on that. So Split, Slice, Reshape and Transpose need no rules of their own, and
 * uneven or interleaved layouts come out right. Symbolic sizes are 2. */
#ifndef QN_CHANNEL_NUMBERS_H
#define QN_CHANNEL_NUMBERS_H

#include "passes/plan.h"

enum { QN_NO_CHANNEL = -1 };

typedef struct qn_numbers {
	qn_graph *g;
	qn_arena *a; /* for all tensors */
	bool failed; /* a size or a constant is not known */
} qn_numbers;

/* The sizes; false where they are not known, or no sizes when symbols are 2. */
bool qn_numbers_shape(const qn_shape *s, int64_t *dim);
/* An i64 tensor of the value's shape without a channel in it. */
qn_tensor *qn_numbers_filled(qn_numbers *c, const qn_value *v);
/* For v, the layer's own output: the channel is the last axis of a matrix product, the second of a convolution. */
qn_tensor *qn_numbers_own(qn_numbers *c, const qn_layer *l, const qn_value *v);
/* The content of a constant, sizes as numbers. */
const qn_tensor *qn_numbers_constant(qn_numbers *c, qn_value *v);
/* The node's outputs on x; NULL where it does not take such numbers. */
qn_tensor *qn_numbers_run(qn_numbers *c, const qn_node *n, const qn_tensor *const *x);
/* Whether some element has a channel. */
bool qn_numbers_any(const qn_tensor *t);

#endif
