#include "graph/emit.h"
#include "graph/ops/_lines.h"
#include "graph/ops/_move.h"

typedef struct window {
	int64_t before, after; /* channels beside the middle one */
	double alpha, beta, bias;
} window;

static window read_window(const qn_node *n)
{
	int64_t size = qn_node_int(n, "size", 1);
	window w = {(size - 1) / 2, size / 2, 0.0, (double)qn_node_float(n, "beta", 0.75f), (double)qn_node_float(n, "bias", 1.0f)};
	w.alpha = (double)qn_node_float(n, "alpha", 1e-4f) / (double)size;
	return w;
}

static qn_status infer(qn_call *c)
{
	int64_t size = qn_node_int(c->node, "size", 0);
	QN_TRY(qn_move_need_rank(c, 0));
	if (c->in[0].shape.rank < 2 || size < 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "rank %d and size %lld: [N, C, ...] and a size of 1 or more are needed", c->in[0].shape.rank,
			(long long)size);
	return qn_infer_same(c);
}

/* The channels of one position, `stride` elements apart. */
static void channel(const double *x, double *y, int64_t n, int64_t stride, const window *w)
{
	for (int64_t i = 0; i < n; i++) {
		double sum = 0.0;
		for (int64_t k = i - w->before; k <= i + w->after; k++)
			if (k >= 0 && k < n)
				sum += x[k * stride] * x[k * stride];
		y[i * stride] = x[i * stride] / pow(w->bias + w->alpha * sum, w->beta);
	}
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *y = &c->y[0];
	if (!qn_dtype_is_float(x->type))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "elements of type %s: floats are needed", qn_dtype_name(x->type));
	qn_lines l = qn_lines_of(x, 1, 1);
	window w = read_window(c->node);
	int64_t count = qn_tensor_count(x);
	double *in = QN_NEW(c->scratch, double, count + 1), *out = QN_NEW(c->scratch, double, count + 1);
	qn_convert(x->data, x->type, in, QN_F64, count);
	int threads = qn_span_threads(c, count);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
	for (int64_t k = 0; k < l.outer * l.inner; k++) {
		int64_t base = k / l.inner * l.n * l.inner + k % l.inner;
		channel(in + base, out + base, l.n, l.inner, &w);
	}
	qn_convert(out, QN_F64, (void *)(uintptr_t)y->data, y->type, count);
	return QUERN_OK;
}

/* The window's sum as shifted slices of the padded squares: the engine's pools do not cross channels. */
static qn_status emit(qn_emit *e)
{
	const qn_shape *s = &e->node->in[0]->fact.shape;
	window w = read_window(e->node);
	const char *x = qn_emit_ref(e, e->node->in[0]);
	qn_text pads = {.arena = e->arena};
	for (int a = 0; a < s->rank; a++)
		qn_text_add(&pads, "%s(%lld, %lld)", a ? ", " : "", a == 1 ? (long long)w.before : 0LL, a == 1 ? (long long)w.after : 0LL);
	const char *squares = qn_emit_temp(e, "squares", "pad(mul(%s, %s), padding=[%s], border='constant', value=0.0)", x, x, pads.s);
	const char *sum = NULL;
	for (int64_t k = 0; k <= w.before + w.after; k++) {
		qn_dim from = qn_dim_const(k);
		const char *part = qn_move_emit_slice(e, squares, 1, from, qn_dim_add(e->graph->dims, s->dim[1], from));
		sum = sum ? qn_emit_temp(e, "sum", "add(%s, %s)", sum, part) : qn_emit_temp(e, "sum", "%s", part);
	}
	qn_emit_output(e, 0, "div(%s, pow(add(mul(%s, %s), %s), %s))", x, sum, qn_emit_float(e, w.alpha), qn_emit_float(e, w.bias),
		qn_emit_float(e, w.beta));
	return QUERN_OK;
}

const qn_op qn_op_lrn = {
	.name = "LRN",
	.min_in = 1,
	.max_in = 1,
	.infer = infer,
	.eval = eval,
	.emit = emit,
};
