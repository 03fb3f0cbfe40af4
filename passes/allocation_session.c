/* allocation_session.c - an allocation's way through the life of a model: read before the graph is looked at, written when the archive is. */
#include "passes/allocation.h"
#include "passes/fingerprint.h"
#include "passes/model.h"
#include "passes/nnef/folder.h"
#include "passes/quant/qscheme.h"
#include "passes/result_files.h"
#include "passes/stats.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

const qn_result_kind qn_allocation_kind = {"allocation file", {QN_ALLOCATION_BEGINS, NULL}};

static bool needs_samples(qn_rounding r) { return r == QN_ROUND_IMPORTANCE || r == QN_ROUND_GPTQ; }

/* What the file says of all layers together holds where the user said nothing. */
static void take_settings(quern_model *m, const qn_allocation *f)
{
	quern_config *own = QN_NEW(&m->arena, quern_config, 1);
	*own = *m->config;
	if (!own->rounding_asked)
		own->rounding = f->rounding;
	if (!own->percentile_asked)
		own->percentile = f->percentile;
	own->dynamic_activations |= f->dynamic_activations;
	own->equalize |= f->equalize;
	own->calibration.quantize_outputs |= f->quantize_outputs;
	m->config = m->plan.config = own;
}

static qn_status check_outputs(const quern_model *m, const qn_allocation *f)
{
	const qn_graph *g = m->graph;
	for (size_t i = 0; i < f->n_outputs; i++) {
		bool known = false;
		for (int k = 0; k < g->n_outputs; k++)
			known |= !strcmp(g->output_names[k], f->outputs[i].name);
		const char *near = known ? NULL : qn_nearest(f->outputs[i].name, g->output_names, (size_t)g->n_outputs);
		if (!known)
			QN_FAIL(m->ctx, QUERN_ERR_CONFIG, "'%s': the model has no output '%.200s'%s%s%s", f->path, f->outputs[i].name,
				near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	}
	return QUERN_OK;
}

qn_status qn_model_load_bits(quern_model *m, const char *model_path)
{
	const quern_config *c = m->config;
	qn_allocation *f;
	if (!c || (!c->load_path && !c->save_path))
		return QUERN_OK;
	const char *slash = strrchr(model_path, '/');
	m->plan.file = qn_arena_strdup(&m->arena, slash ? slash + 1 : model_path);
	m->plan.fingerprint = qn_fingerprint(m->graph, &m->arena);
	if (!c->load_path)
		return QUERN_OK;
	QN_TRY(qn_allocation_read(m->ctx, &m->arena, c->load_path, &f));
	if (!strcmp(f->fingerprint, m->plan.fingerprint)) /* else it is of another model, which is said later with what differs */
		QN_TRY(check_outputs(m, f));
	m->plan.loaded = f;
	take_settings(m, f);
	if (needs_samples(m->config->rounding) && !m->config->rounding_asked && !m->config->calib_path)
		qn_log(m->ctx, QUERN_LOG_WARN, "the weights of the allocation '%s' were rounded with samples (%s) and are not in the file: give the samples again "
			"with --calib, or another --rounding", f->path, qn_rounding_name(m->config->rounding));
	return QUERN_OK;
}

qn_status qn_model_can_save_bits(const quern_model *m, qn_arena *a)
{
	return qn_result_file_check(m->ctx, a, &(qn_result_file){"the allocation file", m->config->save_path, &qn_allocation_kind});
}

static void drop(void *path) { qn_path_remove(path); }

qn_status qn_model_save_bits(const quern_model *m, qn_arena *a, const char **written)
{
	const char *path = m->config->save_path;
	*written = NULL;
	if (!path)
		return QUERN_OK;
	QN_TRY(qn_source_spare(m->ctx, path)); /* samples are known by now */
	qn_text t = {.arena = a};
	qn_allocation_write(&m->plan, &t);
	char *beside = qn_arena_printf(a, "%s.new-%ld", path, (long)getpid());
	qn_arena_defer(a, drop, beside);
	*written = beside;
	return qn_file_replace(m->ctx, a, beside, t.s, t.len);
}

qn_status qn_model_saved_bits(const quern_model *m, const char *written)
{
	if (written && rename(written, m->config->save_path))
		QN_FAIL(m->ctx, QUERN_ERR_IO, "cannot write the allocation '%s': %s", m->config->save_path, strerror(errno));
	return QUERN_OK;
}
