/* _resize.h - resampling axis by axis: Resize and Upsample become, for each axis, taps and weights for every output index. */
#ifndef QN_OPS_RESIZE_H
#define QN_OPS_RESIZE_H

#include "graph/emit.h"

typedef enum qn_interpolation { QN_NEAREST, QN_LINEAR, QN_CUBIC } qn_interpolation;
typedef enum qn_coordinates {
	QN_HALF_PIXEL, QN_HALF_PIXEL_SYMMETRIC, QN_PYTORCH_HALF_PIXEL, QN_ALIGN_CORNERS, QN_ASYMMETRIC, QN_TF_HALF_PIXEL_FOR_NN,
	QN_TF_CROP_AND_RESIZE
} qn_coordinates;
typedef enum qn_nearest_rule { QN_ROUND_PREFER_FLOOR, QN_ROUND_PREFER_CEIL, QN_ROUND_FLOOR, QN_ROUND_CEIL } qn_nearest_rule;

typedef struct qn_resize {
	int rank;
	qn_interpolation mode;
	qn_coordinates coordinates;
	qn_nearest_rule rounding;
	bool antialias, exclude_outside;
	double cubic_a, extrapolation;
	qn_dim in[QN_MAX_RANK], out[QN_MAX_RANK];
	double scale[QN_MAX_RANK]; /* 0: follows from sizes that are not known yet */
	double from[QN_MAX_RANK], to[QN_MAX_RANK]; /* the region of interest, normalized */
} qn_resize;

/* Reads attributes and the inputs scales, sizes and roi (indices; -1: the operator has none, scales then is an attribute). The facts
 * must hold the values. Returns NULL, or what is wrong. */
const char *qn_resize_read(qn_arena *a, qn_dims *dims, const qn_node *n, const qn_fact *in, int scales, int sizes, int roi, qn_resize *r);
/* Whether an axis has to be resampled at all. */
bool qn_resize_active(const qn_resize *r, int axis);

typedef struct qn_taps {
	int64_t out, width; /* output indices; taps of each */
	int64_t *index;     /* [out, width], inside the input */
	float *weight;      /* [out, width] */
	bool *outside;      /* [out]: filled with the extrapolation value */
	bool any_outside;
} qn_taps;
/* The taps of an axis of constant size. */
void qn_resize_taps(qn_arena *a, const qn_resize *r, int axis, int64_t in, int64_t out, qn_taps *t);

qn_status qn_resize_infer(qn_call *c, int scales, int sizes, int roi);
qn_status qn_resize_eval(qn_call *c, int scales, int sizes, int roi);
qn_status qn_resize_emit(qn_emit *e, int scales, int sizes, int roi);

#endif
