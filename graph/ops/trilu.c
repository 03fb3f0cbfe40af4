/* trilu.c - keeps one triangle of the last two axes, zeros elsewhere. */
#include "graph/ops/_move.h"

static qn_status find_k(qn_call *c, bool *known, qn_dim *k)
{
	const qn_dim *d = NULL;
	int n = 1;
	*k = qn_dim_const(0);
	*known = true;
	if (!qn_call_has(c, 1))
		return QUERN_OK;
	QN_TRY(qn_call_dims(c, 1, &d, &n));
	*known = n >= 0;
	if (n == 1)
		*k = d[0];
	else if (n >= 0)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "k is not a scalar");
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	if (c->in[0].shape.rank < 2)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the input has rank %d, less than 2", c->in[0].shape.rank);
	return qn_infer_same(c);
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0];
	bool known, upper = qn_node_int(c->node, "upper", 1) != 0;
	qn_dim k;
	QN_TRY(find_k(c, &known, &k));
	if (!known || !qn_dim_is_const(k)) {
		c->undecided = true;
		return QUERN_OK;
	}
	int64_t rows = x->dim[x->rank - 2], cols = x->dim[x->rank - 1], count = cols ? qn_tensor_count(x) / cols : 0;
	size_t elem = qn_dtype_size(x->type);
	const char *from = x->data;
	char *to = QN_OUT(c, 0, char);
	for (int64_t r = 0; r < count; r++) {
		/* columns before `edge` are below the diagonal */
		int64_t row = r % rows, edge;
		if (__builtin_add_overflow(row, k.k, &edge))
			edge = k.k > 0 ? cols : 0;
		edge = !upper && edge < INT64_MAX ? edge + 1 : edge;
		edge = edge < 0 ? 0 : edge > cols ? cols : edge;
		int64_t begin = upper ? edge : 0, n = upper ? cols - edge : edge;
		if (n > 0)
			memcpy(to + (size_t)(r * cols + begin) * elem, from + (size_t)(r * cols + begin) * elem, (size_t)n * elem);
	}
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	bool known;
	qn_dim k;
	QN_TRY(find_k(&c, &known, &k));
	const char *diagonal = known ? qn_emit_dim(e, k) : qn_emit_ref(e, e->node->in[1]);
	if (!known && c.in[1].shape.rank == 1)
		diagonal = qn_arena_printf(e->arena, "squeeze(%s, axes=[0])", diagonal);
	qn_emit_output(e, 0, "tract_core_trilu(%s, k=%s, upper=%s)", qn_emit_ref(e, e->node->in[0]), diagonal,
		qn_node_int(e->node, "upper", 1) ? "true" : "false");
	return QUERN_OK;
}

const qn_op qn_op_trilu = {.name = "Trilu",
	.also = "com.microsoft:Trilu",
	.since = 1,
	.min_in = 1,
	.max_in = 2,
	.dims_in = 1,
	.infer = infer,
	.eval = eval,
	.emit = emit};
