#include "graph/emit.h"
#include "graph/ops/_gemm.h"
#include <math.h>

/* inputs: x [..., n, ..., 1 or 2], dft_length, axis (an attribute until opset 19). The last axis holds real and imaginary parts. */

typedef struct dft {
	int axis;
	bool inverse, onesided;
	int64_t length; /* 0: that of the axis */
} dft;

static const char *read(qn_arena *a, const qn_node *n, int rank, const qn_tensor *length, const qn_tensor *axis, dft *d)
{
	bool modern = n->opset >= 20;
	int64_t at = modern ? axis ? qn_tensor_get_i64(axis, 0) : -2 : qn_node_int(n, "axis", 1);
	d->inverse = qn_node_int(n, "inverse", 0) != 0;
	d->onesided = qn_node_int(n, "onesided", 0) != 0;
	d->length = length ? qn_tensor_get_i64(length, 0) : 0;
	if (at < -rank || at >= rank || at == rank - 1 || at == -1)
		return qn_arena_printf(a, "axis %lld does not fit rank %d with its last axis for complex parts", (long long)at, rank);
	d->axis = (int)(at < 0 ? at + rank : at);
	return length && d->length < 1 ? qn_arena_printf(a, "dft_length is %lld", (long long)d->length) : NULL;
}

static const qn_tensor *known(const qn_call *c, int i)
{
	return qn_call_has(c, i) ? c->in[i].value : NULL;
}

static qn_status read_call(qn_call *c, dft *d)
{
	for (int i = 1; i < 3; i++)
		if (qn_call_has(c, i) && (!c->in[i].value || c->in[i].value->type == QN_DIM || qn_tensor_count(c->in[i].value) != 1))
			return qn_call_data_dependent(c, i, i == 1 ? "dft_length" : "axis");
	const char *why = read(c->scratch, c->node, c->in[0].shape.rank, known(c, 1), known(c, 2), d);
	if (why)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%s", why);
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	const qn_shape *x = &c->in[0].shape;
	dft d;
	if (!qn_dtype_is_float(c->in[0].type) || x->rank < 2)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "input of type %s and rank %d", qn_dtype_name(c->in[0].type), x->rank);
	QN_TRY(read_call(c, &d));
	qn_dim parts = x->dim[x->rank - 1], n = d.length ? qn_dim_const(d.length) : x->dim[d.axis];
	if (!qn_dim_is(parts, 1) && !qn_dim_is(parts, 2))
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the last axis must hold 1 or 2 parts");
	if (d.onesided && d.inverse && !d.length) /* half a spectrum of m values is that of 2 (m - 1) real ones */
		n = qn_dim_mul(c->dims, qn_dim_sub(c->dims, n, qn_dim_const(1)), qn_dim_const(2));
	c->out[0].type = c->in[0].type;
	c->out[0].shape = *x;
	c->out[0].shape.dim[d.axis] = n;
	c->out[0].shape.dim[x->rank - 1] = qn_dim_const(d.onesided && d.inverse ? 1 : 2);
	if (d.onesided && !d.inverse)
		c->out[0].shape.dim[d.axis] = qn_dim_add(c->dims, qn_dim_floordiv(c->dims, n, qn_dim_const(2)), qn_dim_const(1));
	return QUERN_OK;
}

/* The transform as a matrix [out, out_parts, in, in_parts]. `n` is the length of the transform; inputs past it are cut, those short of it
 * are zero. */
static qn_tensor *matrix(qn_arena *a, const dft *d, int64_t n, int64_t in, int64_t in_parts, int64_t out, int64_t out_parts)
{
	const double pi = 3.14159265358979323846;
	int64_t dim[4] = {out, out_parts, in, in_parts};
	qn_tensor *t = qn_tensor_new(a, QN_F32, 4, dim);
	float *m = (float *)(uintptr_t)t->data;
	bool mirrored = d->inverse && d->onesided;
	for (int64_t k = 0; k < out; k++)
		for (int64_t i = 0; i < in && i < n; i++) {
			double angle = 2 * pi * (double)(k * i % n) / (double)n * (d->inverse ? 1 : -1), s = d->inverse ? 1 / (double)n : 1;
			if (mirrored && 2 * i > n)
				continue;
			if (mirrored && i > 0 && 2 * i < n)
				s *= 2; /* stands for its conjugate too */
			for (int64_t p = 0; p < out_parts; p++)
				for (int64_t q = 0; q < in_parts; q++) {
					double v = p == q ? cos(angle) : p == 0 ? -sin(angle) : sin(angle);
					m[((k * out_parts + p) * in + i) * in_parts + q] = (float)(v * s);
				}
		}
	return t;
}

