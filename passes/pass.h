/* pass.h - a pass is one function in one file; passes/pipeline.c lists them in order. */
#ifndef QN_PASS_H
#define QN_PASS_H

#include "graph/op.h"

typedef struct qn_plan qn_plan; /* widths asked for and given, layer by layer: passes/plan.h */

typedef struct qn_pass_env {
	qn_ctx *ctx;
	qn_arena *scratch; /* reset by the driver after each pass */
	qn_plan *plan;     /* NULL until roles are known */
	struct qn_samples *samples; /* to calibrate on; NULL: none were given */
	struct qn_calibration *calibration; /* what the calibrate pass saw; NULL before it and without samples */
	bool tolerate_dynamic; /* shapes: data-dependent dims become fresh symbols instead of errors (quern run) */
} qn_pass_env;

typedef qn_status (*qn_pass_fn)(qn_graph *g, qn_pass_env *env);

#endif
