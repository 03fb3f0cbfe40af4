/* pass_fixture.h - for tests that run passes over small graphs written as text, with a configuration and samples in memory. */
#ifndef QN_TEST_PASS_FIXTURE_H
#define QN_TEST_PASS_FIXTURE_H

#include "tests/unit/graph_text.h"

#include "graph/samples.h"
#include "passes/config.h"
#include "passes/pipeline.h"
#include "passes/plan.h"

#include <math.h>

static quern_context *context;
static quern_config *config;
static qn_plan plan;
static qn_pass_env env;
static char logged[2048]; /* lines above debug since the setup */

static inline void on_log(void *user, quern_log_level level, const char *text)
{
	(void)user;
	if (level > QUERN_LOG_DEBUG)
		strncat(logged, text, sizeof logged - strlen(logged) - 1);
}

static inline int pass_setup(void **state)
{
	op_setup(state);
	context = quern_open(NULL);
	config = quern_config_new(context);
	logged[0] = 0;
	ctx.log = on_log;
	return 0;
}

static inline int pass_teardown(void **state)
{
	quern_config_free(config);
	quern_close(context);
	ctx.log = NULL;
	ctx.progress = NULL;
	ctx.threads = 0;
	return op_teardown(state);
}

static inline void passes(const char *first, const char *last)
{
	if (qn_pipeline_run(graph, &env, first, last) != QUERN_OK)
		fail_msg("%s", ctx.message);
}

/* A graph without samples yet, and nothing run on it. */
static inline void pass_graph(const char *text)
{
	text_graph(text);
	plan = (qn_plan){.arena = &arena, .config = config};
	env = (qn_pass_env){.ctx = &ctx, .plan = &plan, .samples = qn_samples_memory(graph, &arena)};
}

/* [1, rows, width] of values up to 0.3, in every seventh channel up to `loud`. */
static inline const qn_tensor *drawn_rows(int64_t rows, int64_t width, float loud)
{
	int64_t dim[] = {1, rows, width};
	qn_tensor *t = qn_tensor_new(&arena, QN_F32, 3, dim);
	for (int64_t i = 0; i < rows * width; i++)
		((float *)op_data(t))[i] = (float)draw(-1000, 1000) * 1e-3f * (i % width % 7 == 3 ? loud : 0.3f);
	return t;
}

static inline void add_sample(const qn_tensor *x)
{
	const qn_tensor *in[] = {x};
	assert_int_equal(qn_samples_add(env.samples, in), QUERN_OK);
}

/* Relative distance of b from a, L2. */
static inline double distance(const qn_tensor *a, const qn_tensor *b)
{
	double noise = 0, signal = 0;
	for (int64_t i = 0; i < qn_tensor_count(a); i++) {
		double d = qn_tensor_get(a, i) - qn_tensor_get(b, i);
		noise += d * d;
		signal += qn_tensor_get(a, i) * qn_tensor_get(a, i);
	}
	assert_true(signal > 0);
	return sqrt(noise / signal);
}

static inline qn_layer *layer(const char *weight)
{
	for (size_t i = 0; i < plan.n; i++)
		if (!strcmp(plan.layers[i].weight, weight))
			return &plan.layers[i];
	fail_msg("no layer of '%s'", weight);
	return NULL;
}

/* The outputs of the graph as it is now, for its only input. */
static inline qn_tensor *run_on(const qn_tensor *x)
{
	qn_tensor *y = QN_NEW(&arena, qn_tensor, graph->n_outputs);
	const qn_tensor *in[] = {x};
	if (qn_exec_run(&ctx, graph, in, &arena, y, NULL, NULL) != QUERN_OK)
		fail_msg("%s", ctx.message);
	return y;
}

#endif
