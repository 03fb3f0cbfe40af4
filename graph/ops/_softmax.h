/* _softmax.h - Softmax, LogSoftmax and Hardmax: one line of axes, each line on its own.
 *
 * Up to opset 12 the line is all axes from `axis` on (default 1); from 13 on it is that axis alone (default -1). */
#ifndef QN_OPS_SOFTMAX_H
#define QN_OPS_SOFTMAX_H

#include "graph/emit.h"
#include "graph/ops/_lines.h"

qn_status qn_softmax_infer(qn_call *c);
/* The axes first..last of the line. */
qn_status qn_softmax_axes(qn_call *c, int *first, int *last);
/* f32 lines of contiguous elements through `row` (`at`: elements of the tensor before it), everything else through `line`. */
typedef void (*qn_softmax_row)(const float *x, float *y, int64_t n, int64_t at);
qn_status qn_softmax_eval(qn_call *c, qn_softmax_row row, qn_line_f64 line);
/* The axes as "[1, 2]". */
qn_status qn_softmax_emit_axes(qn_emit *e, const char **axes);

/* Largest number of a row; y = e^(x - top), whose sum is returned. */
float qn_row_max(const float *x, int64_t n);
double qn_row_exp(const float *x, float *y, int64_t n, float top);

#endif
