/* bench_calibrate.c - time of calibration. MODEL.onnx THREADS SAMPLES: prints milliseconds a sample of the calibrate pass (order and
 * content of the samples, float runs, observers), and milliseconds of the balance pass, which does not see the samples. All layers get
 * 8-bit weights and activations; the rest is as by default. bench_calibrate.py runs it beside onnxruntime. */
#include "graph/onnx.h"
#include "graph/samples.h"
#include "passes/config.h"
#include "passes/pipeline.h"
#include "passes/plan.h"

#include <quern/quern.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static qn_status bench(qn_ctx *ctx, qn_arena *a, const quern_config *config, char **argv)
{
	qn_graph *g;
	QN_TRY(qn_onnx_load(ctx, argv[1], a, &g));
	qn_plan plan = {.config = qn_config_settled(a, config), .arena = a};
	qn_pass_env env = {.ctx = ctx, .plan = &plan};
	QN_TRY(qn_pipeline_run(g, &env, NULL, "widths"));
	QN_TRY(qn_samples_open(g, argv[3], a, &env.samples));
	double start = now();
	QN_TRY(qn_pipeline_run(g, &env, "calibrate", "calibrate"));
	double between = now();
	QN_TRY(qn_pipeline_run(g, &env, "balance", "balance"));
	printf("%.3f %.0f\n", (between - start) / (double)qn_samples_count(env.samples), now() - between);
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
