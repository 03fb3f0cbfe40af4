/* session.c - a report's way through a compile or an evaluation: checked before the work, written beside, renamed at the end. */
#include "passes/report/report.h"

#include "passes/config.h"
#include "passes/context.h"
#include "passes/nnef/folder.h"
#include "passes/quant/qscheme.h"
#include "passes/result_files.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { MOST_SAMPLES_OF_COMPILE = 32 };

/* --- files --------------------------------------------------------------------------------------------------------------------- */
qn_status qn_report_can_write(qn_ctx *ctx, qn_arena *a, const char *path)
{
	static const qn_result_kind kind = {"report", {QN_REPORT_JSON_BEGINS, QN_REPORT_HTML_BEGINS}};
	return qn_result_file_check(ctx, a, &(qn_result_file){"the report", path, &kind});
}

static const char *last_of(const char *path)
{
	size_t n = strlen(path);
	while (n > 1 && path[n - 1] == '/')
		n--;
	size_t from = n;
	while (from && path[from - 1] != '/')
		from--;
	return path + from;
}

static void drop(void *path) { qn_path_remove(path); }

qn_status qn_report_save(const quern_model *m, qn_arena *a, qn_report *r, const char *archive, uint64_t archive_bytes, const char **written)
{
	*written = NULL;
	if (!r)
		return QUERN_OK;
	const char *path = m->config->report_path;
	size_t n = strlen(path);
	r->archive = archive ? last_of(archive) : NULL;
	r->archive_bytes = archive_bytes;
	qn_text t = {.arena = a};
	if (n > 5 && !strcmp(path + n - 5, ".json"))
		qn_report_json(r, &t);
	else
		qn_report_html(r, &t);
	char *beside = qn_arena_printf(a, "%s.new-%ld", path, (long)getpid());
	qn_arena_defer(a, drop, beside);
	*written = beside;
	return qn_file_replace(m->ctx, a, beside, t.s, t.len);
}

qn_status qn_report_saved(const quern_model *m, const char *written)
{
	if (written && rename(written, m->config->report_path))
		QN_FAIL(m->ctx, QUERN_ERR_IO, "cannot write the report '%s': %s; all else is done", m->config->report_path, strerror(errno));
	return QUERN_OK;
}

/* --- figures -------------------------------------------------------------------------------------------------------------------- */
static qn_report *start(quern_model *m, const char *command, const char *samples, qn_arena *a)
{
	qn_report *r = QN_NEW(a, qn_report, 1);
	*r = (qn_report){.arena = a, .command = command, .model = last_of(m->path)};
	r->samples_name = samples ? last_of(samples) : NULL;
	return r;
}

static void free_exact(void *e) { quern_model_free(((quern_evaluation *)e)->exact); }
static void free_runs(void *e) { qn_arena_release(&((quern_evaluation *)e)->arena); }

/* The float model, loaded without saying again what loading it once said. */
static qn_status load_exact(quern_model *m, quern_evaluation *e)
{
	qn_ctx *ctx = m->ctx;
	quern_log_fn log = ctx->log;
	ctx->log = NULL;
	qn_status status = quern_model_load((quern_context *)ctx, m->path, m->config, &e->exact); /* a context is its qn_ctx */
	ctx->log = log;
	return status;
}

static qn_status run(quern_model *m, qn_report *r, quern_evaluation *e)
{
	qn_eval_plan plan = {.stage = "report", .most_samples = MOST_SAMPLES_OF_COMPILE};
	QN_TRY(load_exact(m, e));
	qn_evaluation_pair(e);
	qn_measure *measured = qn_measure_new(e, &e->arena);
	qn_measure_hook(measured, &plan);
	QN_TRY(qn_evaluation_run(e, m->config->calib_path, &plan));
	return qn_report_collect(r, m, e, measured);
}

qn_status qn_report_of_compile(quern_model *m, const char *command, qn_arena *a, qn_report **out)
{
	*out = NULL;
	if (!m->config->report_path)
		return QUERN_OK;
	qn_report *r = *out = start(m, command, m->config->calib_path, a);
	if (!m->config->calib_path)
		return qn_report_collect(r, m, NULL, NULL);
	quern_evaluation *e = QN_NEW(a, quern_evaluation, 1);
	*e = (quern_evaluation){.ctx = m->ctx, .got = m};
	qn_arena_init(&e->arena, m->ctx);
	qn_arena_defer(a, free_exact, e); /* runs after free_runs, as the executors need the graph */
	qn_arena_defer(a, free_runs, e);
	qn_status status = run(m, r, e);
	qn_arena_release(&e->arena);
	quern_model_free(e->exact);
	e->exact = NULL;
	return status == QUERN_OK ? status : qn_prefix(m->ctx, status, "report '%s'", m->config->report_path);
}

qn_status qn_report_of_evaluation(quern_evaluation *e, qn_measure *measured, const char *samples, qn_arena *a, qn_report **out)
{
	*out = NULL;
	if (!measured)
		return QUERN_OK;
	*out = start(e->got, "eval", samples, a);
	return qn_report_collect(*out, e->got, e, measured);
}
