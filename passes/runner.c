/* runner.c - float execution for the public interface: .npz files and ONNX test data. */
#include "graph/exec.h"
#include "graph/npz.h"
#include "graph/onnx.h"
#include "passes/config.h"
#include "passes/context.h"
#include "passes/pipeline.h"

#include <math.h>
#include <quern/quern.h>
#include <stdio.h>
#include <unistd.h>

struct quern_runner {
	qn_ctx *ctx;
	qn_arena arena;
	qn_graph *graph;
};

static qn_status load(quern_runner *r, const char *path)
{
	QN_TRY(qn_onnx_load(r->ctx, path, &r->arena, &r->graph));
	qn_pass_env env = {.ctx = r->ctx, .tolerate_dynamic = true};
	return qn_pipeline_run(r->graph, &env, NULL, "shapes");
}

quern_status quern_runner_load(quern_context *context, const char *path, const quern_config *config, quern_runner **out)
{
	(void)config;
	*out = NULL;
	qn_ctx *ctx = &context->ctx;
	QN_ENTER(ctx, saved, buf);
	quern_runner *r = qn_heap(ctx, NULL, 0, sizeof *r);
	*r = (quern_runner){.ctx = ctx};
	qn_arena_init(&r->arena, ctx);
	jmp_buf inner;
	qn_status status;
	ctx->on_memory = &inner;
	if (setjmp(inner))
		status = qn_fail(ctx, QUERN_ERR_MEMORY, "out of memory while loading '%s'", path);
	else
		status = load(r, path);
	if (status == QUERN_OK)
		*out = r;
	else
		quern_runner_free(r);
	QN_LEAVE(ctx, saved);
	return status;
}

void quern_runner_free(quern_runner *r)
{
	if (!r)
		return;
	qn_arena_release(&r->arena);
	qn_heap(r->ctx, r, sizeof *r, 0);
}

static qn_status run(quern_runner *r, qn_arena *a, const qn_tensor **in, qn_tensor *out)
{
	return qn_exec_run(r->ctx, r->graph, in, a, out, NULL, NULL);
}

/* int32 and int64 are accepted alike where the graph takes the other, and the plain type where it takes a small one. */
static const qn_tensor *as_type(qn_arena *a, const qn_tensor *t, qn_dtype want)
{
	bool ints = (t->type == QN_I32 || t->type == QN_I64) && (want == QN_I32 || want == QN_I64);
	bool plain = qn_dtype_is_small(want) && t->type == qn_dtype_plain(want);
	if (t->type == want || (!ints && !plain))
		return t;
	qn_tensor *r = qn_tensor_new(a, want, t->rank, t->dim);
	qn_convert(t->data, t->type, (void *)(uintptr_t)r->data, want, qn_tensor_count(t));
	return r;
}

static qn_status run_npz(quern_runner *r, qn_arena *a, const char *input, const char *output)
{
	qn_graph *g = r->graph;
	qn_npz *z;
	QN_TRY(qn_npz_read(r->ctx, a, input, &z));
	qn_source_note_path(r->ctx, input);
	const qn_tensor **in = QN_NEW(a, const qn_tensor *, g->n_inputs + 1);
	qn_tensor *out = QN_NEW(a, qn_tensor, g->n_outputs + 1);
	for (int i = 0; i < g->n_inputs; i++) {
		const qn_tensor *t = qn_npz_get(z, g->inputs[i]->name);
		if (!t)
			QN_FAIL(r->ctx, QUERN_ERR_CONFIG, "'%s' has no array '%s', which the graph takes as input", input, g->inputs[i]->name);
		in[i] = as_type(a, t, g->inputs[i]->fact.type);
	}
	QN_TRY(run(r, a, in, out));
	return qn_npz_write(r->ctx, output, g->output_names, out, g->n_outputs);
}

static qn_status differs(quern_runner *r, const char *name, const qn_tensor *got, const qn_tensor *want, double rtol, double atol)
{
	qn_ctx *ctx = r->ctx;
	if (got->type != want->type)
		QN_FAIL(ctx, QUERN_ERR_NUMERIC, "output '%s' is %s, expected %s", name, qn_dtype_name(got->type), qn_dtype_name(want->type));
	if (got->rank != want->rank || memcmp(got->dim, want->dim, sizeof *got->dim * (size_t)got->rank)) {
		qn_arena a;
		qn_arena_init(&a, ctx);
		qn_shape sg = qn_shape_of(got), sw = qn_shape_of(want);
		qn_fail(ctx, QUERN_ERR_NUMERIC, "output '%s' has shape %s, expected %s", name, qn_shape_text(&a, &sg), qn_shape_text(&a, &sw));
		qn_arena_release(&a);
		return QUERN_ERR_NUMERIC;
	}
	int64_t n = qn_tensor_count(got);
	for (int64_t i = 0; i < n; i++) {
		double x = qn_tensor_get(got, i), y = qn_tensor_get(want, i);
		bool same = x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= atol + rtol * fabs(y);
		if (!same)
			QN_FAIL(ctx, QUERN_ERR_NUMERIC, "output '%s' differs at element %lld: %.9g, expected %.9g", name, (long long)i, x, y);
	}
	return QUERN_OK;
}

static qn_status run_test_data(quern_runner *r, qn_arena *a, const char *folder, double rtol, double atol)
{
	qn_graph *g = r->graph;
	const qn_tensor **in = QN_NEW(a, const qn_tensor *, g->n_inputs + 1);
	qn_tensor *out = QN_NEW(a, qn_tensor, g->n_outputs + 1);
	for (int i = 0; i < g->n_inputs; i++) {
		qn_tensor *t;
		const char *name;
		QN_TRY(qn_onnx_tensor_file(r->ctx, qn_arena_printf(a, "%s/input_%d.pb", folder, i), a, &t, &name));
		in[i] = t;
	}
	QN_TRY(run(r, a, in, out));
	for (int i = 0; i < g->n_outputs; i++) {
		qn_tensor *t;
		const char *name;
		QN_TRY(qn_onnx_tensor_file(r->ctx, qn_arena_printf(a, "%s/output_%d.pb", folder, i), a, &t, &name));
		QN_TRY(differs(r, g->output_names[i], &out[i], t, rtol, atol));
	}
	return QUERN_OK;
}

typedef struct job {
	const char *input, *output;
	double rtol, atol;
} job;

static qn_status guarded(quern_runner *r, const job *j)
{
	qn_arena a;
	qn_arena_init(&a, r->ctx);
	jmp_buf buf, *saved = r->ctx->on_memory;
	qn_status status;
	r->ctx->on_memory = &buf;
	if (setjmp(buf))
		status = qn_fail(r->ctx, QUERN_ERR_MEMORY, "out of memory while running");
	else
		status = j->output ? run_npz(r, &a, j->input, j->output) : run_test_data(r, &a, j->input, j->rtol, j->atol);
	qn_arena_release(&a);
	r->ctx->on_memory = saved;
	return status;
}

quern_status quern_run_npz(quern_runner *r, const char *input, const char *output)
{
	return guarded(r, &(job){.input = input, .output = output});
}

quern_status quern_run_test_data(quern_runner *r, const char *folder, double rtol, double atol)
{
	return guarded(r, &(job){.input = folder, .rtol = rtol, .atol = atol});
}
