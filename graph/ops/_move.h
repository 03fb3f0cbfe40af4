/* _move.h - what the operators that only move elements share. Elements are opaque bytes here: any type with a fixed element
 * size works, QN_DIM included. Strides count elements and may be 0 (repeat) or negative (reverse). */
#ifndef QN_OPS_MOVE_H
#define QN_OPS_MOVE_H

#include "graph/emit.h"
#include "graph/op.h"

/* A view may split every axis in two. */
#define QN_MOVE_RANK (2 * QN_MAX_RANK)

/* Row-major strides of a dense block. */
void qn_move_strides(int rank, const int64_t *dim, int64_t *stride);
/* dst[i . dst_stride] = src[i . src_stride] for every index i of the box; the two must not overlap. */
void qn_move_box(int rank, const int64_t *dim, const void *src, const int64_t *src_stride, void *dst, const int64_t *dst_stride,
	size_t elem, int threads);
/* memcpy over several threads. */
void qn_move_bytes(void *dst, const void *src, size_t bytes, int threads);
/* n elements, each a copy of the one at `value`. */
void qn_move_fill(void *dst, const void *value, size_t elem, int64_t n);
/* How many threads a job over that many bytes is worth; `threads` as in qn_call. */
int qn_move_threads(int threads, size_t bytes);

/* For the end of an inference rule: an output without elements is known, whatever the data. The engine's movers refuse such sizes. */
void qn_move_know_empty(qn_call *c, int o);
/* Output 0 is input 0 with another shape. */
qn_status qn_move_copy_eval(qn_call *c);
/* Fails where the rank of input i is not known. */
qn_status qn_move_need_rank(qn_call *c, int i);
/* Input i as i64 (the data itself where it is, else a copy in scratch). */
const int64_t *qn_move_i64(qn_call *c, int i);
/* The same with negative indices counted from `limit`; fails naming the first index that is out of range. */
qn_status qn_move_indices(qn_call *c, int i, int64_t limit, const int64_t **out);
/* One index: made non-negative, false when out of range. */
static inline bool qn_move_wrap(int64_t *index, int64_t limit)
{
	if (*index < -limit || *index >= limit)
		return false;
	if (*index < 0)
		*index += limit;
	return true;
}
/* Element i of output o becomes the integer v, whatever integer type (or QN_DIM) it has. */
void qn_move_put(qn_call *c, int o, int64_t i, int64_t v);

/* --- emission -------------------------------------------------------------------------------------------------- */
/* The operands of the node as the inference rule sees them, so that emission reads its parameters by the same functions. */
qn_call qn_move_call(qn_emit *e);
/* The content of constant input i (loaded into the emission's arena); *out is NULL where the input is not a constant. */
qn_status qn_move_const(qn_emit *e, int i, const qn_tensor **out);
/* The reference of input i under its own name as an output: for nodes that turn out to do nothing. */
void qn_move_emit_alias(qn_emit *e, int o, int i);
/* "slice(x, axes=[axis], begin=[..], end=[..])" */
const char *qn_move_emit_slice(qn_emit *e, const char *x, int axis, qn_dim begin, qn_dim end);
/* Fails where two shapes are not seen to have the same number of elements: the engine refuses to reshape one to the other. */
qn_status qn_move_emit_volume(qn_emit *e, const qn_shape *from, const qn_shape *to);
/* Output 0 is input 0 reshaped to the inferred shape. */
qn_status qn_move_emit_reshape(qn_emit *e);
/* Input i as indices that are never negative: constants are rewritten, run-time ones get their size added where they are negative.
 * Items along the last axis take the limits in turn: n is 1, or the size of that axis. */
qn_status qn_move_emit_indices(qn_emit *e, int i, const qn_dim *limit, int n, const char **out);
/* A constant of one element in a type, shaped [1, 1, ...]: a literal where one denotes the value exactly. */
const char *qn_move_emit_scalar(qn_emit *e, const char *label, qn_dtype type, const void *value, int rank);
/* The same, repeated to a shape. */
const char *qn_move_emit_full(qn_emit *e, const char *label, qn_dtype type, const void *value, const qn_shape *shape);
/* 0, 1, ... n - 1 as i64 along an axis of otherwise unit axes. */
const char *qn_move_emit_steps(qn_emit *e, qn_dim n, int axis, int rank);

#endif
