#include "graph/ops/_act.h"
#include "graph/ops/_gemm.h"
#include "graph/ops/_linear.h"

static bool two_limbs(qn_act a) { return a.bits > 8; }

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_act_check(c, qn_act_get(c->node), 16));
	if (c->in[1].type != QN_I8 || c->in[2].type != QN_F32 || c->in[2].shape.rank != 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "weight of type %s and scale of type %s and rank %d, they must be i8 and f32 of rank 1",
			qn_dtype_name(c->in[1].type), qn_dtype_name(c->in[2].type), c->in[2].shape.rank);
	QN_TRY(qn_linear_infer(c, 3));
	return qn_call_equate(c, c->in[2].shape.dim[0], c->in[1].shape.dim[0], "the scale and the rows of the weight");
}

/* The codes of n elements as floats; lo NULL: one limb. */
static void split(const float *x, int64_t n, qn_act a, float *hi, float *lo)
{
	float low, high, zero = (float)(lo ? qn_act_high_zero(a.zero_point) : a.zero_point), unit = lo ? a.scale * 256.0f : a.scale;
	qn_act_bounds(a, &low, &high);
	bool clamps = a.bits < (lo ? 16 : 8);
	for (int64_t i = 0; i < n; i++) {
		float v = x[i];
		if (clamps)
			v = v > high ? high : v < low ? low : v;
		hi[i] = qn_act_code(v, unit, zero);
		if (lo)
			lo[i] = qn_act_code(v - (hi[i] - zero) * unit, a.scale, 0);
	}
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *tx = c->x[0], *w = c->x[1];
	const float *x = tx->data, *bias = c->node->n_in > 3 && c->x[3] ? c->x[3]->data : NULL;
	int64_t n = w->dim[0], k = w->dim[1], rows = 1;
	for (int i = 0; i + 1 < tx->rank; i++)
		rows *= tx->dim[i];
	qn_act a = qn_act_get(c->node);
	bool two = two_limbs(a);
	float *hi = QN_NEW(c->scratch, float, rows * k), *lo = two ? QN_NEW(c->scratch, float, rows * k) : NULL;
	float *part = QN_NEW(c->scratch, float, rows * n);
	int32_t *yh = QN_NEW(c->scratch, int32_t, rows * n), *yl = two ? QN_NEW(c->scratch, int32_t, rows * n) : NULL;
	const float *wf = qn_tensor_f32(c->scratch, w);
	int threads = qn_threads_for(c->threads, (double)(rows * k));
#pragma omp parallel for num_threads(threads) if (threads > 1)
	for (int64_t r = 0; r < rows; r++)
		split(x + r * k, k, a, hi + r * k, two ? lo + r * k : NULL);
	qn_gemm g = {.type = QN_F32, .tb = true, .m = rows, .n = n, .k = k, .lda = k, .ldb = k, .ldc = n, .batch = 1};
	qn_gemm_small_ints(&g, c->threads, hi, 128, wf, 128, part, yh);
	if (two)
		qn_gemm_small_ints(&g, c->threads, lo, 128, wf, 128, part, yl);
	qn_linear_from_sums(c, &(qn_linear_sums){yh, yl, c->x[2]->data, NULL, bias, rows, n}, QN_OUT(c, 0, float));
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	const qn_node *n = e->node;
	int rank = n->in[0]->fact.shape.rank;
	qn_act a = qn_act_get(n);
	bool two = two_limbs(a);
	const char *w = qn_emit_ranked(e, n->in[1], 2), *y;
	const char *x = qn_act_emit_clamp(e, qn_emit_ranked(e, n->in[0], rank), a, two ? 16 : 8);
	if (two) {
		const char *hi = qn_act_emit_cast(e, "hi8", x, a.scale * 256.0f, qn_act_high_zero(a.zero_point));
		const char *rest = qn_emit_temp(e, "rest", "%s - tract_core_cast(%s, to='f32')", x, hi);
		const char *lo = qn_act_emit_cast(e, "lo8", rest, a.scale, 0);
		const char *yh = qn_emit_temp(e, "yh", "%s", qn_linear_einsum(e, hi, rank, w, "i32"));
		const char *yl = qn_emit_temp(e, "yl", "%s", qn_linear_einsum(e, lo, rank, w, "i32"));
		y = qn_emit_temp(e, "sum", "tract_core_cast(%s, to='f32') * 256.0 + tract_core_cast(%s, to='f32')", yh, yl);
	} else {
		const char *q = qn_act_emit_cast(e, "q8", x, a.scale, a.zero_point);
		const char *yq = qn_emit_temp(e, "yq", "%s", qn_linear_einsum(e, q, rank, w, "i32"));
		y = qn_emit_temp(e, "sum", "tract_core_cast(%s, to='f32')", yq);
	}
	const char *bias = qn_node_has_in(n, 3) ? qn_arena_printf(e->arena, " + %s", qn_emit_ranked(e, n->in[3], rank)) : "";
	qn_emit_output(e, 0, "%s * %s%s", y, qn_emit_ranked(e, n->in[2], rank), bias);
	return QUERN_OK;
}

/* x f32 [..., K]; w constant i8 [N, K]; scale f32 [N], what a unit of the integer product is worth; bias f32 [N] or absent. Attributes
 * act_scale, act_zero_point, act_bits (1..16). The activation becomes integers with one scale known ahead: one i8 limb up to 8 bits, two above. The
 * engine's products take the codes as they are, so what the zero point (qn_act_high_zero in 256ths over 8 bits) adds to every product is to be
 * taken off in the bias. */
const qn_op qn_op_linear_i8 = {
	.name = "LinearI8", .hint = QN_HINT_CONTRACTION, .weight_input = 2, .domain = "quern", .min_in = 3, .max_in = 4,
	.infer = infer, .eval = eval, .emit = emit};
