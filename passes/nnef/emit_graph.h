/* emit_graph.h - a graph of target-level operators becomes graph.nnef and its variables. */
#ifndef QN_EMIT_GRAPH_H
#define QN_EMIT_GRAPH_H

#include "graph/emit.h"
#include "passes/nnef/archive.h"

/* Writes graph.nnef and one .dat a variable (each constant loaded, written, dropped; equal constants stored once). Inputs and outputs
 * keep their names, made into NNEF identifiers where they are none; outputs keep their order. */
qn_status qn_emit_graph(qn_ctx *ctx, qn_graph *g, qn_target target, qn_archive *ar);
/* Bytes of the variables that it would write, headers not counted; nothing is written. */
qn_status qn_emit_bytes(qn_ctx *ctx, qn_graph *g, qn_target target, uint64_t *bytes);

#endif
