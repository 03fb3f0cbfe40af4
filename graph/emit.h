/* emit.h - what a row uses to write its NNEF statements; the archive writer in passes/nnef/ is behind it.
 *
 * Facts that every row keeps (measured on the engine, see docs): axes are never negative; operands of an element-wise operator
 * have one rank (qn_emit_ranked); a block-quantized, f16 or i8 weight reaches its matmul without a cast; shapes are written
 * with symbols, never with 0. All text lives in e->arena. */
#ifndef QN_EMIT_H
#define QN_EMIT_H

#include "graph/op.h"

typedef struct qn_emitter qn_emitter;
typedef enum { QN_TARGET_TRACT, QN_TARGET_KHRONOS } qn_target;

struct qn_emit {
	qn_ctx *ctx;
	qn_graph *graph;
	const qn_node *node;
	qn_arena *arena;
	qn_target target;
	qn_emitter *emitter;
};

/* Expression that denotes a value: an identifier; for constants, the variable (written on first use) or, for one float element,
 * a literal. Scalars known as dims are written as such. */
const char *qn_emit_ref(qn_emit *e, qn_value *v);
/* The same with unit axes put in front up to `rank`: constants are stored in that shape, others are unsqueezed. */
const char *qn_emit_ranked(qn_emit *e, qn_value *v, int rank);
/* A constant tensor of our own making (a scale, a table), stored as a variable named after the node and `label`. */
const char *qn_emit_constant(qn_emit *e, const char *label, const qn_tensor *t);

/* "id = expression;" for output i of the node; the expression is built with the printf format. */
void qn_emit_output(qn_emit *e, int i, const char *fmt, ...) QN_PRINTF(3, 4);
/* The same for a fresh temporary; returns its identifier. `hint` becomes part of its name. */
const char *qn_emit_temp(qn_emit *e, const char *hint, const char *fmt, ...) QN_PRINTF(3, 4);
/* "(id0, id1, ...) = expression;" for all outputs of the node in order; absent ones get fresh names. */
void qn_emit_tuple(qn_emit *e, const char *fmt, ...) QN_PRINTF(2, 3);
/* Declares a fragment once by name. */
void qn_emit_fragment(qn_emit *e, const char *name, const char *definition);
/* Records in graph.quant how the 8-bit signed integers of an identifier stand for numbers. */
void qn_emit_quantization(qn_emit *e, const char *id, float scale, int zero_point);
/* The archive needs the engine's tract_transformers registry from now on. */
void qn_emit_transformers(qn_emit *e);
/* A failure that names the node. */
qn_status qn_emit_fail(qn_emit *e, const char *fmt, ...) QN_PRINTF(2, 3);

const char *qn_emit_dim(qn_emit *e, qn_dim d);                       /* "B*S" */
const char *qn_emit_shape(qn_emit *e, const qn_shape *s);            /* "[B, S, 64]" */
const char *qn_emit_ints(qn_emit *e, const int64_t *v, int n);       /* "[0, 2, 1]" */
const char *qn_emit_float(qn_emit *e, double v);                     /* reads back exactly as f32, always with a point or exponent */
const char *qn_emit_dtype(qn_dtype t);                               /* 'f32' without quotes: f32; small types by their plain type */

#endif
