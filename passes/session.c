/* session.c - the public calls: contexts, models, compiling. */
#include "graph/exec.h"
#include "graph/onnx.h"
#include "graph/samples.h"
#include "passes/config.h"
#include "passes/context.h"
#include "passes/model.h"
#include "passes/nnef/emit_graph.h"
#include "passes/pipeline.h"
#include "passes/plan.h"
#include "passes/report/report.h"
#include "passes/result_files.h"

#include <math.h>
#include <quern/quern.h>
#include <stdlib.h>

quern_context *quern_open(const quern_options *options)
{
	quern_options o = options ? *options : (quern_options){0};
	quern_context *c = o.alloc ? o.alloc(o.alloc_user, NULL, 0, sizeof *c) : malloc(sizeof *c);
	if (c)
		*c = (quern_context){.ctx = {.alloc = o.alloc,
					     .alloc_user = o.alloc_user,
					     .log = o.log,
					     .log_user = o.log_user,
					     .progress = o.progress,
					     .progress_user = o.progress_user,
					     .threads = o.threads}};
	return c;
}

void quern_close(quern_context *c)
{
	if (!c)
		return;
	if (c->ctx.alloc)
		c->ctx.alloc(c->ctx.alloc_user, c, sizeof *c, 0);
	else
		free(c);
}

void quern_set_threads(quern_context *c, int threads) { c->ctx.threads = threads; }

const char *quern_message(const quern_context *c) { return c->ctx.message; }

/* Loading ends where nothing but the file and the configuration is needed; compiling goes on from here. */
static const char LAST_OF_LOAD[] = "widths", AFTER_LOAD[] = "equalize";

static qn_status bind_symbols(qn_graph *g, const quern_config *c)
{
	for (size_t i = 0; c && i < c->n_sets; i++) {
		const char *text = c->sets[i].symbol;
		bool used = false;
		for (int k = 0; k < g->n_inputs; k++)
			for (int d = 0; d < g->inputs[k]->fact.shape.rank; d++)
				used |= !strcmp(qn_dim_text(g->arena, g->inputs[k]->fact.shape.dim[d], NULL, NULL), text);
		if (!used)
			QN_FAIL(g->ctx, QUERN_ERR_CONFIG, "set: no input has a dim named '%s'", text);
	}
	for (size_t i = 0; c && i < c->n_sets; i++)
		if (!qn_dim_equate(g->dims, qn_dim_symbol(g->dims, c->sets[i].symbol), qn_dim_const(c->sets[i].size)))
			QN_FAIL(g->ctx, QUERN_ERR_CONFIG, "set: '%s' cannot be %lld", c->sets[i].symbol, (long long)c->sets[i].size);
	return QUERN_OK;
}

/* Bytes of the distinct initializers that layers use, and of the other constants. */
static void count_bytes(quern_model *m)
{
	for (size_t i = 0; i < m->graph->n_values; i++) {
		const qn_value *v = m->graph->values[i];
		if (v && v->is_const && v->weight && !v->producer && v->fact.value && v->fact.value->type != QN_DIM)
			m->weight_bytes += qn_tensor_bytes(v->fact.value);
	}
}

static bool is_layers_weight(const quern_model *m, const qn_value *v)
{
	for (size_t i = 0; i < m->plan.n; i++) {
		const qn_node *n = m->plan.layers[i].node;
		if (n && n->in[m->plan.layers[i].weight_in] == v)
			return true;
	}
	return false;
}

uint64_t qn_model_other_bytes(const quern_model *m)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < m->graph->n_values; i++) {
		const qn_value *v = m->graph->values[i];
		bool read = false;
		for (size_t k = 0; v && v->is_const && k < v->n_uses && !read; k++)
			read = qn_exec_needs(v->uses[k].node);
		int64_t count = 1;
		size_t bytes = 0;
		for (int k = 0; read && k < v->fact.shape.rank; k++)
			count *= v->fact.shape.dim[k].k;
		if (read && !(v->fact.value && v->fact.value->type == QN_DIM) && qn_shape_is_const(&v->fact.shape) && !is_layers_weight(m, v) &&
			qn_dtype_bytes(v->fact.type, count, &bytes))
			sum += bytes;
	}
	return sum;
}

static qn_status load(quern_model *m, const char *path)
{
	m->path = qn_arena_strdup(&m->arena, path);
	QN_TRY(qn_onnx_load(m->ctx, path, &m->arena, &m->graph));
	m->config = m->plan.config = qn_config_settled(&m->arena, m->config);
	QN_TRY(qn_model_load_bits(m, path));
	QN_TRY(bind_symbols(m->graph, m->config));
	count_bytes(m);
	qn_pass_env env = {.ctx = m->ctx, .plan = &m->plan};
	QN_TRY(qn_pipeline_run(m->graph, &env, NULL, LAST_OF_LOAD));
	m->plan.other_bytes = qn_model_other_bytes(m);
	return QUERN_OK;
}

quern_status quern_model_load(quern_context *context, const char *path, const quern_config *config, quern_model **out)
{
	*out = NULL;
	qn_ctx *ctx = &context->ctx;
	QN_ENTER(ctx, saved, buf);
	quern_model *m = qn_heap(ctx, NULL, 0, sizeof *m);
	*m = (quern_model){.ctx = ctx, .config = config};
	qn_arena_init(&m->arena, ctx);
	m->plan.arena = &m->arena;
	m->plan.config = config;
	jmp_buf inner;
	qn_status status;
	ctx->on_memory = &inner;
	if (setjmp(inner))
		status = qn_fail(ctx, QUERN_ERR_MEMORY, "out of memory while loading '%s'", path);
	else
		status = load(m, path);
	if (status == QUERN_OK)
		*out = m;
	else
		quern_model_free(m);
	QN_LEAVE(ctx, saved);
	return status;
}

