/* forecast.h - what gptq will take, before it starts. */
#ifndef QN_GPTQ_FORECAST_H
#define QN_GPTQ_FORECAST_H

#include "passes/gptq/layer.h"

typedef struct qn_gptq_forecast {
	double seconds;  /* at the rate that this machine shows now */
	uint64_t bytes;  /* of the model, of activations and of work at their peak */
	double *share;   /* by layer: of the whole work, at the first of each group; they sum to 1 */
} qn_gptq_forecast;

/* From shapes, the sizes of the batches, and a few milliseconds of the two kinds of work that take most of the time. */
qn_gptq_forecast qn_gptq_foretell(qn_plan *plan, const qn_streams *s, const qn_gptq_settings *o, qn_arena *a);

#endif
