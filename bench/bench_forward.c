/* bench_forward.c - time of the float graph as calibration runs it. MODEL.onnx THREADS REPEATS SAMPLES: prints the least and the median
 * milliseconds of each sample file, and their sum. bench_forward.py runs it beside onnxruntime. */
#include "graph/exec.h"
#include "graph/onnx.h"
#include "graph/samples.h"
#include "passes/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int rising(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static qn_status bench(qn_ctx *ctx, qn_arena *a, char **argv, int repeats)
{
	qn_graph *g;
	QN_TRY(qn_onnx_load(ctx, argv[1], a, &g));
	qn_pass_env env = {.ctx = ctx};
	QN_TRY(qn_pipeline_run(g, &env, NULL, "linear"));
	qn_samples *samples;
	QN_TRY(qn_samples_open(g, argv[4], a, &samples));
	qn_exec *e = qn_exec_new(qn_consts_new(g, a), a);
	size_t n = qn_samples_count(samples);
	double *ms = QN_NEW(a, double, n *(size_t)repeats), least = 0, median = 0;
	for (int r = -1; r < repeats; r++) /* the first round loads the constants */
		for (size_t i = 0; i < n; i++) {
			qn_arena scratch;
			qn_arena_init(&scratch, ctx);
			const qn_tensor **in = QN_NEW(&scratch, const qn_tensor *, g->n_inputs + 1);
			qn_tensor *out = QN_NEW(&scratch, qn_tensor, g->n_outputs + 1);
			QN_TRY(qn_samples_read(samples, i, &scratch, in));
			double start = now();
			QN_TRY(qn_exec_all(e, in, &scratch, out, NULL, NULL));
			if (r >= 0)
				ms[i * (size_t)repeats + (size_t)r] = now() - start;
			qn_arena_release(&scratch);
		}
	for (size_t i = 0; i < n; i++) {
		qsort(ms + i * (size_t)repeats, (size_t)repeats, sizeof *ms, rising);
		least += ms[i * (size_t)repeats];
		median += ms[i * (size_t)repeats + (size_t)repeats / 2];
	}
	printf("%.3f %.3f\n", least / (double)n, median / (double)n);
	return QUERN_OK;
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fprintf(stderr, "usage: bench_forward MODEL.onnx THREADS REPEATS SAMPLES\n");
		return 2;
	}
	static qn_ctx ctx;
	qn_arena a;
	ctx.threads = atoi(argv[2]);
	qn_arena_init(&a, &ctx);
	qn_status status = bench(&ctx, &a, argv, atoi(argv[3]));
	if (status != QUERN_OK)
		fprintf(stderr, "%s\n", ctx.message);
	qn_arena_release(&a);
	return status != QUERN_OK;
}
