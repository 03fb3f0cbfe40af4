/* load.c - the loader's entry points. */
#include "graph/onnx.h"
#include "graph/onnx/loader.h"

static void release(void *arena)
{
	qn_arena_release(arena);
}

/* An arena that goes with `a` at the latest, whichever way the load is left. */
static qn_arena *temporary(qn_arena *a)
{
	qn_arena *tmp = QN_NEW(a, qn_arena, 1);
	qn_arena_init(tmp, a->ctx);
	qn_arena_defer(a, release, tmp);
	return tmp;
}

/* Inner names of subgraphs and functions must keep off the names of the model's own values. */
static void reserve_names(qn_loader *ld)
{
	const Qn__GraphProto *g = ld->model->graph;
	ld->taken = qn_names_new(ld->tmp);
	for (size_t i = 0; i < g->n_input; i++)
		qn_names_put(ld->taken, qn_str(g->input[i]->name), ld);
	for (size_t i = 0; i < g->n_initializer; i++)
		qn_names_put(ld->taken, qn_str(g->initializer[i]->name), ld);
	for (size_t i = 0; i < g->n_sparse_initializer; i++)
		if (g->sparse_initializer[i]->values)
			qn_names_put(ld->taken, qn_str(g->sparse_initializer[i]->values->name), ld);
	for (size_t i = 0; i < g->n_node; i++)
		for (size_t k = 0; k < g->node[i]->n_output; k++)
			qn_names_put(ld->taken, g->node[i]->output[k], ld);
}

static qn_status load_model(qn_loader *ld, qn_bytes b, qn_graph **out)
{
	const char *looks = qn_sniff(b);
	if (looks)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "is no ONNX model; it looks like %s", looks);
	QN_TRY(qn_wire_unpack(ld->ctx, ld->tmp, &qn__model_proto__descriptor, b, &ld->lifted, &ld->model));
	QN_TRY(qn_model_versions(ld));
	QN_TRY(qn_functions_collect(ld));
	QN_TRY(qn_survey(ld));
	reserve_names(ld);
	ld->files = qn_names_new(ld->tmp);
	ld->dims = qn_dims_new(ld->a);
	qn_graph *g = qn_graph_new(ld->a, ld->ctx, ld->dims);
	qn_scope *s = qn_scope_new(ld, NULL, g);
	s->is_main = true;
	QN_TRY(qn_graph_build(ld, s, ld->model->graph));
	if (!g->n_outputs)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "the graph has no outputs");
	*out = g;
	return QUERN_OK;
}

static qn_status load_bytes(qn_ctx *ctx, const char *path, qn_bytes b, const char *folder, qn_arena *a, qn_graph **out)
{
	qn_loader ld = {.ctx = ctx, .a = a, .tmp = temporary(a), .folder = folder};
	qn_status status = load_model(&ld, b, out);
	qn_arena_release(ld.tmp);
	return status == QUERN_OK ? status : qn_prefix(ctx, status, "'%s'", path);
}

qn_status qn_onnx_load_bytes(qn_ctx *ctx, const char *path, const void *data, size_t n, const char *folder, qn_arena *a, qn_graph **out)
{
	return load_bytes(ctx, path, (qn_bytes){n ? data : "", n}, folder, a, out);
}

qn_status qn_onnx_load(qn_ctx *ctx, const char *path, qn_arena *a, qn_graph **out)
{
	qn_bytes b;
	qn_status status = qn_file_map(ctx, a, path, &b);
	if (status != QUERN_OK)
		return qn_prefix(ctx, status, "'%s'", path);
	const char *slash = strrchr(path, '/');
	const char *folder = !slash ? "." : slash == path ? "/" : qn_arena_strndup(a, path, (size_t)(slash - path));
	return load_bytes(ctx, path, b, folder, a, out);
}

static qn_status load_tensor(qn_loader *ld, const char *path, qn_tensor **out, const char **name)
{
	qn_bytes b;
	QN_TRY(qn_file_map(ld->ctx, ld->tmp, path, &b));
	if (!b.n)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "is empty; only tensors are read");
	Qn__TensorProto *t;
	QN_TRY(qn_wire_unpack(ld->ctx, ld->tmp, &qn__tensor_proto__descriptor, b, &ld->lifted, &t));
	/* field 3 of a SequenceProto or an OptionalProto holds its tensors, where a TensorProto has the segment that nobody writes */
	if (t->segment)
		QN_FAIL(ld->ctx, QUERN_ERR_UNSUPPORTED, "is a sequence, an optional or a part of a tensor; only whole tensors are read");
	const qn_tensor *data;
	QN_TRY(qn_payload_tensor(ld, qn_arena_printf(ld->tmp, "tensor '%s'", qn_str(t->name)), t, &data));
	qn_tensor *y = qn_tensor_new(ld->a, data->type, data->rank, data->dim);
	if (qn_tensor_bytes(y))
		memcpy((void *)(uintptr_t)y->data, data->data, qn_tensor_bytes(y));
	*out = y;
	*name = qn_arena_strdup(ld->a, qn_str(t->name));
	return QUERN_OK;
}

qn_status qn_onnx_tensor_file(qn_ctx *ctx, const char *path, qn_arena *a, qn_tensor **out, const char **name)
{
	qn_loader ld = {.ctx = ctx, .a = a, .tmp = temporary(a)};
	qn_status status = load_tensor(&ld, path, out, name);
	qn_arena_release(ld.tmp);
	return status == QUERN_OK ? status : qn_prefix(ctx, status, "'%s'", path);
}
