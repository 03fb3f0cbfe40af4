#include "graph/ops/_window.h"

/* inputs: x, indices (into the tensor that the window's attributes give), output_shape */

static void natural(const qn_window *w, int axis, qn_dims *t, qn_dim in, qn_dim *out)
{
	qn_dim stride = qn_dim_const(w->stride[axis]);
	int64_t fixed = qn_window_span(w, axis) - w->before[axis] - w->after[axis] - w->stride[axis];
	*out = qn_dim_add(t, qn_dim_mul(t, in, stride), qn_dim_const(fixed));
}

static qn_status infer(qn_call *c)
{
	const qn_shape *x = &c->in[0].shape;
	qn_window w;
	QN_TRY(qn_window_of(c, x, NULL, &w));
	if (c->in[1].type != QN_I64 || c->in[1].shape.rank != x->rank)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "indices of type %s and rank %d for an input of rank %d", qn_dtype_name(c->in[1].type),
			c->in[1].shape.rank, x->rank);
	c->out[0].type = c->in[0].type;
	c->out[0].shape = *x;
	if (qn_call_has(c, 2)) {
		const qn_dim *want;
		int n;
		QN_TRY(qn_call_dims(c, 2, &want, &n));
		if (n < 0)
			return qn_call_data_dependent(c, 2, "output_shape");
		if (n != x->rank)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "output_shape has %d entries for an input of rank %d", n, x->rank);
		for (int i = 0; i < n; i++)
			c->out[0].shape.dim[i] = want[i];
		return QUERN_OK;
	}
	for (int i = 0; i < w.n; i++)
		natural(&w, i, c->dims, x->dim[i + 2], &c->out[0].shape.dim[i + 2]);
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *y = &c->y[0];
	qn_shape s = qn_shape_of(x);
	qn_window w;
	QN_TRY(qn_window_of(c, &s, NULL, &w));
	int64_t dim[QN_MAX_RANK] = {x->dim[0], x->dim[1]}, count = dim[0] * dim[1];
	for (int i = 0; i < w.n; i++) {
		qn_dim d;
		natural(&w, i, c->dims, s.dim[i + 2], &d);
		dim[i + 2] = d.k;
		count *= d.k;
	}
	size_t size = qn_dtype_size(x->type);
	const int64_t *index = QN_IN(c, 1, int64_t);
	char *out = QN_OUT(c, 0, char);
	for (int64_t p = 0; p < qn_tensor_count(x); p++) {
		int64_t rest = index[p], at = 0, step = 1;
		if (rest < 0 || rest >= count)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "index %lld is out of range for %lld elements", (long long)rest, (long long)count);
		bool inside = true;
		for (int d = x->rank - 1; d >= 0; d--) {
			inside = inside && rest % dim[d] < y->dim[d];
			at += rest % dim[d] * step;
			rest /= dim[d];
			step *= y->dim[d];
		}
		if (inside)
			memcpy(out + (size_t)at * size, (const char *)x->data + (size_t)p * size, size);
	}
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	const qn_node *n = e->node;
	const qn_value *out = n->out[0];
	const qn_shape *x = &n->in[0]->fact.shape;
	qn_window w;
	const char *why = qn_window_read(e->arena, n, x->rank - 2, &w);
	if (why || !qn_shape_is_const(&out->fact.shape) || !qn_shape_is_const(x))
		return qn_emit_fail(e, "%s", why ? why : "a max unpool of symbolic size is not expressible: bind the symbols with --set");
	qn_shape whole = *x;
	int64_t pads[QN_MAX_RANK] = {0};
	bool grows = false;
	for (int i = 0; i < w.n; i++) {
		natural(&w, i, e->graph->dims, x->dim[i + 2], &whole.dim[i + 2]);
		pads[i + 2] = out->fact.shape.dim[i + 2].k - whole.dim[i + 2].k;
		grows = grows || pads[i + 2];
		if (pads[i + 2] < 0)
			return qn_emit_fail(e, "an output_shape that cuts is not expressible");
	}
	int64_t count = qn_shape_count(e->graph->dims, &whole).k;
	qn_tensor *zeros = qn_tensor_new(e->arena, out->fact.type, 1, &count);
	const char *to = qn_emit_constant(e, "zeros", zeros);
	const char *index = qn_emit_temp(e, "index", "reshape(%s, shape=[-1])", qn_emit_ranked(e, n->in[1], x->rank));
	const char *v = qn_emit_temp(e, "values", "reshape(%s, shape=[-1])", qn_emit_ranked(e, n->in[0], x->rank));
	const char *flat = qn_emit_temp(e, "flat", "tract_core_scatter_elements(%s, %s, %s, axis=0)", to, index, v);
	const char *y = qn_arena_printf(e->arena, "reshape(%s, shape=%s)", flat, qn_emit_shape(e, &whole));
	if (grows) {
		qn_text p = {.arena = e->arena};
		for (int i = 0; i < x->rank; i++)
			qn_text_add(&p, "%s(0, %lld)", i ? ", " : "", (long long)pads[i]);
		y = qn_arena_printf(e->arena, "pad(%s, padding=[%s], border='constant', value=0.0)", qn_emit_temp(e, "whole", "%s", y), p.s);
	}
	qn_emit_output(e, 0, "%s", y);
	return QUERN_OK;
}

const qn_op qn_op_max_unpool = {.name = "MaxUnpool", .since = 9, .min_in = 2, .max_in = 3, .infer = infer, .eval = eval, .emit = emit};
