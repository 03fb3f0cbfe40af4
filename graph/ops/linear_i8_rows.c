#include "graph/ops/_gemm.h"
#include "graph/ops/_linear.h"

static int limbs(const qn_node *n)
{
	return (int)qn_node_int(n, "limbs", 2);
}

static qn_status infer(qn_call *c)
{
	if (limbs(c->node) != 1 && limbs(c->node) != 2)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "limbs is %d, it can be 1 or 2", limbs(c->node));
	if (c->in[1].type != QN_I8 || c->in[2].type != QN_F32 || c->in[2].shape.rank != 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "weight of type %s and scale of type %s and rank %d, they must be i8 and f32 of rank 1",
			qn_dtype_name(c->in[1].type), qn_dtype_name(c->in[2].type), c->in[2].shape.rank);
	QN_TRY(qn_linear_infer(c, 3));
	return qn_call_equate(c, c->in[2].shape.dim[0], c->in[1].shape.dim[0], "the scale and the rows of the weight");
}

static float range_of(const qn_node *n)
{
	return qn_rows_range(limbs(n) == 2 ? 16 : (int)qn_node_int(n, "act_bits", 8));
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *tx = c->x[0], *w = c->x[1];
	const float *x = tx->data, *scale = c->x[2]->data, *bias = c->node->n_in > 3 && c->x[3] ? c->x[3]->data : NULL;
	int64_t n = w->dim[0], k = w->dim[1], rows = 1;
	for (int i = 0; i + 1 < tx->rank; i++)
		rows *= tx->dim[i];
	bool two = limbs(c->node) == 2;
	float *hi = QN_NEW(c->scratch, float, rows * k), *lo = two ? QN_NEW(c->scratch, float, rows * k) : NULL;
	float *unit = QN_NEW(c->scratch, float, rows), *part = QN_NEW(c->scratch, float, rows * n), range = range_of(c->node);
	int32_t *yh = QN_NEW(c->scratch, int32_t, rows * n), *yl = two ? QN_NEW(c->scratch, int32_t, rows * n) : NULL;
	const float *wf = qn_tensor_f32(c->scratch, w);
	int threads = qn_threads_for(c->threads, (double)(rows * k));
#pragma omp parallel for num_threads(threads) if (threads > 1)
	for (int64_t r = 0; r < rows; r++)
		unit[r] = qn_rows_split(x + r * k, k, range, hi + r * k, two ? lo + r * k : NULL);
	qn_gemm g = {.type = QN_F32, .tb = true, .m = rows, .n = n, .k = k, .lda = k, .ldb = k, .ldc = n, .batch = 1};
	qn_gemm_small_ints(&g, c->threads, hi, 128, wf, 128, part, yh);
	if (two)
		qn_gemm_small_ints(&g, c->threads, lo, 128, wf, 128, part, yl);
	qn_linear_from_sums(c, &(qn_linear_sums){yh, yl, scale, unit, bias, rows, n}, QN_OUT(c, 0, float));
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	const qn_node *n = e->node;
	int rank = n->in[0]->fact.shape.rank;
	bool two = limbs(n) == 2;
	const char *w = qn_emit_ranked(e, n->in[1], 2), *x = qn_emit_ranked(e, n->in[0], rank);
	float range = range_of(n);
	const char *m, *v = qn_rows_emit_steps(e, x, rank, range, &m), *y;
	if (two) {
		const char *hi = qn_emit_temp(e, "hi", "floor((%s + 128.0) * 0.00390625)", v);
		const char *lo = qn_emit_temp(e, "lo", "%s - %s * 256.0", v, hi);
		const char *qh = qn_emit_temp(e, "hi8", "tract_core_cast(%s, to='i8')", hi);
		const char *ql = qn_emit_temp(e, "lo8", "tract_core_cast(%s, to='i8')", lo);
		const char *yh = qn_emit_temp(e, "yh", "%s", qn_linear_einsum(e, qh, rank, w, "i32"));
		const char *yl = qn_emit_temp(e, "yl", "%s", qn_linear_einsum(e, ql, rank, w, "i32"));
		y = qn_emit_temp(e, "sum", "tract_core_cast(%s, to='f32') * 256.0 + tract_core_cast(%s, to='f32')", yh, yl);
	} else {
		const char *q = qn_emit_temp(e, "q8", "tract_core_cast(%s, to='i8')", v);
		const char *yq = qn_emit_temp(e, "yq", "%s", qn_linear_einsum(e, q, rank, w, "i32"));
		y = qn_emit_temp(e, "sum", "tract_core_cast(%s, to='f32')", yq);
	}
	const char *bias = qn_node_has_in(n, 3) ? qn_arena_printf(e->arena, " + %s", qn_emit_ranked(e, n->in[3], rank)) : "";
	qn_emit_output(e, 0, "%s * (%s * %s) * %s%s", y, m, qn_emit_float(e, 1.0f / range), qn_emit_ranked(e, n->in[2], rank), bias);
	return QUERN_OK;
}

/* x f32 [..., K]; w constant i8 [N, K]; scale f32 [N]; bias f32 [N] or absent. The activation becomes integers with a scale a row,
 * taken at run time: two i8 limbs (16 bits), or one with limbs=1, of act_bits (8) levels. */
const qn_op qn_op_linear_i8_rows = {
	.name = "LinearI8Rows", .hint = QN_HINT_CONTRACTION, .weight_input = 2, .domain = "quern", .min_in = 3, .max_in = 4,
	.infer = infer, .eval = eval, .emit = emit};
