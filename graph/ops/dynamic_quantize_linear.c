#include "graph/ops/_quant.h"
#include <math.h>

static qn_status infer(qn_call *c)
{
	if (c->in[0].type != QN_F32)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "input of type %s, it must be f32", qn_dtype_name(c->in[0].type));
	c->out[0] = (qn_fact){QN_U8, c->in[0].shape, NULL};
	if (c->node->n_out > 1)
		c->out[1] = (qn_fact){QN_F32, {0, {{0}}}, NULL};
	if (c->node->n_out > 2)
		c->out[2] = (qn_fact){QN_U8, {0, {{0}}}, NULL};
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	const float *x = c->x[0]->data;
	int64_t n = qn_tensor_count(c->x[0]);
	float low = 0, high = 0;
	for (int64_t i = 0; i < n; i++) {
		low = x[i] < low ? x[i] : low;
		high = x[i] > high ? x[i] : high;
	}
	float scale = (high - low) / 255.0f;
	scale = scale > 0 ? scale : 1.0f; /* all zero: any scale will do */
	float zero = nearbyintf(fminf(fmaxf(-low / scale, 0), 255));
	uint8_t *y = QN_OUT(c, 0, uint8_t);
	for (int64_t i = 0; y && i < n; i++)
		y[i] = (uint8_t)qn_quantize(x[i], scale, (int64_t)zero, 0, 255);
	if (qn_call_wants(c, 1))
		*QN_OUT(c, 1, float) = scale;
	if (qn_call_wants(c, 2))
		*QN_OUT(c, 2, uint8_t) = (uint8_t)zero;
	return QUERN_OK;
}

/* The engine divides by multiplying with a reciprocal; in f64 the quotient still rounds to the f32 one, which ties here depend on. */
static const char *quotient(qn_emit *e, const char *a, const char *b)
{
	const char *wide = qn_emit_temp(e, "wide", "tract_core_cast(%s, to='f64')", a);
	const char *by = qn_emit_temp(e, "by", "tract_core_cast(%s, to='f64')", b);
	return qn_emit_temp(e, "quotient", "tract_core_cast(%s, to='f32')", qn_emit_temp(e, "ratio", "%s / %s", wide, by));
}

static qn_status emit(qn_emit *e)
{
	const qn_node *n = e->node;
	int rank = n->in[0]->fact.shape.rank;
	int64_t axes[QN_MAX_RANK];
	for (int i = 0; i < rank; i++)
		axes[i] = i;
	const char *x = qn_emit_ranked(e, n->in[0], rank), *all = qn_emit_ints(e, axes, rank);
	const char *high = x, *low = x;
	int64_t one[QN_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
	qn_tensor *levels = qn_tensor_new(e->arena, QN_F32, rank, one);
	*(float *)(uintptr_t)levels->data = 255;
	if (rank) {
		high = qn_emit_temp(e, "high", "max_reduce(%s, axes=%s)", x, all);
		low = qn_emit_temp(e, "low", "min_reduce(%s, axes=%s)", x, all);
	}
	low = qn_emit_temp(e, "under", "min(%s, 0.0)", low);
	const char *span = qn_emit_temp(e, "span", "max(%s, 0.0) - %s", high, low);
	const char *step = quotient(e, span, qn_emit_constant(e, "steps", levels));
	const char *scale = qn_emit_temp(e, "scale", "select(gt(%s, 0.0), %s, 1.0)", span, step);
	const char *zero = qn_emit_temp(e, "shift", "tract_core_round_even(max(min(0.0 - %s, 255.0), 0.0))", quotient(e, low, scale));
	if (qn_node_has_out(n, 0)) {
		const char *y = qn_emit_temp(e, "steps", "tract_core_round_even(%s) + %s", quotient(e, x, scale), zero);
		qn_emit_output(e, 0, "tract_core_cast(%s, to='u8')", y);
	}
	if (qn_node_has_out(n, 1))
		qn_emit_output(e, 1, "squeeze(%s, axes=%s)", scale, all);
	if (qn_node_has_out(n, 2))
		qn_emit_output(e, 2, "tract_core_cast(%s, to='u8')", qn_emit_temp(e, "zero", "squeeze(%s, axes=%s)", zero, all));
	return QUERN_OK;
}

const qn_op qn_op_dynamic_quantize_linear = {
	.name = "DynamicQuantizeLinear", .since = 11, .min_in = 1, .max_in = 1, .max_out = 3, .infer = infer, .eval = eval, .emit = emit};
