/* passes.h - the passes, each defined in the file of its name. passes/pipeline.c is the only caller. */
#ifndef QN_PASSES_H
#define QN_PASSES_H

#include "passes/pass.h"

qn_status qn_pass_shapes(qn_graph *g, qn_pass_env *env);
qn_status qn_pass_merge(qn_graph *g, qn_pass_env *env);
qn_status qn_pass_widen(qn_graph *g, qn_pass_env *env);
qn_status qn_pass_dense(qn_graph *g, qn_pass_env *env);
qn_status qn_pass_canonicalize(qn_graph *g, qn_pass_env *env);
qn_status qn_pass_linear(qn_graph *g, qn_pass_env *env);
qn_status qn_pass_tag(qn_graph *g, qn_pass_env *env);
qn_status qn_pass_widths(qn_graph *g, qn_pass_env *env);
qn_status qn_pass_equalize(qn_graph *g, qn_pass_env *env);
qn_status qn_pass_calibrate(qn_graph *g, qn_pass_env *env);
qn_status qn_pass_balance(qn_graph *g, qn_pass_env *env);
qn_status qn_pass_scales(qn_graph *g, qn_pass_env *env);
qn_status qn_pass_fold_balance(qn_graph *g, qn_pass_env *env);
qn_status qn_pass_round(qn_graph *g, qn_pass_env *env);
qn_status qn_pass_weights(qn_graph *g, qn_pass_env *env);
qn_status qn_pass_outputs(qn_graph *g, qn_pass_env *env);

#endif
