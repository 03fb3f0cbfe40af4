/* eye_like.c - ones on a diagonal of a matrix as large as the input, zeros elsewhere. */
#include "graph/ops/_move.h"

static void set_diagonal(void *data, qn_dtype type, int64_t rows, int64_t cols, int64_t k)
{
	for (int64_t r = k < 0 ? (k <= -rows ? rows : -k) : 0; r < rows && r < cols - k; r++)
		qn_tensor_set(data, type, r * cols + r + k, 1);
}

/* ONNX's numbers of element types. */
static qn_status find_type(qn_call *c, qn_dtype *type)
{
	static const qn_dtype types[] = {[1] = QN_F32,
		[2] = QN_U8,
		[3] = QN_I8,
		[4] = QN_U16,
		[5] = QN_I16,
		[6] = QN_I32,
		[7] = QN_I64,
		[9] = QN_BOOL,
		[10] = QN_F16,
		[11] = QN_F64,
		[12] = QN_U32,
		[13] = QN_U64,
		[16] = QN_BF16};
	int64_t n = qn_node_int(c->node, "dtype", 0);
	*type = n == 0 ? c->in[0].type : n > 0 && n < (int64_t)QN_LEN(types) ? types[n] : QN_NONE;
	if (*type == QN_NONE)
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "element type %lld is not supported", (long long)n);
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	const qn_shape *s = &c->in[0].shape;
	if (s->rank != 2)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the input has rank %d, not 2", s->rank);
	QN_TRY(find_type(c, &c->out[0].type));
	c->out[0].shape = *s;
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	int64_t k = qn_node_int(c->node, "k", 0), rows = c->y[0].dim[0], cols = c->y[0].dim[1];
	if (k < cols && k > -rows)
		set_diagonal(QN_OUT(c, 0, void), c->y[0].type, rows, cols, k);
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	long long k = (long long)qn_node_int(e->node, "k", 0);
	qn_dtype type = e->node->out[0]->fact.type;
	const char *ones =
		qn_arena_printf(e->arena, "tract_core_broadcast([[1.0]], shape=%s)", qn_emit_shape(e, &e->node->out[0]->fact.shape));
	const char *eye =
		qn_arena_printf(e->arena, "tract_core_trilu(tract_core_trilu(%s, k=%lld, upper=true), k=%lld, upper=false)", ones, k, k);
	if (type == QN_F32)
		qn_emit_output(e, 0, "%s", eye);
	else
		qn_emit_output(e, 0, "tract_core_cast(%s, to='%s')", eye, qn_emit_dtype(type));
	return QUERN_OK;
}

const qn_op qn_op_eye_like = {.name = "EyeLike", .since = 9, .min_in = 1, .max_in = 1, .infer = infer, .eval = eval, .emit = emit};
