/* layer.h - the layers that are rounded by their calibration inputs, and what is known of each from the graph. */
#ifndef QN_GPTQ_LAYER_H
#define QN_GPTQ_LAYER_H

#include "passes/gptq/gptq.h"
#include "passes/gptq/streams.h"
#include "passes/plan.h"

typedef struct qn_gptq_settings {
	double damping, alpha;
	bool mean_only;   /* damping by the mean of the diagonal alone */
	bool centre;      /* H of centred inputs, and the mean error folded into the bias */
	bool sequential;  /* inputs of the network as rounded so far; else float inputs */
	bool compensate;  /* targets that make good the error of earlier layers */
	bool residual;    /* and that of the stream which the result is added to */
	qn_gptq_options rounding;
} qn_gptq_settings;

/* The other operand of the sum that a layer's result goes into, when it has the result's shape and is already there; else NULL. */
qn_value *qn_gptq_residual(const qn_layer *l);
/* Layers of `plan` that read the same value as `first`, from `first` on, and take part (a float Linear that is to be Q4_0 or i8 and not split). Returns how many. */
size_t qn_gptq_group(qn_plan *plan, qn_layer *first, qn_layer **group, size_t most);
bool qn_gptq_takes_part(const qn_layer *l);

/* Rounds a group: sets ready_weight (ready_scale, ready_bias) of each and makes the rounded stream read them. Layers for which it is not possible or not better
 * keep plain rounding, and `reason` of theirs is given to the log. */
qn_status qn_gptq_round_group(qn_graph *g, qn_plan *plan, qn_streams *s, const qn_gptq_settings *o, qn_layer **group, size_t n);

#endif
