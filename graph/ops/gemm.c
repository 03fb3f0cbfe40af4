#include "graph/ops/_matmul.h"

static qn_status flag(qn_call *c, const char *name, bool *out)
{
	int64_t v = qn_node_int(c->node, name, 0);
	if (v != 0 && v != 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%s is %lld, it can be 0 or 1", name, (long long)v);
	*out = v == 1;
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	bool ta, tb;
	QN_TRY(flag(c, "transA", &ta));
	QN_TRY(flag(c, "transB", &tb));
	const qn_shape *a = &c->in[0].shape, *b = &c->in[1].shape;
	for (int i = 0; i < 2; i++)
		if (c->in[i].shape.rank != 2)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "operand %c has rank %d, it must have rank 2", 'A' + i, c->in[i].shape.rank);
	for (int i = 1; i < 3; i++)
		if (qn_call_has(c, i) && c->in[i].type != c->in[0].type)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "operands A and %c are of type %s and %s", 'A' + i, qn_dtype_name(c->in[0].type),
				qn_dtype_name(c->in[i].type));
	QN_TRY(qn_call_equate(c, a->dim[!ta], b->dim[tb], "the contraction dims of A and B"));
	c->out[0].type = c->in[0].type;
	c->out[0].shape = (qn_shape){2, {a->dim[ta], b->dim[!tb]}};
	if (!qn_call_has(c, 2))
		return QUERN_OK;
	const qn_shape *bias = &c->in[2].shape;
	if (bias->rank > 2)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "operand C has rank %d, it must broadcast to rank 2", bias->rank);
	for (int i = 0; i < bias->rank; i++)
		if (!qn_dim_is(bias->dim[i], 1))
			QN_TRY(qn_call_equate(c, bias->dim[i], c->out[0].shape.dim[2 - bias->rank + i], "C and the product"));
	return QUERN_OK;
}

/* y = alpha * product + beta * C in the type of the product. */
#define FINISH(type, scale)                                                                                              \
	do {                                                                                                             \
		type *y = product;                                                                                       \
		const type *bias = extra;                                                                                \
		for (int64_t i = 0; i < m * n; i++) {                                                                    \
			y[i] = (type)((scale)alpha * (scale)y[i]);                                                       \
			if (bias)                                                                                        \
				y[i] = (type)((scale)y[i] + (scale)beta * (scale)bias[i / n * stride[0] + i % n * stride[1]]); \
		}                                                                                                        \
	} while (0)

static void finish(qn_call *c, qn_dtype type, void *product, const void *extra, int64_t m, int64_t n)
{
	float alpha = qn_node_float(c->node, "alpha", 1.0f), beta = qn_node_float(c->node, "beta", 1.0f);
	int64_t stride[2] = {0, 0}, dim[2] = {m, n};
	if (extra)
		qn_broadcast_strides(c->x[2], 2, dim, stride);
	switch (type) {
	case QN_F32: FINISH(float, float); break;
	case QN_F64: FINISH(double, double); break;
	case QN_I32: FINISH(int32_t, double); break;
	case QN_U32: FINISH(uint32_t, double); break;
	case QN_I64: FINISH(int64_t, long double); break;
	default: FINISH(uint64_t, long double); break;
	}
}

static const void *as_type(qn_call *c, const qn_tensor *t, qn_dtype to)
{
	if (!t || t->type == to)
		return t ? t->data : NULL;
	int64_t n = qn_tensor_count(t);
	void *p = qn_arena_array(c->scratch, (size_t)n, qn_dtype_size(to));
	qn_convert(t->data, t->type, p, to, n);
	return p;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *a = c->x[0], *b = c->x[1];
	qn_dtype t = a->type, type = t == QN_F64 || qn_dtype_size(t) >= 4 ? t : QN_F32;
	qn_gemm g = {.type = type, .ta = qn_node_int(c->node, "transA", 0), .tb = qn_node_int(c->node, "transB", 0), .batch = 1, .chained = c->ctx->engine_math,
		.lda = a->dim[1], .ldb = b->dim[1], .ldc = c->y[0].dim[1]};
	g.m = c->y[0].dim[0], g.n = c->y[0].dim[1], g.k = a->dim[!g.ta];
	void *out = QN_OUT(c, 0, void);
	void *product = type == t ? out : qn_arena_array(c->scratch, (size_t)(g.m * g.n), qn_dtype_size(type));
	qn_gemm_run(&g, c->threads, as_type(c, a, type), as_type(c, b, type), product);
	finish(c, type, product, as_type(c, c->node->n_in > 2 ? c->x[2] : NULL, type), g.m, g.n);
	if (product != out)
		qn_convert(product, type, out, t, g.m * g.n);
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	const qn_node *n = e->node;
	qn_dtype t = n->in[0]->fact.type;
	if (!qn_dtype_is_float(t))
		return qn_emit_fail(e, "a product of type %s with float factors is not expressible", qn_dtype_name(t));
	const char *type = qn_emit_dtype(t == QN_BF16 ? QN_F32 : t);
	float alpha = qn_node_float(n, "alpha", 1.0f), beta = qn_node_float(n, "beta", 1.0f);
	const char *expr = qn_arena_printf(e->arena, "tract_core_einsum([%s, %s], expr='%s,%s->mn', acc='%s', output='')",
		qn_emit_ranked(e, n->in[0], 2), qn_emit_ranked(e, n->in[1], 2), qn_node_int(n, "transA", 0) ? "km" : "mk",
		qn_node_int(n, "transB", 0) ? "nk" : "kn", type);
	if (alpha != 1.0f)
		expr = qn_arena_printf(e->arena, "%s * %s", qn_emit_temp(e, "product", "%s", expr), qn_emit_float(e, alpha));
	if (qn_node_has_in(n, 2) && beta != 0.0f) {
		const char *y = qn_emit_temp(e, "scaled", "%s", expr), *bias = qn_emit_ranked(e, n->in[2], 2);
		if (beta != 1.0f)
			bias = qn_emit_temp(e, "bias", "%s * %s", bias, qn_emit_float(e, beta));
		expr = qn_arena_printf(e->arena, "%s + %s", y, bias);
	}
	qn_emit_output(e, 0, "%s", expr);
	return QUERN_OK;
}

const qn_op qn_op_gemm = {
	.name = "Gemm", .hint = QN_HINT_CONTRACTION, .weight_input = 2, .since = 7, .min_in = 2, .max_in = 3,
	.infer = infer, .eval = eval, .emit = emit};