static int64_t transform_length(const dft *d, int64_t in)
{
	if (d->length)
		return d->length;
	return d->onesided && d->inverse ? 2 * (in - 1) : in;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *y = &c->y[0];
	dft d;
	QN_TRY(read_call(c, &d));
	int64_t in = x->dim[d.axis], out = y->dim[d.axis], ip = x->dim[x->rank - 1], op = y->dim[x->rank - 1], outer = 1, inner = 1;
	for (int i = 0; i < x->rank - 1; i++)
		*(i < d.axis ? &outer : &inner) *= i == d.axis ? 1 : x->dim[i];
	const float *m = matrix(c->scratch, &d, transform_length(&d, in), in, ip, out, op)->data, *xf = qn_tensor_f32(c->scratch, x);
	int64_t columns = outer * inner;
	float *from = QN_NEW(c->scratch, float, in * ip * columns), *to = QN_NEW(c->scratch, float, out * op * columns);
	for (int64_t o = 0; o < outer; o++)
		for (int64_t i = 0; i < in; i++)
			for (int64_t j = 0; j < inner; j++)
				for (int64_t q = 0; q < ip; q++)
					from[(i * ip + q) * columns + o * inner + j] = xf[((o * in + i) * inner + j) * ip + q];
	qn_gemm g = {.type = QN_F32, .m = out * op, .n = columns, .k = in * ip, .lda = in * ip, .ldb = columns, .ldc = columns, .batch = 1};
	qn_gemm_run(&g, c->threads, m, from, to);
	for (int64_t o = 0; o < outer; o++)
		for (int64_t i = 0; i < out; i++)
			for (int64_t j = 0; j < inner; j++)
				for (int64_t q = 0; q < op; q++)
					qn_tensor_set(QN_OUT(c, 0, void), y->type, ((o * out + i) * inner + j) * op + q,
						(double)to[(i * op + q) * columns + o * inner + j]);
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	const qn_node *n = e->node;
	const qn_shape *x = &n->in[0]->fact.shape, *y = &n->out[0]->fact.shape;
	const qn_tensor *given[3] = {NULL};
	dft d;
	for (int i = 1; i < 3 && i < n->n_in; i++)
		if (n->in[i])
			QN_TRY(qn_graph_load(e->graph, n->in[i], e->arena, &given[i]));
	const char *why = read(e->arena, n, x->rank, given[1], given[2], &d);
	if (why || !qn_dim_is_const(x->dim[d.axis]) || n->in[0]->fact.type != QN_F32)
		return qn_emit_fail(e, "%s", why ? why : "a transform of symbolic length, or of another type than f32, is not expressible");
	int64_t in = x->dim[d.axis].k, last = x->rank - 1;
	qn_tensor *m = matrix(e->arena, &d, transform_length(&d, in), in, x->dim[last].k, y->dim[d.axis].k, y->dim[last].k);
	char from[QN_MAX_RANK + 1] = {0}, to[QN_MAX_RANK + 1] = {0};
	for (int i = 0; i <= last; i++) {
		from[i] = (char)('a' + i);
		to[i] = i == d.axis ? 'y' : i == last ? 'z' : from[i];
	}
	qn_emit_output(e, 0, "tract_core_einsum([%s, %s], expr='%s,yz%c%c->%s', acc='f32', output='')", qn_emit_ranked(e, n->in[0], x->rank),
		qn_emit_constant(e, "matrix", m), from, from[d.axis], from[last], to);
	return QUERN_OK;
}

const qn_op qn_op_dft = {.name = "DFT", .since = 17, .min_in = 1, .max_in = 3, .infer = infer, .eval = eval, .emit = emit};
