/* _window_function.h - the window functions of signal processing: a0 - a1 cos(2 pi t) + a2 cos(4 pi t). */
#ifndef QN_OPS_WINDOW_FUNCTION_H
#define QN_OPS_WINDOW_FUNCTION_H

#include "graph/op.h"

/* Input 0 is the size; attributes periodic and output_datatype. */
qn_status qn_window_function_infer(qn_call *c);
qn_status qn_window_function_eval(qn_call *c, double a0, double a1, double a2);

#endif
