#include "graph/ops/_apart.h"
#include "graph/ops/_matmul.h"

static qn_status infer(qn_call *c)
{
	if (c->in[0].type != c->in[1].type)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "operands are of type %s and %s", qn_dtype_name(c->in[0].type), qn_dtype_name(c->in[1].type));
	if (!qn_dtype_is_float(c->in[0].type) && !qn_dtype_is_int(c->in[0].type))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "operands of type %s", qn_dtype_name(c->in[0].type));
	c->out[0].type = c->in[0].type;
	return qn_matmul_shape(c, &c->in[0].shape, &c->in[1].shape, &c->out[0].shape);
}

/* The type that the products are taken in. */
static qn_dtype compute_type(qn_dtype t)
{
	if (t == QN_F64 || t == QN_I32 || t == QN_U32 || t == QN_I64 || t == QN_U64)
		return t;
	return qn_dtype_is_float(t) ? QN_F32 : QN_I32;
}

static const void *as_type(qn_call *c, const qn_tensor *t, qn_dtype to)
{
	if (t->type == to)
		return t->data;
	int64_t n = qn_tensor_count(t);
	void *p = qn_arena_array(c->scratch, (size_t)n, qn_dtype_size(to));
	qn_convert(t->data, t->type, p, to, n);
	return p;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *a = c->x[0], *b = c->x[1];
	qn_gemm g = {.type = compute_type(a->type), .chained = c->ctx->engine_math};
	qn_matmul_plan(c, a, b, &g);
	int64_t n = qn_tensor_count(&c->y[0]);
	void *out = QN_OUT(c, 0, void);
	void *to = g.type == a->type ? out : qn_arena_array(c->scratch, (size_t)n, qn_dtype_size(g.type));
	qn_gemm_run(&g, c->threads, as_type(c, a, g.type), as_type(c, b, g.type), to);
	if (to != out)
		qn_convert(to, g.type, out, a->type, n);
	return QUERN_OK;
}

/* How many axes, from the end, the other operand may not have, or has with length 1. */
static int own_axes(const qn_shape *s, const qn_shape *other)
{
	int n = 2;
	for (int i = 3; i <= s->rank; i++)
		if (i > other->rank || qn_dim_is(other->dim[other->rank - i], 1))
			n = i;
	return n;
}

static qn_status emit(qn_emit *e)
{
	qn_value *a = e->node->in[0], *b = e->node->in[1];
	const char *ra = qn_emit_ref(e, a), *rb = qn_emit_ref(e, b);
	qn_dtype t = a->fact.type;
	if (qn_dtype_is_float(t) && qn_is_broadcast(a, own_axes(&a->fact.shape, &b->fact.shape), false))
		ra = qn_emit_apart(e, ra);
	if (qn_dtype_is_float(t) && qn_is_broadcast(b, own_axes(&b->fact.shape, &a->fact.shape), false))
		rb = qn_emit_apart(e, rb);
	/* the engine multiplies floats and 32-bit integers; f64 holds what 64-bit integers usually hold */
	bool wide = t == QN_F64 || t == QN_I64 || t == QN_U64 || t == QN_U32;
	qn_dtype acc = wide ? QN_F64 : qn_dtype_is_float(t) ? QN_F32 : QN_I32;
	if (t != acc && t != QN_F16) {
		ra = qn_emit_temp(e, "a", "tract_core_cast(%s, to='%s')", ra, qn_emit_dtype(acc));
		rb = qn_emit_temp(e, "b", "tract_core_cast(%s, to='%s')", rb, qn_emit_dtype(acc));
	}
	const char *y = qn_matmul_emit(e, ra, &a->fact.shape, rb, &b->fact.shape, qn_emit_dtype(acc));
	if (t == acc)
		qn_emit_output(e, 0, "%s", y);
	else
		qn_emit_output(e, 0, "tract_core_cast(%s, to='%s')", qn_emit_temp(e, "product", "%s", y), qn_emit_dtype(t));
	return QUERN_OK;
}

const qn_op qn_op_matmul = {
	.name = "MatMul", .hint = QN_HINT_CONTRACTION, .weight_input = 2, .min_in = 2, .max_in = 2,
	.infer = infer, .eval = eval, .emit = emit};
