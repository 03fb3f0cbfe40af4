#include "graph/ops/_pool.h"

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_pool_infer(c));
	if (c->node->n_out > 1)
		c->out[1] = (qn_fact){QN_I64, c->out[0].shape, NULL};
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	return qn_pool_eval(c, QN_POOL_MAX);
}

/* The engine counts within a plane, ONNX through the whole tensor: the start of each plane is added. */
static qn_status emit_indices(qn_emit *e, const char *x, const char *window)
{
	const qn_node *n = e->node;
	const qn_shape *s = &n->in[0]->fact.shape;
	if (qn_node_int(n, "storage_order", 0))
		return qn_emit_fail(e, "indices in column-major order are not expressible");
	qn_dim plane = qn_dim_const(1), unit[QN_MAX_RANK];
	for (int i = 0; i < s->rank; i++)
		unit[i] = i < 2 ? s->dim[i] : qn_dim_const(1);
	for (int i = 2; i < s->rank; i++)
		plane = qn_dim_mul(e->graph->dims, plane, s->dim[i]);
	if (!qn_dim_is_const(plane))
		return qn_emit_fail(e, "indices depend on the size of the input: bind the symbol with --set");
	int64_t one[QN_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
	qn_tensor *size = qn_tensor_new(e->arena, QN_I64, s->rank, one);
	qn_tensor_set((void *)(uintptr_t)size->data, QN_I64, 0, (double)plane.k);
	qn_shape starts = {.rank = s->rank};
	memcpy(starts.dim, unit, sizeof starts.dim);
	const char *count = qn_emit_dim(e, qn_dim_mul(e->graph->dims, s->dim[0], s->dim[1]));
	const char *range = qn_emit_temp(e, "planes", "tract_core_cast(tract_core_range(0, %s, 1), to='i64')", count);
	range = qn_emit_temp(e, "plane", "reshape(%s, shape=%s)", range, qn_emit_shape(e, &starts));
	const char *start = qn_emit_temp(e, "start", "%s * %s", range, qn_emit_constant(e, "plane_size", size));
	const char *index = qn_emit_temp(e, "index", "max_pool_index(%s, %s)", x, window);
	qn_emit_fragment(e, "max_pool_index",
		"fragment max_pool_index(input: tensor<scalar>, size: integer[], stride: integer[], dilation: integer[], "
		"padding: (integer, integer)[]) -> (index: tensor<integer>)\n{\n\tvalue, index = max_pool_with_index(input, size = size, "
		"border = 'ignore', padding = padding, stride = stride, dilation = dilation);\n}\n");
	qn_emit_output(e, 1, "%s + %s", index, start);
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	const qn_node *n = e->node;
	int rank = n->in[0]->fact.shape.rank;
	const char *window, *x = qn_emit_ranked(e, n->in[0], rank);
	QN_TRY(qn_pool_window(e, &window));
	if (qn_node_has_out(n, 0))
		qn_emit_output(e, 0, "max_pool(%s, %s, border='ignore')", x, window);
	return qn_node_has_out(n, 1) ? emit_indices(e, x, window) : QUERN_OK;
}

const qn_op qn_op_max_pool = {.name = "MaxPool", .min_in = 1, .max_in = 1, .max_out = 2, .infer = infer, .eval = eval, .emit = emit};
