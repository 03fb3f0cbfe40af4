#include "graph/ops/_zip.h"

/* The exponents that models use, without the general function. */
static inline float pow_f32(float a, float b) { return b == 2.0f ? a * a : b == 1.0f ? a : b == 3.0f ? a * a * a : powf(a, b); }

static inline int64_t pow_int(int64_t a, int64_t b)
{
	uint64_t r = 1, base = (uint64_t)a;
	if (b < 0)
		return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
	for (; b; b >>= 1, base *= base)
		if (b & 1)
			r *= base;
	return (int64_t)r;
}

QN_ZIP_KERNEL(zip_square, float, float, ((void)b, a * a))
QN_ZIP_KERNEL(zip_f32, float, float, pow_f32(a, b))
QN_ZIP_KERNEL(engine_f32, float, float, b == 0.5f ? sqrtf(a) : powf(a, b)) /* the engine's: a square aside, by the general function */
QN_ZIP_KERNEL(zip_f64, double, double, pow(a, b))
QN_ZIP_KERNEL(zip_i64, int64_t, int64_t, pow_int(a, b))

/* The result has the type of the base; the exponent may have another. */
static qn_status infer(qn_call *c) { return qn_infer_broadcast(c); }

static const qn_tensor *converted(qn_call *c, const qn_tensor *x, qn_dtype type)
{
	if (x->type == type)
		return x;
	qn_tensor *t = qn_tensor_new(c->scratch, type, x->rank, x->dim);
	qn_convert(x->data, x->type, (void *)(uintptr_t)t->data, type, qn_tensor_count(x));
	return t;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *a = c->x[0], *b = c->x[1], *y = &c->y[0];
	if (!qn_dtype_is_numeric(a->type) || !qn_dtype_is_numeric(b->type))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "no power of %s by %s", qn_dtype_name(a->type), qn_dtype_name(b->type));
	qn_zip f = {.kernel = QN_ZIP_ALL};
	if (c->ctx->engine_math)
		f.kernel[QN_AS_F32] = engine_f32;
	if (qn_dtype_is_float(a->type) || !qn_dtype_is_float(b->type)) {
		b = converted(c, b, a->type);
		if (a->type == QN_F32 && qn_tensor_count(b) == 1 && *(const float *)b->data == 2.0f)
			f.kernel[QN_AS_F32] = zip_square;
		return qn_zip_tensors(c, &f, a, b, y);
	}
	qn_tensor *wide = qn_tensor_new(c->scratch, QN_F64, y->rank, y->dim);
	QN_TRY(qn_zip_tensors(c, &f, converted(c, a, QN_F64), converted(c, b, QN_F64), wide));
	qn_convert(wide->data, QN_F64, QN_OUT(c, 0, void), y->type, qn_tensor_count(y));
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	qn_dtype base = e->node->in[0]->fact.type, exponent = e->node->in[1]->fact.type;
	const char *a = qn_zip_operand(e, 0), *b = qn_zip_operand(e, 1);
	if (!qn_dtype_is_float(base)) {
		const char *y = qn_emit_temp(e, "power", "pow(tract_core_cast(%s, to='f32'), tract_core_cast(%s, to='f32'))", a, b);
		qn_emit_output(e, 0, "tract_core_cast(tract_core_round_even(%s), to='%s')", y, qn_emit_dtype(base));
		return QUERN_OK;
	}
	if (exponent != base)
		b = qn_arena_printf(e->arena, "tract_core_cast(%s, to='%s')", b, qn_emit_dtype(base));
	qn_emit_output(e, 0, "pow(%s, %s)", a, b);
	return QUERN_OK;
}

const qn_op qn_op_pow = {
	.name = "Pow",
	.min_in = 2,
	.max_in = 2,
	.traits = QN_ELEMENTWISE,
	.infer = infer,
	.eval = eval,
	.emit = emit,
};
