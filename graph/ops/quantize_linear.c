#include "graph/ops/_quant.h"

/* From the zero point, else from output_dtype, else u8; QN_NONE where those contradict each other or hold no quantized values. */
static qn_dtype target(const qn_node *n, qn_dtype zero)
{
	int64_t number = qn_node_int(n, "output_dtype", 0), low, high;
	qn_dtype asked = qn_quant_output_type(number), t = zero != QN_NONE ? zero : number ? asked : QN_U8;
	if (number && asked != t)
		return QN_NONE;
	return (qn_quant_range(t, &low, &high) && t != QN_I32) || qn_quant_is_float(t) ? t : QN_NONE;
}

static qn_status infer(qn_call *c)
{
	qn_dtype zero = qn_call_has(c, 2) ? c->in[2].type : QN_NONE;
	c->out[0].type = target(c->node, zero);
	if (c->out[0].type == QN_NONE)
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "a zero point of type %s with output_dtype %lld", qn_dtype_name(zero),
			(long long)qn_node_int(c->node, "output_dtype", 0));
	if (!qn_dtype_is_float(c->in[0].type) && c->in[0].type != QN_I32)
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "input of type %s", qn_dtype_name(c->in[0].type));
	c->out[0].shape = c->in[0].shape;
	return qn_blocks_infer(c);
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *zero = c->node->n_in > 2 ? c->x[2] : NULL;
	int64_t low = 0, high = 0, n = qn_tensor_count(x);
	qn_dtype type = c->y[0].type;
	bool integer = qn_quant_range(type, &low, &high), saturate = qn_node_int(c->node, "saturate", 1) != 0;
	qn_blocks b;
	qn_blocks_of(c->node, x, c->x[1], &b);
	const float *v = qn_tensor_f32(c->scratch, x), *scale = qn_tensor_f32(c->scratch, c->x[1]);
	char *y = QN_OUT(c, 0, char);
	for (int64_t i = 0; i < n; i++) {
		int64_t at = qn_blocks_at(&b, i);
		float scaled = v[i] / scale[at];
		if (integer)
			qn_tensor_set(y, type, i, (double)qn_quantize(v[i], scale[at], zero ? qn_tensor_get_i64(zero, at) : 0, low, high));
		else
			qn_convert_rounded(&scaled, QN_F32, y + i, type, 1, saturate, QN_ROUND_UP);
	}
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	const qn_value *out = e->node->out[0];
	qn_quant_parts p;
	int64_t low, high;
	if (!qn_quant_range(out->fact.type, &low, &high))
		return qn_emit_fail(e, "the engine has no conversion to %s", qn_dtype_name(out->fact.type));
	QN_TRY(qn_quant_emit(e, &p));
	const char *y = qn_emit_temp(e, "steps", "tract_core_round_even(%s / %s)", p.x, p.scale);
	if (p.zero)
		y = qn_emit_temp(e, "shifted", "%s + %s", y, p.zero);
	if (qn_dtype_is_small(out->fact.type)) /* the cast saturates to the range of a whole byte */
		y = qn_emit_temp(e, "clipped", "max(min(%s, %s), %s)", y, qn_emit_float(e, (double)high), qn_emit_float(e, (double)low));
	if (p.blocked)
		y = qn_emit_temp(e, "whole", "reshape(%s, shape=%s)", y, qn_emit_shape(e, &out->fact.shape));
	qn_emit_output(e, 0, "tract_core_cast(%s, to='%s')", y, qn_emit_dtype(out->fact.type));
	return QUERN_OK;
}

const qn_op qn_op_quantize_linear = {
	.name = "QuantizeLinear", .also = "com.microsoft:QuantizeLinear", .since = 10, .min_in = 2, .max_in = 3,
	.traits = QN_SMALL, .infer = infer, .eval = eval, .emit = emit};
