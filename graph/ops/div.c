#include "graph/ops/_zip.h"

/* Integer division truncates toward zero; by zero it gives 0, and the lowest number over -1 gives itself. */
static inline int64_t int_div(int64_t a, int64_t b, bool u)
{
	if (b == 0)
		return 0;
	if (u)
		return (int64_t)((uint64_t)a / (uint64_t)b);
	return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

QN_ZIP_KERNELS(a / b, int_div(a, b, u))
/* The engine multiplies with the reciprocal. */
QN_ZIP_KERNEL(engine_f32, float, float, a * (1.0f / b))

/* Of integers: floor division, mirrored where the dividend is never positive. A dividend like S - 1, negative for an empty sequence
 * only, is taken as a size. */
static bool int_on_dim(qn_call *c, qn_dim a, qn_dim b, qn_dim *y)
{
	int64_t low, high;
	if (qn_dim_is(b, 0))
		return false;
	if (qn_dim_is_const(a) && qn_dim_is_const(b)) {
		*y = qn_dim_const(int_div(a.k, b.k, false));
		return true;
	}
	if (qn_dim_exact_div(c->dims, a, b, y))
		return true;
	if (!qn_dim_lower(c->dims, b, &low) || low < 0)
		return false;
	if (qn_dim_upper(c->dims, a, &high) && high <= 0) {
		qn_dim q = qn_dim_floordiv(c->dims, qn_dim_sub(c->dims, qn_dim_const(0), a), b);
		*y = qn_dim_sub(c->dims, qn_dim_const(0), q);
	} else {
		*y = qn_dim_floordiv(c->dims, a, b);
	}
	return true;
}

static bool on_dim(qn_call *c, qn_dim a, qn_dim b, qn_dim *y)
{
	return qn_dtype_is_float(c->out[0].type) ? qn_zip_quotient(c, a, b, y) : int_on_dim(c, a, b, y);
}

/* Over one over an integer: a product. */
static bool on_fraction(qn_call *c, qn_dim a, double b, qn_dim *y)
{
	double k = 1.0 / b;
	if (!(fabs(k) < 1e6) || fabs(k - nearbyint(k)) > 1e-6 * fabs(k))
		return false;
	*y = qn_dim_mul(c->dims, a, qn_dim_const((int64_t)nearbyint(k)));
	return true;
}

static qn_status eval(qn_call *c)
{
	qn_zip f = {.kernel = QN_ZIP_ALL, .dim = on_dim, .fraction = on_fraction};
	if (c->ctx->engine_math)
		f.kernel[QN_AS_F32] = engine_f32;
	return qn_zip_eval(c, &f);
}

/* The engine divides by a constant power of two with a shift, which rounds down: signed integers are divided without their sign. */
static qn_status emit(qn_emit *e)
{
	qn_dtype type = e->node->in[0]->fact.type;
	if (qn_dtype_is_float(type) || qn_dtype_is_unsigned(type) || !e->node->in[1]->is_const)
		return qn_zip_emit(e, "div");
	const char *a = qn_zip_operand(e, 0), *b = qn_zip_operand(e, 1);
	qn_emit_output(e, 0, "mul(div(abs(%s), abs(%s)), mul(sign(%s), sign(%s)))", a, b, a, b);
	return QUERN_OK;
}

const qn_op qn_op_div = {
	.name = "Div",
	.min_in = 2,
	.max_in = 2,
	.traits = QN_ELEMENTWISE | QN_HOMOGENEOUS,
	.dims_in = 3,
	.infer = qn_zip_infer,
	.eval = eval,
	.emit = emit,
};
