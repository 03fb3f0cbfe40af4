/* _linear.h - what the target-level linear layers share: y[..., N] from x[..., K] and a constant weight stored [N, K]. */
#ifndef QN_OPS_LINEAR_H
#define QN_OPS_LINEAR_H

#include "graph/emit.h"

/* Input 0 is x (f32, rank >= 1), input 1 the weight, rank 2. Input `bias`, where present, is f32 [N]. Fills output 0. */
qn_status qn_linear_infer(qn_call *c, int bias);
/* The einsum of an activation (an expression of rank `rank`) with the weight, summed in `acc`. */
const char *qn_linear_einsum(qn_emit *e, const char *x, int rank, const char *w, const char *acc);
/* y[i] += bias[i % n] over rows * n elements. */
void qn_linear_add_bias(qn_call *c, float *y, const float *bias, int64_t rows, int64_t n);

/* --- integers with a scale for each row, taken at run time --------------------------------------------------------- */
/* The largest integer of an activation of so many bits: 127 at 8; over 8 bits two limbs, 32639. */
float qn_rows_range(int bits);
/* One row as integers held in f32, hi * 256 + lo, or hi alone (lo NULL). Each operation is one of the archive's. Returns what a unit of the
 * integers is worth. */
float qn_rows_split(const float *x, int64_t k, float range, float *hi, float *lo);
/* The integers of an activation of rank `rank` (>= 1), as floats; *top is each row's largest magnitude. */
const char *qn_rows_emit_steps(qn_emit *e, const char *x, int rank, float range, const char **top);
/* y = (yh * 256 + yl) * scale[n] * unit[row] + bias[n] over [rows, n]; yl, unit and bias may be NULL. */
typedef struct qn_linear_sums {
	const int32_t *yh, *yl;
	const float *scale, *unit, *bias;
	int64_t rows, n;
} qn_linear_sums;
void qn_linear_from_sums(qn_call *c, const qn_linear_sums *s, float *y);

#endif
