/* exec.h - runs a graph on the CPU. */
#ifndef QN_EXEC_H
#define QN_EXEC_H

#include "graph/op.h"

/* Infers and evaluates one node on concrete inputs (NULL where absent). Outputs are allocated in `a`; y[i].data is NULL for an absent output.
 * Used by the executor and by constant folding. *undecided (may be NULL) is set when QN_DIM operands do not determine the result. */
qn_status qn_exec_node(qn_ctx *ctx, qn_dims *dims, const qn_node *n, const qn_tensor *const *x, qn_arena *a, qn_tensor *y, bool *undecided);

/* Sees each value as it is computed; return anything but QUERN_OK to stop. The tensor is only valid during the call. */
typedef qn_status (*qn_observe_fn)(void *user, const qn_value *v, const qn_tensor *t);

/* Runs the whole graph. inputs[i] belongs to g->inputs[i]; outputs are allocated in `a`, the rest is freed after its last use. Symbols of the declared
 * shapes are checked against the inputs; a contradiction names both inputs. Thread-safe on one graph. */
qn_status qn_exec_run(qn_ctx *ctx, qn_graph *g, const qn_tensor *const *inputs, qn_arena *a, qn_tensor *outputs, qn_observe_fn observe, void *user);

#endif
