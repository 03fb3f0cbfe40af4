#include "graph/ops/_arg.h"
#include "graph/ops/_lines.h"
#include "graph/ops/_move.h"

static qn_status axis_of(qn_call *c, int *axis) { return qn_call_axis(c, qn_node_int(c->node, "axis", 0), c->in[0].shape.rank, axis); }

qn_status qn_arg_infer(qn_call *c)
{
	int axis;
	QN_TRY(qn_move_need_rank(c, 0));
	QN_TRY(axis_of(c, &axis));
	qn_shape y = {.rank = 0};
	for (int a = 0; a < c->in[0].shape.rank; a++) {
		if (a != axis)
			y.dim[y.rank++] = c->in[0].shape.dim[a];
		else if (qn_node_int(c->node, "keepdims", 1))
			y.dim[y.rank++] = qn_dim_const(1);
	}
	c->out[0] = (qn_fact){.type = QN_I64, .shape = y};
	return QUERN_OK;
}

/* NaN counts as the extreme, as in numpy; of equals the first, or the last. */
static int64_t best_real(const double *x, int64_t n, bool largest, bool last)
{
	int64_t best = 0;
	for (int64_t i = 1; i < n; i++) {
		bool better = largest ? x[i] > x[best] : x[i] < x[best];
		bool first_nan = x[i] != x[i] && x[best] == x[best];
		if (better || first_nan || (last && x[i] == x[best]))
			best = i;
	}
	return best;
}

static int64_t best_int(const int64_t *x, int64_t n, bool largest, bool last, bool u)
{
	int64_t best = 0;
	for (int64_t i = 1; i < n; i++) {
		uint64_t flip = u ? (uint64_t)1 << 63 : 0;
		int64_t a = (int64_t)((uint64_t)x[i] ^ flip), b = (int64_t)((uint64_t)x[best] ^ flip);
		if ((largest ? a > b : a < b) || (last && a == b))
			best = i;
	}
	return best;
}

qn_status qn_arg_eval(qn_call *c, bool largest)
{
	const qn_tensor *x = c->x[0];
	int axis;
	QN_TRY(axis_of(c, &axis));
	qn_lines l = qn_lines_of(x, axis, axis);
	bool last = qn_node_int(c->node, "select_last_index", 0) != 0, reals = qn_dtype_is_float(x->type), u = qn_dtype_is_unsigned(x->type);
	if (!qn_dtype_is_numeric(x->type))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "no order of elements of type %s", qn_dtype_name(x->type));
	if (l.n == 0 && l.outer * l.inner > 0)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "axis %d is empty, so it has no extreme", axis);
	int64_t *y = QN_OUT(c, 0, int64_t);
	int threads = qn_span_threads(c, l.outer * l.n * l.inner);
	double *buffers = QN_NEW(c->scratch, double, (int64_t)threads * l.n + 1);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
	for (int t = 0; t < threads; t++) {
		double *line = buffers + t * l.n;
		for (int64_t k = l.outer * l.inner * t / threads; k < l.outer * l.inner * (t + 1) / threads; k++) {
			int64_t base = k / l.inner * l.n * l.inner + k % l.inner;
			for (int64_t i = 0; i < l.n; i++) {
				if (reals)
					qn_span_load_f64(x->data, x->type, base + i * l.inner, 1, line + i);
				else
					qn_span_load(x->data, x->type, base + i * l.inner, 1, line + i);
			}
			y[k] = reals ? best_real(line, l.n, largest, last) : best_int((const int64_t *)(const void *)line, l.n, largest, last, u);
		}
	}
	return QUERN_OK;
}

qn_status qn_arg_emit(qn_emit *e, bool largest)
{
	qn_call c = qn_move_call(e);
	int axis;
	QN_TRY(axis_of(&c, &axis));
	bool last = qn_node_int(e->node, "select_last_index", 0) != 0;
	const char *verb = largest ? (last ? "tract_core_argmax_reduce_last" : "argmax_reduce")
				   : (last ? "tract_core_argmin_reduce_last" : "argmin_reduce");
	const char *text = qn_arena_printf(e->arena, "%s(%s, axes=[%d])", verb, qn_emit_ref(e, e->node->in[0]), axis);
	if (!qn_node_int(e->node, "keepdims", 1))
		text = qn_arena_printf(e->arena, "squeeze(%s, axes=[%d])", text, axis);
	qn_emit_output(e, 0, "%s", text);
	return QUERN_OK;
}
