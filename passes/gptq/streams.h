/* streams.h - the calibration samples run side by side, node by node, twice: in float and with what is already quantized. */
#ifndef QN_STREAMS_H
#define QN_STREAMS_H

#include "graph/exec.h"
#include "graph/samples.h"
#include "passes/gptq/rows.h"

typedef struct qn_batch {
	const qn_tensor **inputs; /* one a graph input */
	qn_exec *exact, *rounded;
} qn_batch;

typedef struct qn_streams {
	qn_graph *g;
	qn_samples *source;
	qn_consts *consts;
	qn_arena *arena; /* lives as long as the streams */
	qn_batch *batch;
	size_t n, cap;
	size_t samples, copies;
	int64_t tokens; /* of one run of all samples, without copies */
} qn_streams;

/* Reads all samples and makes `copies` varied copies of each where the graph has an input of token ids: the input that indexes the largest table. In a copy the first
 * and last id and the length stay; the ids between are drawn anew (all; half of them; from all samples' ids) or are a rotated stretch. Targets come from the
 * float stream, so no labels are needed. Samples of one shape are stacked along the batch axis where the graph has one. The seed is fixed: the same samples give the same copies. copies < 0: as many as make
 * some 6,000 tokens. */
qn_status qn_streams_open(qn_graph *g, qn_samples *samples, int copies, qn_arena *a, qn_streams *out);
/* For a status of a float run over the batches, which stack samples: runs the samples one by one, and puts the name of the first that fails before its message. */
qn_status qn_streams_blame(qn_streams *s, qn_status status);
/* Starts both streams of every batch. A failure names the sample, as that of a step does. */
qn_status qn_streams_begin(qn_streams *s);
qn_status qn_streams_step(qn_streams *s, qn_node *n);

/* Rows of v over all batches, [rows, last axis], in the float or the rounded stream: where they lie, valid until the step that frees them. No rows where v is not
 * there. The lists are in `a`. */
qn_rows qn_streams_rows(qn_streams *s, qn_value *v, bool rounded, qn_arena *a);
/* The rounded stream reads t instead of v from now on. */
void qn_streams_override(qn_streams *s, const qn_value *v, const qn_tensor *t);

#endif
