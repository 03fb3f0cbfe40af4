/* describe.c - the public calls that say what an archive holds. */
#include "graph/names.h"
#include "passes/context.h"
#include "passes/nnef/archive_scan.h"
#include "passes/nnef/dat.h"
#include "passes/nnef/nnef_text.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct variable {
	const char *label;
	qn_dat dat;
	bool used;
} variable;

struct quern_archive {
	qn_ctx *ctx;
	qn_arena arena;
	variable *variables;
	size_t n, cap;
	const char *text; /* graph.nnef */
	qn_nnef_text graph;
};

static qn_status see_member(void *user, const char *name, const void *data, size_t n, uint64_t bytes)
{
	quern_archive *ar = user;
	size_t length = strlen(name);
	if (!strcmp(name, "graph.nnef")) {
		if (ar->text)
			QN_FAIL(ar->ctx, QUERN_ERR_FORMAT, "it is there twice");
		if (memchr(data, '\0', n))
			QN_FAIL(ar->ctx, QUERN_ERR_FORMAT, "it is no text");
		ar->text = qn_arena_strndup(&ar->arena, data, n);
		return QUERN_OK;
	}
	if (length <= 4 || strcmp(name + length - 4, ".dat"))
		return QUERN_OK; /* graph.quant, and what other programs add */
	variable v = {.label = qn_arena_strndup(&ar->arena, name, length - 4)};
	QN_TRY(qn_dat_header(ar->ctx, v.label, data, n, bytes, &v.dat));
	QN_GROW(&ar->arena, ar->variables, ar->n, ar->cap);
	ar->variables[ar->n++] = v;
	return QUERN_OK;
}

static int by_label(const void *a, const void *b) { return strcmp(((const variable *)a)->label, ((const variable *)b)->label); }

static qn_status check_labels(quern_archive *ar, const char *path)
{
	qn_names *known = qn_names_new(&ar->arena);
	for (size_t i = 0; i < ar->n; i++) {
		if (qn_names_get(known, ar->variables[i].label))
			QN_FAIL(ar->ctx, QUERN_ERR_FORMAT, "archive '%s' has two members '%s.dat'", path, ar->variables[i].label);
		qn_names_put(known, ar->variables[i].label, &ar->variables[i]);
	}
	for (size_t i = 0; i < ar->graph.n_labels; i++) {
		const char *label = ar->graph.labels[i];
		while (*label == '/') /* as the engine reads it */
			label++;
		variable *v = qn_names_get(known, label);
		if (!v)
			QN_FAIL(ar->ctx, QUERN_ERR_FORMAT, "archive '%s': graph.nnef declares variable '%s', but '%s.dat' is missing", path,
				label, label);
		v->used = true;
	}
	return QUERN_OK;
}

static qn_status open_archive(quern_archive *ar, const char *path)
{
	QN_TRY(qn_archive_scan(ar->ctx, &ar->arena, path, QN_DAT_HEADER, see_member, ar));
	if (!ar->text)
		QN_FAIL(ar->ctx, QUERN_ERR_FORMAT, "'%s' holds no graph.nnef", path);
	if (ar->n)
		qsort(ar->variables, ar->n, sizeof *ar->variables, by_label);
	qn_status st = qn_nnef_text_read(ar->ctx, &ar->arena, ar->text, &ar->graph);
	if (st != QUERN_OK)
		return qn_prefix(ar->ctx, st, "archive '%s'", path);
	return check_labels(ar, path);
}

/* An exhausted heap unwinds to here. */
static qn_status open_guarded(quern_archive *ar, const char *path)
{
	QN_ENTER(ar->ctx, saved, buf);
	qn_status st = open_archive(ar, path);
	QN_LEAVE(ar->ctx, saved);
	return st;
}

static quern_archive *allocate(qn_ctx *ctx)
{
	quern_archive *ar = ctx->alloc ? ctx->alloc(ctx->alloc_user, NULL, 0, sizeof *ar) : malloc(sizeof *ar);
	if (!ar)
		return NULL;
	*ar = (quern_archive){.ctx = ctx};
	qn_arena_init(&ar->arena, ctx);
	return ar;
}

quern_status quern_archive_open(quern_context *c, const char *path, quern_archive **archive)
{
	qn_ctx *ctx = &c->ctx;
	*archive = allocate(ctx);
	if (!*archive)
		QN_FAIL(ctx, QUERN_ERR_MEMORY, "out of memory");
	qn_status st = open_guarded(*archive, path);
	if (st != QUERN_OK) {
		quern_archive_free(*archive);
		*archive = NULL;
	}
	return st;
}

void quern_archive_free(quern_archive *ar)
{
	if (!ar)
		return;
	qn_ctx *ctx = ar->ctx;
	qn_arena_release(&ar->arena);
	if (ctx->alloc)
		ctx->alloc(ctx->alloc_user, ar, sizeof *ar, 0);
	else
		free(ar);
}

size_t quern_archive_variables(const quern_archive *ar) { return ar->n; }

void quern_archive_variable(const quern_archive *ar, size_t i, quern_variable *out)
{
	const variable *v = &ar->variables[i];
	*out = (quern_variable){.label = v->label, .rank = v->dat.rank, .bytes = v->dat.bytes, .used = v->used};
	out->type = v->dat.packed ? "bool-packed" : v->dat.legacy ? "q4_0-legacy" : qn_dtype_name(v->dat.type);
	for (int k = 0; k < v->dat.rank; k++)
		out->shape[k] = v->dat.dim[k];
}

size_t quern_archive_inputs(const quern_archive *ar) { return ar->graph.n_inputs; }
size_t quern_archive_outputs(const quern_archive *ar) { return ar->graph.n_outputs; }

void quern_archive_input(const quern_archive *ar, size_t i, quern_port *out)
{
	*out = (quern_port){ar->graph.inputs[i].name, ar->graph.inputs[i].definition};
}

void quern_archive_output(const quern_archive *ar, size_t i, quern_port *out)
{
	*out = (quern_port){ar->graph.outputs[i].name, ar->graph.outputs[i].definition};
}

size_t quern_archive_operators(const quern_archive *ar) { return ar->graph.n_operators; }

void quern_archive_operator(const quern_archive *ar, size_t i, quern_operator *out)
{
	*out = (quern_operator){ar->graph.operators[i].name, ar->graph.operators[i].count};
}

size_t quern_archive_symbols(const quern_archive *ar) { return ar->graph.n_symbols; }
const char *quern_archive_symbol(const quern_archive *ar, size_t i) { return ar->graph.symbols[i]; }
const char *quern_archive_graph_name(const quern_archive *ar) { return ar->graph.graph; }
const char *quern_archive_graph_text(const quern_archive *ar) { return ar->text; }
