#include "graph/ops/_gelu.h"
#include "graph/ops/_zip.h"

#define K_TANH "0.7978845608028654"

QN_VECTOR static void exact_f32(const float *in, float *out, int64_t n, const float *p)
{
	(void)p;
	QN_SIMD for (int64_t i = 0; i < n; i++) out[i] = qn_gelu(in[i]);
}

/* In the order of what is emitted. */
QN_FUSED static void engine_exact_f32(const float *in, float *out, int64_t n, const float *p)
{
	(void)p;
	QN_SIMD for (int64_t i = 0; i < n; i++) out[i] = 0.5f * in[i] * (1.0f + qn_engine_erf(in[i] * 0.70710678f));
}

QN_FUSED static void engine_tanh_f32(const float *in, float *out, int64_t n, const float *p)
{
	(void)p;
	QN_SIMD for (int64_t i = 0; i < n; i++)
	{
		const float x = in[i];
		out[i] = 0.5f * x * (1.0f + qn_engine_tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
	}
}

static void exact_f64(const double *in, double *out, int64_t n, const double *p)
{
	(void)p;
	for (int64_t i = 0; i < n; i++)
		out[i] = 0.5 * in[i] * erfc(in[i] * -0.70710678118654752);
}

QN_VECTOR static void tanh_f32(const float *in, float *out, int64_t n, const float *p)
{
	(void)p;
	QN_SIMD for (int64_t i = 0; i < n; i++) out[i] = qn_gelu_tanh(in[i]);
}

static void tanh_f64(const double *in, double *out, int64_t n, const double *p)
{
	(void)p;
	for (int64_t i = 0; i < n; i++)
		out[i] = in[i] / (1.0 + exp(-1.5957691216057307 * (in[i] + 0.044715 * in[i] * in[i] * in[i])));
}

/* by form (erf, tanh), then whether as the engine */
static const qn_unary forms[2][2] = {
	{{.f32 = exact_f32, .f64 = exact_f64}, {.f32 = engine_exact_f32, .f64 = exact_f64}},
	{{.f32 = tanh_f32, .f64 = tanh_f64}, {.f32 = engine_tanh_f32, .f64 = tanh_f64}},
};

QN_ZIP_KERNELS(a + b, a + b)

qn_status qn_gelu_map(qn_call *c, const qn_tensor *x, const qn_tensor *y, bool tanh_form)
{
	return qn_unary_map(c, x, y, &forms[tanh_form][c->ctx->engine_math], NULL);
}

qn_status qn_gelu_bias_infer(qn_call *c)
{
	const qn_shape *x = &c->in[0].shape, *b = &c->in[1].shape;
	QN_TRY(qn_infer_same(c));
	if (!qn_call_has(c, 1) || b->rank < 0 || x->rank < 0)
		return QUERN_OK;
	if (b->rank != 1 || x->rank < 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the bias has rank %d and the input rank %d: the bias must have rank 1, the input 1 or more", b->rank,
			x->rank);
	return qn_call_equate(c, x->dim[x->rank - 1], b->dim[0], "last axis of the input and bias");
}

qn_status qn_gelu_bias_eval(qn_call *c, bool tanh_form)
{
	static const qn_zip sum = {.kernel = QN_ZIP_ALL};
	const qn_tensor *y = &c->y[0];
	if (!qn_call_has(c, 1))
		return qn_gelu_map(c, c->x[0], y, tanh_form);
	QN_TRY(qn_zip_tensors(c, &sum, c->x[0], c->x[1], y));
	return qn_gelu_map(c, y, y, tanh_form);
}

const char *qn_erf_emit(qn_emit *e, const char *x)
{
	if (e->target == QN_TARGET_TRACT)
		return qn_arena_printf(e->arena, "tract_core_erf(%s)", x);
	/* 1 - erf(a) = exp(-a P(a)) on [0, 4] */
	qn_emit_fragment(e, "erf",
		"fragment erf( x: tensor<scalar> ) -> ( y: tensor<scalar> )\n"
		"{\n"
		"    a = min(abs(x), 4.0);\n"
		"    p = 1.128379225730896 + a * (0.6366199254989624 + a * (0.10277029871940613 + a * (-0.019112834706902504 + a * "
		"(-0.0002649275993462652 + a * (0.0018154019489884377 + a * (-0.0007532434538006783 + a * (0.00017311336705461144 + a * "
		"(-0.000022693080609315075 + a * 0.000001323436322309135))))))));\n"
		"    y = sign(x) * (1.0 - exp(neg(a * p)));\n"
		"}\n");
	return qn_arena_printf(e->arena, "erf(%s)", x);
}

qn_status qn_gelu_emit(qn_emit *e, const char *x, bool tanh_form)
{
	if (tanh_form) {
		qn_emit_fragment(e, "gelu_tanh",
			"fragment gelu_tanh( x: tensor<scalar> ) -> ( y: tensor<scalar> )\n"
			"{\n"
			"    y = 0.5 * x * (1.0 + tanh(" K_TANH " * (x + 0.044715 * x * x * x)));\n"
			"}\n");
		qn_emit_output(e, 0, "gelu_tanh(%s)", x);
		return QUERN_OK;
	}
	qn_emit_fragment(e, "gelu_erf", qn_arena_printf(e->arena,
		"fragment gelu_erf( x: tensor<scalar> ) -> ( y: tensor<scalar> )\n"
		"{\n"
		"    y = 0.5 * x * (1.0 + %s);\n"
		"}\n", qn_erf_emit(e, "x * 0.7071067811865475")));
	qn_emit_output(e, 0, "gelu_erf(%s)", x);
	return QUERN_OK;
}

qn_status qn_gelu_bias_emit(qn_emit *e, bool tanh_form)
{
	if (!qn_node_has_in(e->node, 1))
		return qn_gelu_emit(e, qn_emit_ref(e, e->node->in[0]), tanh_form);
	const char *sum = qn_emit_temp(e, "biased", "add(%s, %s)", qn_zip_operand(e, 0), qn_zip_operand(e, 1));
	return qn_gelu_emit(e, sum, tanh_form);
}
