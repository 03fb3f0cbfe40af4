#include "graph/ops/_act.h"
#include "graph/ops/_gemm.h"

static qn_status infer(qn_call *c)
{
	if (c->in[0].type != QN_F32)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the activation is of type %s, it must be f32", qn_dtype_name(c->in[0].type));
	QN_TRY(qn_act_check(c, qn_act_get(c->node), 8));
	return qn_infer_same(c);
}

static qn_status eval(qn_call *c)
{
	const float *x = c->x[0]->data;
	float *y = QN_OUT(c, 0, float), low, high;
	qn_act a = qn_act_get(c->node);
	qn_act_bounds(a, &low, &high);
	bool clamps = a.bits < 8;
	float scale = a.scale, zero = (float)a.zero_point;
	int64_t n = qn_tensor_count(c->x[0]);
	int threads = qn_threads_for(c->threads, (double)n);
#pragma omp parallel for num_threads(threads) if (threads > 1)
	for (int64_t i = 0; i < n; i++) {
		float v = x[i];
		if (clamps)
			v = v > high ? high : v < low ? low : v;
		y[i] = (qn_act_code(v, scale, zero) - zero) * scale;
	}
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	qn_act a = qn_act_get(e->node);
	const char *x = qn_act_emit_clamp(e, qn_emit_ref(e, e->node->in[0]), a, 8);
	qn_emit_output(e, 0, "tract_core_cast(%s, to='f32')", qn_act_emit_cast(e, "q8", x, a.scale, a.zero_point));
	return QUERN_OK;
}

/* x f32; attributes act_scale, act_zero_point, act_bits (1..8). What is left of x after a round trip through 8-bit integers. Unary, as the
 * engine treats its casts: it moves views across them. */
const qn_op qn_op_fake_quant = {
	.name = "FakeQuant", .domain = "quern", .min_in = 1, .max_in = 1, .traits = QN_ELEMENTWISE, .infer = infer, .eval = eval, .emit = emit};
