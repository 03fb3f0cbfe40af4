#include "graph/ops/_quant.h"

static qn_status infer(qn_call *c)
{
	int64_t low, high;
	if (!qn_quant_range(c->in[0].type, &low, &high) && !qn_quant_is_float(c->in[0].type))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "input of type %s", qn_dtype_name(c->in[0].type));
	if (!qn_dtype_is_float(c->in[1].type) && c->in[1].type != QN_F8E8M0)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the scale is of type %s", qn_dtype_name(c->in[1].type));
	QN_TRY(qn_blocks_infer(c));
	static const qn_dtype by_number[] = {[1] = QN_F32, [10] = QN_F16, [11] = QN_F64, [16] = QN_BF16};
	int64_t number = qn_node_int(c->node, "output_dtype", 0);
	qn_dtype asked = number > 0 && number < (int64_t)QN_LEN(by_number) ? by_number[number] : QN_NONE;
	c->out[0].type = asked != QN_NONE ? asked : c->in[1].type;
	if (qn_dtype_is_small(c->out[0].type))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "scales of type %s need output_dtype", qn_dtype_name(c->in[1].type));
	c->out[0].shape = c->in[0].shape;
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *zero = c->node->n_in > 2 ? c->x[2] : NULL;
	qn_dtype type = c->y[0].type;
	int64_t n = qn_tensor_count(x);
	qn_blocks b;
	qn_blocks_of(c->node, x, c->x[1], &b);
	const float *scale = qn_tensor_f32(c->scratch, c->x[1]);
	float *y = type == QN_F32 ? QN_OUT(c, 0, float) : QN_NEW(c->scratch, float, n);
	for (int64_t i = 0; i < n; i++) {
		int64_t at = qn_blocks_at(&b, i);
		y[i] = (float)(qn_tensor_get(x, i) - (zero ? qn_tensor_get(zero, at) : 0)) * scale[at];
	}
	if (type != QN_F32)
		qn_convert(y, QN_F32, QN_OUT(c, 0, void), type, n);
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	const qn_value *out = e->node->out[0];
	qn_quant_parts p;
	QN_TRY(qn_quant_emit(e, &p));
	if (p.zero)
		p.x = qn_emit_temp(e, "centered", "%s - %s", p.x, p.zero);
	const char *y = qn_arena_printf(e->arena, "%s * %s", p.x, p.scale);
	if (p.blocked)
		y = qn_arena_printf(e->arena, "reshape(%s, shape=%s)", qn_emit_temp(e, "scaled", "%s", y), qn_emit_shape(e, &out->fact.shape));
	if (out->fact.type != QN_F32)
		y = qn_arena_printf(e->arena, "tract_core_cast(%s, to='%s')", qn_emit_temp(e, "float", "%s", y), qn_emit_dtype(out->fact.type));
	qn_emit_output(e, 0, "%s", y);
	return QUERN_OK;
}

const qn_op qn_op_dequantize_linear = {
	.name = "DequantizeLinear", .also = "com.microsoft:DequantizeLinear", .since = 10, .min_in = 2, .max_in = 3,
	.traits = QN_KEEPS_WEIGHT | QN_SMALL, .infer = infer, .eval = eval, .emit = emit};
