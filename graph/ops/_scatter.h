/* _scatter.h - combining an update with what stands at its place. */
#ifndef QN_OPS_SCATTER_H
#define QN_OPS_SCATTER_H

#include "graph/ops/_move.h"

typedef enum { QN_SCATTER_NONE, QN_SCATTER_ADD, QN_SCATTER_MUL, QN_SCATTER_MIN, QN_SCATTER_MAX } qn_scatter;

/* The node's `reduction`; fails on an unknown one, and where the type of input 0 has no such arithmetic. */
qn_status qn_scatter_of(qn_call *c, qn_scatter *out);
const char *qn_scatter_name(qn_scatter r);
/* dst[k] = dst[k] `r` src[k] for n elements of a type. */
void qn_scatter_apply(qn_scatter r, qn_dtype type, void *dst, const void *src, int64_t n);

#endif
