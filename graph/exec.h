/* exec.h - runs nodes on the CPU: one at a time for folding, a whole graph for `quern run`, or step by step, many samples side by
 * side, for calibration. */
#ifndef QN_EXEC_H
#define QN_EXEC_H

#include "graph/op.h"

/* Infers and evaluates one node on concrete inputs (NULL where absent). Outputs are allocated in `a`; y[i].data is NULL for an absent output.
 * Used by the executor and by constant folding. *undecided (may be NULL) is set when QN_DIM operands do not determine the result. */
qn_status qn_exec_node(qn_ctx *ctx, qn_dims *dims, const qn_node *n, const qn_tensor *const *x, qn_arena *a, qn_tensor *y, bool *undecided);
/* The same with the data of output i in out[i] and everything else in `scratch`. */
qn_status qn_exec_node_into(qn_ctx *ctx, qn_dims *dims, const qn_node *n, const qn_tensor *const *x, qn_arena *scratch, qn_arena *const *out,
	qn_tensor *y, bool *undecided);

/* --- constants, loaded once for all runs ---------------------------------------------------------------------- */
typedef struct qn_consts qn_consts;
/* Lives in `a`. Not shared between threads. */
qn_consts *qn_consts_new(qn_graph *g, qn_arena *a);
qn_status qn_consts_get(qn_consts *c, qn_value *v, const qn_tensor **out);
void qn_consts_forget(qn_consts *c, const qn_value *v); /* frees what was loaded for v */

/* --- one run --------------------------------------------------------------------------------------------------- */
typedef struct qn_exec qn_exec;
/* Lives in `a`, which releases it. */
qn_exec *qn_exec_new(qn_consts *consts, qn_arena *a);
/* Starts a run: inputs[i] belongs to g->inputs[i], is borrowed and must live until its last use. Sizes are checked against the declared shapes; a
 * contradiction names the input and the axis. What an earlier run left is dropped. */
qn_status qn_exec_begin(qn_exec *e, const qn_tensor *const *inputs);
/* Whether a node has something to compute: recipes of constants do not. */
bool qn_exec_needs(const qn_node *n);
/* Runs one node, in graph order; its inputs and outputs can be looked at until qn_exec_finish, which frees what was read for the last time. */
qn_status qn_exec_step(qn_exec *e, qn_node *n);
void qn_exec_finish(qn_exec *e, const qn_node *n);
/* A value that is computed and not yet freed, or a constant; NULL otherwise. */
const qn_tensor *qn_exec_value(qn_exec *e, qn_value *v);
/* From the next begin on, v keeps its data until the following begin. */
void qn_exec_hold(qn_exec *e, const qn_value *v);
/* Reads of v by this run see `t` instead (borrowed; NULL: no longer). For weights that a stream has already quantized. */
void qn_exec_override(qn_exec *e, const qn_value *v, const qn_tensor *t);
/* Goes on where `from`, of the same constants, stands: what it has computed is borrowed, so it must not go on before this run ends. Overrides are not taken over. */
void qn_exec_fork(qn_exec *e, const qn_exec *from);
/* Instead of qn_exec_step: the results of n are copied from y, one an output. */
void qn_exec_give(qn_exec *e, const qn_node *n, const qn_tensor *y);
/* qn_exec_step of one node in several runs of one graph. The rows of linear layers, which do not depend on each other, are computed as one product: weights
 * pass through the caches once. */
qn_status qn_exec_step_many(qn_exec *const *e, size_t count, qn_node *n);
qn_graph *qn_exec_graph(const qn_exec *e);
size_t qn_exec_live_bytes(const qn_exec *e); /* of activations, at this moment */

/* Sees each value as it is computed; return anything but QUERN_OK to stop. The tensor is only valid during the call. */
typedef qn_status (*qn_observe_fn)(void *user, const qn_value *v, const qn_tensor *t);

/* begin, all steps, and the outputs copied to `a`. */
qn_status qn_exec_all(qn_exec *e, const qn_tensor *const *inputs, qn_arena *a, qn_tensor *outputs, qn_observe_fn observe, void *user);
/* The same for a single run. */
qn_status qn_exec_run(qn_ctx *ctx, qn_graph *g, const qn_tensor *const *inputs, qn_arena *a, qn_tensor *outputs, qn_observe_fn observe, void *user);

#endif
