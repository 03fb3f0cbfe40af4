/* _lines.h - operators along one stretch of axes: a tensor seen as outer x n x inner, each line of n elements on its own. */
#ifndef QN_OPS_LINES_H
#define QN_OPS_LINES_H

#include "graph/ops/_span.h"

typedef struct qn_lines {
	int64_t outer, n, inner;
} qn_lines;
/* Axes first..last (inclusive) form the line. */
qn_lines qn_lines_of(const qn_tensor *t, int first, int last);

/* Reads one line from x, gives the same number of results back, in place. */
typedef void (*qn_line_f64)(double *line, int64_t n, const void *user);
typedef void (*qn_line_i64)(int64_t *line, int64_t n, const void *user);

/* y = f(x) line by line, threaded. Floats go through f64; integers through `ints`, or through f64 where that is NULL. */
qn_status qn_lines_run(qn_call *c, const qn_tensor *x, const qn_tensor *y, qn_lines l, qn_line_f64 reals, qn_line_i64 ints,
	const void *user);

#endif
