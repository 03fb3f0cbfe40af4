/* _pool.h - the pools: one walk over windows, three ways to sum one up. */
#ifndef QN_OPS_POOL_H
#define QN_OPS_POOL_H

#include "graph/ops/_window.h"

typedef enum qn_pool_kind { QN_POOL_MAX, QN_POOL_AVERAGE, QN_POOL_LP } qn_pool_kind;

/* Output 0: type of input 0, spatial dims by the window. */
qn_status qn_pool_infer(qn_call *c);
/* Fills output 0, and output 1 with indices for QN_POOL_MAX where wanted. */
qn_status qn_pool_eval(qn_call *c, qn_pool_kind kind);
/* The engine's window arguments ("size=.., stride=.., ..") that give the output's shape, ceil_mode included. */
qn_status qn_pool_window(qn_emit *e, const char **out);
/* Axes 2 .. rank-1 as an NNEF list. */
const char *qn_spatial_axes(qn_emit *e, int rank);
/* The global pools: every spatial dim of output 0 becomes 1. */
qn_status qn_global_pool_infer(qn_call *c);
qn_status qn_global_pool_eval(qn_call *c, qn_pool_kind kind);

#endif
