/* nnef_text.h - enough of a reader of graph.nnef to describe it: no types, no expansion of fragments. */
#ifndef QN_NNEF_TEXT_H
#define QN_NNEF_TEXT_H

#include "graph/base.h"

typedef struct qn_nnef_port {
	const char *name, *definition;
} qn_nnef_port;

typedef struct qn_nnef_operator {
	const char *name;
	size_t count;
} qn_nnef_operator;

typedef struct qn_nnef_text {
	const char *graph;
	qn_nnef_port *inputs, *outputs;
	size_t n_inputs, cap_inputs, n_outputs, cap_outputs;
	const char **symbols;
	size_t n_symbols, cap_symbols;
	qn_nnef_operator *operators; /* most frequent first, then by name */
	size_t n_operators, cap_operators;
	const char **labels; /* of variables, in order */
	size_t n_labels, cap_labels;
} qn_nnef_text;

/* Reads `text`, NUL-terminated; strings go to `a`. Errors say the line. */
qn_status qn_nnef_text_read(qn_ctx *ctx, qn_arena *a, const char *text, qn_nnef_text *out);

#endif
