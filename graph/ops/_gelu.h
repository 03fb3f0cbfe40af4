/* _gelu.h - the forms of GELU in NNEF. */
#ifndef QN_OPS_GELU_H
#define QN_OPS_GELU_H

#include "graph/ops/_unary.h"

/* Output 0 = gelu(x), x an expression. */
qn_status qn_gelu_emit(qn_emit *e, const char *x, bool tanh_form);
/* Output 0 = gelu(input 0 + input 1), input 1 optional, of rank 1 along the last axis. */
qn_status qn_gelu_bias_infer(qn_call *c);
qn_status qn_gelu_bias_eval(qn_call *c, bool tanh_form);
qn_status qn_gelu_bias_emit(qn_emit *e, bool tanh_form);
/* y = gelu(x); y's data may be x's. */
qn_status qn_gelu_map(qn_call *c, const qn_tensor *x, const qn_tensor *y, bool tanh_form);

/* "erf(x)", in the engine's own operator or, for standard NNEF, as a fragment that is right to 1e-7. */
const char *qn_erf_emit(qn_emit *e, const char *x);

#endif
