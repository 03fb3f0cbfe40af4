/* model.h (private) - a loaded model: what the public calls that compile and evaluate it share. */
#ifndef QN_MODEL_H
#define QN_MODEL_H

#include "passes/plan.h"
#include <quern/quern.h>

struct quern_model {
	qn_ctx *ctx;
	qn_arena arena;
	qn_graph *graph;
	qn_plan plan;
	const quern_config *config;
	uint64_t weight_bytes;
	bool compiled;
};

/* Runs the passes that loading left, on the configuration's samples where there are any: the graph is then the one that an archive holds. A
 * model can be quantized once. */
qn_status qn_model_quantize(quern_model *m);

#endif
