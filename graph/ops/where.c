#include "graph/ops/_zip.h"

static qn_status infer(qn_call *c)
{
	if (c->in[1].type != QN_NONE && c->in[2].type != QN_NONE && c->in[1].type != c->in[2].type)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the branches have types %s and %s: they must be equal", qn_dtype_name(c->in[1].type),
			qn_dtype_name(c->in[2].type));
	QN_TRY(qn_infer_broadcast(c));
	c->out[0].type = c->in[1].type;
	return QUERN_OK;
}

#define CHOOSE(name, type)                                                                                             \
	static void name(const uint8_t *c, int64_t sc, const void *a, int64_t sa, const void *b, int64_t sb, void *y, int64_t n) \
	{                                                                                                              \
		const type *va = a, *vb = b;                                                                           \
		type *out = y;                                                                                         \
		for (int64_t i = 0; i < n; i++)                                                                        \
			out[i] = c[i * sc] ? va[i * sa] : vb[i * sb];                                                  \
	}
CHOOSE(choose_1, uint8_t)
CHOOSE(choose_2, uint16_t)
CHOOSE(choose_4, uint32_t)
CHOOSE(choose_8, uint64_t)
CHOOSE(choose_dim, qn_dim)

typedef void (*chooser)(const uint8_t *, int64_t, const void *, int64_t, const void *, int64_t, void *, int64_t);

/* The branch as elements of the output's type: a known integer beside a symbolic one becomes a dim. */
static const qn_tensor *branch(qn_call *c, int i)
{
	const qn_tensor *x = c->x[i];
	if (c->y[0].type != QN_DIM || x->type == QN_DIM)
		return x;
	qn_tensor *t = qn_tensor_new(c->scratch, QN_DIM, x->rank, x->dim);
	int64_t n = qn_tensor_count(x);
	for (int64_t k = 0; k < n; k++)
		if (!qn_tensor_dim(x, k, (qn_dim *)(uintptr_t)t->data + k))
			c->undecided = true;
	return t;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *in[] = {c->x[0], branch(c, 1), branch(c, 2)};
	const qn_tensor *y = &c->y[0];
	size_t size = qn_dtype_size(y->type);
	chooser choose = size == 1 ? choose_1 : size == 2 ? choose_2 : size == 4 ? choose_4 : size == 8 ? choose_8 : choose_dim;
	char *out = QN_OUT(c, 0, char);
	qn_zip_plan p;
	qn_zip_plan_make(&p, in, 3, y->rank, y->dim);
	int threads = p.inner ? qn_span_threads(c, p.count) : 1;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
	for (int64_t row = 0; row < p.rows; row++) {
		int64_t o[QN_ZIP_OPERANDS];
		qn_zip_plan_seek(&p, row, o);
		choose((const uint8_t *)in[0]->data + o[0], p.inner_stride[0], (const char *)in[1]->data + (size_t)o[1] * size, p.inner_stride[1],
			(const char *)in[2]->data + (size_t)o[2] * size, p.inner_stride[2], out + (size_t)(row * p.inner) * size, p.inner);
	}
	return QUERN_OK;
}

/* The engine wants both branches of one type; a literal is f32. */
static const char *typed(qn_emit *e, int i)
{
	qn_dtype type = e->node->out[0]->fact.type;
	const char *text = qn_zip_operand(e, i);
	if (!e->node->in[i]->is_const || type == QN_F32 || !qn_dtype_is_float(type))
		return text;
	return qn_arena_printf(e->arena, "tract_core_cast(%s, to='%s')", text, qn_emit_dtype(type));
}

static qn_status emit(qn_emit *e)
{
	qn_emit_output(e, 0, "select(%s, %s, %s)", qn_zip_operand(e, 0), typed(e, 1), typed(e, 2));
	return QUERN_OK;
}

const qn_op qn_op_where = {
	.name = "Where",
	.min_in = 3,
	.max_in = 3,
	.traits = QN_ELEMENTWISE,
	.dims_in = 6,
	.infer = infer,
	.eval = eval,
	.emit = emit,
};
