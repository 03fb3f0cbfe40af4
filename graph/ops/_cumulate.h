/* _cumulate.h - CumSum and CumProd: running results along one axis. */
#ifndef QN_OPS_CUMULATE_H
#define QN_OPS_CUMULATE_H

#include "graph/emit.h"
#include "graph/ops/_lines.h"

/* The axis is input 1, a constant; fails naming the node where it is not known. */
qn_status qn_cumulate_axis(qn_call *c, int *axis);
qn_status qn_cumulate_infer(qn_call *c);
qn_status qn_cumulate_eval(qn_call *c, bool product);

#endif
