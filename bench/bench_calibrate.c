/* bench_calibrate.c - time of calibration. MODEL.onnx THREADS SAMPLES: prints milliseconds a sample of the calibrate pass (order and
 * content of the samples, float runs, observers), and of the second run over the samples for the ranges of what was balanced. All layers
 * get 8-bit weights and activations; the rest is as by default. bench_calibrate.py runs it beside onnxruntime. */
#include "graph/onnx.h"
#include "graph/samples.h"
#include "passes/config.h"
#include "passes/pipeline.h"
#include "passes/plan.h"

#include <quern/quern.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

typedef struct second_run {
	double from, to;
	size_t first, last; /* samples done at those times */
} second_run;

static bool note(void *user, const char *stage, size_t done, size_t total)
{
	second_run *r = user;
	(void)total;
	if (strcmp(stage, "ranges") != 0)
		return true;
	r->to = now();
	if (!r->first) {
		r->from = r->to;
		r->first = done;
	}
	r->last = done;
	return true;
}

static qn_status bench(qn_ctx *ctx, qn_arena *a, const quern_config *config, char **argv)
{
	qn_graph *g;
	QN_TRY(qn_onnx_load(ctx, argv[1], a, &g));
	second_run second = {0};
	ctx->progress = note;
	ctx->progress_user = &second;
	qn_plan plan = {.config = qn_config_settled(a, config), .arena = a};
	qn_pass_env env = {.ctx = ctx, .plan = &plan};
	QN_TRY(qn_pipeline_run(g, &env, NULL, "widths"));
	QN_TRY(qn_samples_open(g, argv[3], a, &env.samples));
	double start = now();
	QN_TRY(qn_pipeline_run(g, &env, "calibrate", "calibrate"));
	double first = (now() - start) / (double)qn_samples_count(env.samples);
	QN_TRY(qn_pipeline_run(g, &env, "balance", "balance"));
	printf("%.3f %.3f\n", first, second.last > second.first ? (second.to - second.from) / (double)(second.last - second.first) : 0.0);
	return QUERN_OK;
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: bench_calibrate MODEL.onnx THREADS SAMPLES\n");
		return 2;
	}
	static qn_ctx ctx;
	qn_arena a;
	quern_context *c = quern_open(NULL);
	quern_config *config = c ? quern_config_new(c) : NULL;
	if (!config || quern_config_bits(config, "8") != QUERN_OK || quern_config_act_bits(config, "8") != QUERN_OK)
		return 1;
	ctx.threads = atoi(argv[2]);
	qn_arena_init(&a, &ctx);
	qn_status status = bench(&ctx, &a, config, argv);
	if (status != QUERN_OK)
		fprintf(stderr, "%s\n", ctx.message);
	qn_arena_release(&a);
	quern_config_free(config);
	quern_close(c);
	return status != QUERN_OK;
}
