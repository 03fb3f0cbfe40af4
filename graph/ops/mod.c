#include "graph/ops/_zip.h"

/* fmod = 1: the sign of the dividend, as C; else the sign of the divisor. By zero: NaN, for integers 0. */
static inline int64_t int_rem(int64_t a, int64_t b, bool u)
{
	if (b == 0 || (!u && b == -1))
		return 0;
	return u ? (int64_t)((uint64_t)a % (uint64_t)b) : a % b;
}

static inline int64_t int_mod(int64_t a, int64_t b, bool u)
{
	int64_t r = int_rem(a, b, u);
	return !u && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static inline double float_mod(double a, double b)
{
	double r = fmod(a, b);
	return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}

QN_ZIP_KERNEL(rem_f32, float, float, fmodf(a, b))
QN_ZIP_KERNEL(rem_f64, double, double, fmod(a, b))
QN_ZIP_KERNEL(rem_i64, int64_t, int64_t, int_rem(a, b, u))
QN_ZIP_KERNEL(mod_f32, float, float, float_mod((double)a, (double)b))
QN_ZIP_KERNEL(mod_f64, double, double, float_mod(a, b))
QN_ZIP_KERNEL(mod_i64, int64_t, int64_t, int_mod(a, b, u))

static bool on_dim(qn_call *c, qn_dim a, qn_dim b, qn_dim *y)
{
	int64_t low;
	if (qn_dim_is(b, 0) || !qn_dim_lower(c->dims, b, &low) || low < 0)
		return false;
	if (qn_node_int(c->node, "fmod", 0) && (!qn_dim_lower(c->dims, a, &low) || low < 0))
		return false;
	*y = qn_dim_mod(c->dims, a, b);
	return true;
}

static qn_status eval(qn_call *c)
{
	bool rem = qn_node_int(c->node, "fmod", 0) != 0;
	qn_zip f = {.kernel = {mod_f32, mod_f64, mod_i64}, .dim = on_dim};
	if (rem)
		f = (qn_zip){.kernel = {rem_f32, rem_f64, rem_i64}, .dim = on_dim};
	return qn_zip_eval(c, &f);
}

/* The engine's text has no remainder: a - b * q, with the quotient rounded as asked. Integer division truncates. */
static qn_status emit(qn_emit *e)
{
	qn_dtype type = e->node->in[0]->fact.type;
	const char *a = qn_zip_operand(e, 0), *b = qn_zip_operand(e, 1);
	bool rem = qn_node_int(e->node, "fmod", 0) != 0;
	if (qn_dtype_is_float(type)) {
		const char *q = qn_emit_temp(e, "quotient", "div(%s, %s)", a, b);
		if (rem)
			q = qn_arena_printf(e->arena, "mul(sign(%s), floor(abs(%s)))", q, q);
		else
			q = qn_arena_printf(e->arena, "floor(%s)", q);
		const char *r = qn_arena_printf(e->arena, "sub(%s, mul(%s, %s))", a, b, q);
		if (!e->node->in[1]->is_const) { /* over an infinity the product has no value */
			const char *far = rem ? a : qn_arena_printf(e->arena, "select(lt(mul(sign(%s), sign(%s)), 0.0), %s, %s)", a, b, b, a);
			r = qn_arena_printf(e->arena, "select(eq(abs(%s), inf), %s, %s)", b, far, r);
		}
		qn_emit_output(e, 0, "%s", r);
		return QUERN_OK;
	}
	if (qn_dtype_is_unsigned(type)) {
		qn_emit_output(e, 0, "sub(%s, mul(%s, div(%s, %s)))", a, b, a, b);
		return QUERN_OK;
	}
	/* without signs, since the engine's division by a power of two rounds down */
	const char *q = qn_emit_temp(e, "quotient", "div(abs(%s), abs(%s))", a, b);
	const char *r = qn_emit_temp(e, "remainder", "mul(sign(%s), sub(abs(%s), mul(abs(%s), %s)))", a, a, b, q);
	if (rem)
		qn_emit_output(e, 0, "copy(%s)", r);
	else
		qn_emit_output(e, 0, "select(lt(mul(sign(%s), sign(%s)), 0.0), add(%s, %s), %s)", r, b, r, b, r);
	return QUERN_OK;
}

const qn_op qn_op_mod = {
	.name = "Mod",
	.min_in = 2,
	.max_in = 2,
	.traits = QN_ELEMENTWISE,
	.dims_in = 3,
	.infer = qn_zip_infer,
	.eval = eval,
	.emit = emit,
};
