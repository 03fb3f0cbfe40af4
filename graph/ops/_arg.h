/* _arg.h - ArgMax and ArgMin. */
#ifndef QN_OPS_ARG_H
#define QN_OPS_ARG_H

#include "graph/emit.h"
#include "graph/ops/_span.h"

qn_status qn_arg_infer(qn_call *c);
qn_status qn_arg_eval(qn_call *c, bool largest);
qn_status qn_arg_emit(qn_emit *e, bool largest);

#endif
