/* exec_symbols.h - the sizes of the symbolic dims in one run, from its inputs. */
#ifndef QN_EXEC_SYMBOLS_H
#define QN_EXEC_SYMBOLS_H

#include "graph/graph.h"

typedef struct qn_sizes qn_sizes;
/* Each declared symbol has one size over all inputs; an input that is missing, has another type or contradicts a declared shape is named, with the axis. */
qn_status qn_sizes_from_inputs(qn_graph *g, const qn_tensor *const *inputs, qn_arena *a, qn_sizes **out);
/* A tensor of dims as integers of the run; fails where a symbol is not given by any input. */
qn_status qn_sizes_apply(qn_graph *g, const qn_sizes *s, const qn_tensor *dims, qn_dtype type, qn_arena *a, const qn_tensor **out);

#endif
