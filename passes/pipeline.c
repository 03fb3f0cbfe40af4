/* pipeline.c - the passes in order of execution, top to bottom. No pass is called from anywhere else. */
#include "passes/pipeline.h"

#include "passes/passes.h"

static const struct {
	const char *name;
	qn_pass_fn run;
	const char *what;
} passes[] = {
	{"shapes", qn_pass_shapes, "lower fused operators, infer symbolic shapes, fold what is known"},
	{"merge", qn_pass_merge, "what is computed twice is computed once"},
	{"widen", qn_pass_widen, "half floats are computed in f32"},
	{"dense", qn_pass_dense, "rows chosen by a mask become all rows, masked"},
	{"shapes", qn_pass_shapes, "the same, with the new types and with sizes that no longer depend on data"},
	{"canonicalize", qn_pass_canonicalize, "recognize GELU, SiLU and norms, drop what does nothing"},
	{"linear", qn_pass_linear, "products with constants become layers with weights stored [N, K]"},
	{"tag", qn_pass_tag, "find query, key, value, output, ffn, head, embedding"},
	{"widths", qn_pass_widths, "give each layer the widths asked for, or the next it can bear"},
	{"equalize", qn_pass_equalize, "scale channels where that costs nothing, so that weights round better"},
	{"calibrate", qn_pass_calibrate, "run the samples and gather what layers read"},
	{"balance", qn_pass_balance, "search the factors between activations and weights, channel by channel"},
	{"scales", qn_pass_scales, "choose scales and zero points of activations"},
	{"fold_balance", qn_pass_fold_balance, "put the factors into norms, weights or a multiplication"},
	{"round", qn_pass_round, "round weights by what the samples say"},
	{"weights", qn_pass_weights, "rewrite layers to the operators of their stored form"},
	{"outputs", qn_pass_outputs, "quantize the graph's outputs, where that is asked for"},
};

static qn_status run_pass(qn_graph *g, qn_pass_env *env, size_t i)
{
	qn_arena scratch;
	qn_arena_init(&scratch, g->ctx);
	env->scratch = &scratch;
	qn_status status = passes[i].run(g, env);
	qn_arena_release(&scratch);
	env->scratch = NULL;
	if (status == QUERN_OK)
		status = qn_graph_check(g);
	return status == QUERN_OK ? status : qn_prefix(g->ctx, status, "pass '%s'", passes[i].name);
}

qn_status qn_pipeline_run(qn_graph *g, qn_pass_env *env, const char *first, const char *last)
{
	bool on = !first;
	for (size_t i = 0; i < QN_LEN(passes); i++) {
		on |= first && !strcmp(passes[i].name, first);
		if (on)
			QN_TRY(run_pass(g, env, i));
		if (last && !strcmp(passes[i].name, last))
			break;
	}
	return QUERN_OK;
}
