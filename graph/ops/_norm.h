/* _norm.h - rows brought to mean 0 and variance 1 (or, for RMS, to mean square 1), then scaled and shifted. */
#ifndef QN_OPS_NORM_H
#define QN_OPS_NORM_H

#include "graph/emit.h"
#include "graph/ops/_span.h"

/* Rows of n contiguous elements. `scale` and `bias` (of the type of x, each may be NULL) have `entries` numbers; element i of row r takes
 * number (r * (n / span) + i / span) mod entries. */
typedef struct qn_norm {
	int64_t rows, n;
	double epsilon;
	bool rms;
	bool as_engine; /* rows of f32 alone, without statistics */
	const qn_tensor *scale, *bias;
	int64_t entries, span;
	float *mean, *inverse; /* statistics of each row, where wanted; else NULL */
} qn_norm;
/* y = norm(x). Floats only: f16 and bf16 are computed as f32, sums run in f64. */
qn_status qn_norm_rows(qn_call *c, const qn_tensor *x, const qn_tensor *y, const qn_norm *how);

/* --- LayerNormalization and RMSNormalization: rows are the axes from `axis` on -------------------------------------- */
qn_status qn_norm_layer_infer(qn_call *c);
qn_status qn_norm_layer_eval(qn_call *c, bool rms);
qn_status qn_norm_layer_emit(qn_emit *e, bool rms);

/* --- channels: axis 1 of [N, C, ...] --------------------------------------------------------------------------------- */
/* Input i has one number a channel. */
qn_status qn_norm_channels(qn_call *c, int i, qn_dim channels);
/* Input i as [1, C, 1, ...] at that rank. */
const char *qn_norm_channel_param(qn_emit *e, int i, int rank);
/* "layer_norm(x, axes=axes, eps=epsilon)": the row without scale and bias. */
const char *qn_norm_emit_rows(qn_emit *e, const char *x, const char *axes, double epsilon);
/* x as f32, and a result of f32 in the type of output 0. */
const char *qn_norm_emit_wide(qn_emit *e, const char *x);
const char *qn_norm_emit_narrow(qn_emit *e, const char *y);

#endif