void quern_model_free(quern_model *m)
{
	if (!m)
		return;
	qn_arena_release(&m->arena);
	qn_heap(m->ctx, m, sizeof *m, 0);
}

size_t quern_model_layers(const quern_model *m) { return m->plan.n; }

void quern_model_layer(const quern_model *m, size_t i, quern_layer *out)
{
	const qn_layer *l = &m->plan.layers[i];
	*out = (quern_layer){.node = l->name,
		.weight = l->weight,
		.output = l->output,
		.op = l->node ? l->node->op->name : "Linear",
		.role = qn_role_name(l->role),
		.why = l->why,
		.block = l->block,
		.cross = l->cross,
		.rank = l->rank,
		.type = qn_dtype_name(l->stored_type),
		.not_q4 = l->not_q4,
		.weight_bits = l->weight_bits,
		.act_bits = l->act_bits,
		.form = qn_form_name(l->form),
		.origin = qn_origin_name(l->origin),
		.reason = l->reason,
		.act_reason = l->act_reason,
		.rounding = l->rounding,
		.rounding_note = l->rounding_note,
		.stored_bytes = l->bytes,
		.n_parts = l->n_parts};
	int64_t count = 1;
	for (int k = 0; k < l->rank; k++)
		count *= out->shape[k] = l->shape[k];
	size_t bytes = 0;
	qn_dtype_bytes(l->stored_type, count, &bytes);
	out->bytes = bytes;
}

void quern_model_part(const quern_model *m, size_t layer, int part, quern_part *out)
{
	const qn_part *p = &m->plan.layers[layer].parts[part];
	*out = (quern_part){qn_role_name(p->role), p->rows, p->n, p->weight_bits};
}

size_t quern_model_attentions(const quern_model *m) { return m->plan.n_attentions; }

void quern_model_attention(const quern_model *m, size_t i, quern_attention *out)
{
	static const char *const masks[] = {"none", "added", "where", "both"};
	const qn_attention *a = &m->plan.attentions[i];
	*out = (quern_attention){a->name, a->block, a->cross, a->heads, a->rotary, masks[a->mask_added + 2 * a->mask_where], a->position_bias};
}

size_t quern_model_equalizations(const quern_model *m) { return m->plan.n_equalizations; }

void quern_model_equalization(const quern_model *m, size_t i, quern_equalization *out)
{
	const qn_equalization *e = &m->plan.equalizations[i];
	*out = (quern_equalization){e->tensor, e->source, e->layers, e->why, isnan(e->error) ? -1 : e->error};
}

uint64_t quern_model_other_bytes(const quern_model *m) { return m->plan.other_bytes; }

const char *quern_model_dump(quern_model *m)
{
	qn_text t = {.arena = &m->arena};
	qn_graph_dump(m->graph, &t);
	return t.s ? t.s : "";
}

qn_status qn_model_quantize(quern_model *m)
{
	if (m->compiled)
		QN_FAIL(m->ctx, QUERN_ERR_CONFIG, "a model can be compiled once; load it again");
	m->compiled = true;
	qn_pass_env env = {.ctx = m->ctx, .plan = &m->plan};
	if (m->config->calib_path)
		QN_TRY(qn_samples_open(m->graph, m->config->calib_path, &m->arena, &env.samples));
	return qn_pipeline_run(m->graph, &env, AFTER_LOAD, NULL);
}

static qn_status compile(quern_model *m, const char *path, qn_arena *a, quern_summary *summary)
{
	qn_archive *ar;
	const char *allocation, *written;
	qn_report *report;
	QN_TRY(qn_model_can_save_bits(m, a));
	QN_TRY(qn_report_can_write(m->ctx, a, m->config->report_path));
	const qn_result_file files[] = {{"the archive", path, NULL}, {"the allocation file", m->config->save_path, NULL}, {"the report", m->config->report_path, NULL}};
	QN_TRY(qn_result_files_differ(m->ctx, a, files, QN_LEN(files)));
	QN_TRY(qn_archive_create(m->ctx, a, path, &ar)); /* first: a path that cannot be written is known before hours of work */
	QN_TRY(qn_model_quantize(m));
	QN_TRY(qn_report_of_compile(m, "compile", a, &report));
	QN_TRY(qn_emit_graph(m->ctx, m->graph, m->config->target, ar));
	QN_TRY(qn_model_save_bits(m, a, &allocation));
	QN_TRY(qn_archive_finish(ar)); /* its size is known; whatever fails from here to the commit leaves an older archive as it was */
	QN_TRY(qn_report_save(m, a, report, path, qn_archive_bytes(ar), &written));
	QN_TRY(qn_archive_commit(ar));
	QN_TRY(qn_model_saved_bits(m, allocation));
	QN_TRY(qn_report_saved(m, written));
	if (summary) {
		*summary = (quern_summary){.model_bytes = m->weight_bytes, .archive_bytes = qn_archive_bytes(ar)};
		for (size_t i = 0; i < m->plan.n; i++)
			summary->fallbacks += m->plan.layers[i].reason != NULL;
	}
	return QUERN_OK;
}

quern_status quern_compile(quern_model *m, const char *path, quern_summary *summary)
{
	qn_arena a;
	qn_arena_init(&a, m->ctx);
	jmp_buf buf, *saved = m->ctx->on_memory;
	qn_status status;
	m->ctx->on_memory = &buf;
	if (setjmp(buf))
		status = qn_fail(m->ctx, QUERN_ERR_MEMORY, "out of memory while compiling");
	else
		status = compile(m, path, &a, summary);
	qn_arena_release(&a);
	m->ctx->on_memory = saved;
	return status;
}
