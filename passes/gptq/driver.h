/* driver.h - gptq over a whole graph. */
#ifndef QN_GPTQ_DRIVER_H
#define QN_GPTQ_DRIVER_H

#include "passes/gptq/layer.h"

/* Rounds every layer that can take part, in graph order: gives ready_weight, ready_scale and ready_bias, rounding and rounding_note. */
qn_status qn_gptq_run(qn_graph *g, qn_plan *plan, qn_samples *samples, qn_arena *scratch);
/* Every marked layer gets a bias of its own, which the rounding changes. */
qn_status qn_gptq_give_biases(qn_graph *g, qn_plan *plan);

#endif
