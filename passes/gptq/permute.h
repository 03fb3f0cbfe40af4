/* permute.h - the order of hidden channels is free; blocks of 32 hold like magnitudes when they are sorted. */
#ifndef QN_GPTQ_PERMUTE_H
#define QN_GPTQ_PERMUTE_H

#include "passes/plan.h"

/* Finds hidden tensors that linear layers make and linear layers read, with element-wise operators and nothing else between them, and sorts their channels by
 * descending norm of the columns that read them, where a layer that is marked for rounding is among the readers. Rows of the first weights, their biases, constants of
 * each channel on the way, and columns of the second weights go along, so that what the graph computes stays the same. Each layer that makes such a tensor gets `order`. */
qn_status qn_gptq_permute(qn_graph *g, qn_plan *plan, qn_arena *scratch, size_t *tensors);

#endif
