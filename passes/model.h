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
	const char *path; /* of the ONNX file, as given */
};

/* Bytes of the constants that the graph as it is now computes with and that are no layer's weight. */
uint64_t qn_model_other_bytes(const quern_model *m);
/* Runs the passes that loading left, on the configuration's samples where there are any: the graph is then the one that an archive holds. A
 * model can be quantized once. */
qn_status qn_model_quantize(quern_model *m);

/* Allocation files, where the configuration names one. Loading: right after the graph is made, before anything is bound or rewritten. */
qn_status qn_model_load_bits(quern_model *m, const char *model_path);
/* Saving, in three steps: whether the place can be written, known before the work; the file beside its place (gone with `a` unless renamed); its own name. */
qn_status qn_model_can_save_bits(const quern_model *m, qn_arena *a);
qn_status qn_model_save_bits(const quern_model *m, qn_arena *a, const char **written);
qn_status qn_model_saved_bits(const quern_model *m, const char *written);

#endif
