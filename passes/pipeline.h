/* pipeline.h - runs the list of passes. */
#ifndef QN_PIPELINE_H
#define QN_PIPELINE_H

#include "passes/pass.h"

/* From the pass `first` (NULL: the first of all) to `last`, both included (NULL: the last of all). The graph is checked after every pass. */
qn_status qn_pipeline_run(qn_graph *g, qn_pass_env *env, const char *first, const char *last);

#endif
