/* _window.h - the sliding window of convolutions and pools: attributes, padding, output dims. */
#ifndef QN_OPS_WINDOW_H
#define QN_OPS_WINDOW_H

#include "graph/emit.h"

enum { QN_MAX_SPATIAL = QN_MAX_RANK - 2 };

typedef enum qn_padding { QN_PAD_EXPLICIT, QN_PAD_VALID, QN_PAD_SAME_UPPER, QN_PAD_SAME_LOWER } qn_padding;

typedef struct qn_window {
	int n; /* spatial axes */
	qn_padding padding;
	bool ceil;
	int64_t kernel[QN_MAX_SPATIAL]; /* 0 where the node has no kernel_shape */
	int64_t stride[QN_MAX_SPATIAL], dilation[QN_MAX_SPATIAL];
	int64_t before[QN_MAX_SPATIAL], after[QN_MAX_SPATIAL]; /* explicit pads; see qn_window_pads */
} qn_window;

/* Reads kernel_shape, strides, dilations, pads, auto_pad and ceil_mode for `n` spatial axes. Returns NULL, or what is wrong. */
const char *qn_window_read(qn_arena *a, const qn_node *node, int n, qn_window *w);
/* The same for an operand of shape x and a weight whose dims from 2 on are the kernel (NULL for pools); fails naming the node
 * and the rank. */
qn_status qn_window_of(qn_call *c, const qn_shape *x, const qn_shape *weight, qn_window *w);
/* Elements that the dilated kernel spans on an axis. */
static inline int64_t qn_window_span(const qn_window *w, int axis) { return (w->kernel[axis] - 1) * w->dilation[axis] + 1; }
/* The pads of an axis of `in` elements. */
void qn_window_pads(const qn_window *w, int axis, int64_t in, int64_t *before, int64_t *after);
/* The output dim of an axis; fails where the window does not fit. */
qn_status qn_window_out(qn_call *c, const qn_window *w, int axis, qn_dim in, qn_dim *out);

/* "stride=[..], dilation=[..], padding=[..]" for the engine; `outer` unit entries stand in front (2 for pools, 0 for conv). `more`
 * elements are added to the pads at the end (NULL: none). False where the pads depend on a symbol in a way that cannot be written. */
bool qn_window_emit(qn_emit *e, const qn_window *w, const qn_shape *x, int outer, const int64_t *more, const char **out);

#endif
