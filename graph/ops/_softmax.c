#include "graph/ops/_softmax.h"
#include "graph/ops/_move.h"

qn_status qn_softmax_axes(qn_call *c, int *first, int *last)
{
	bool flattens = c->node->opset < 13;
	int rank = c->in[0].shape.rank;
	if (rank == 0) { /* a scalar is a line of one */
		*first = *last = 0;
		return QUERN_OK;
	}
	int64_t axis = qn_node_int(c->node, "axis", flattens ? 1 : -1);
	if (flattens && axis == rank) { /* an empty line: every element alone */
		*first = rank;
		*last = rank - 1;
		return QUERN_OK;
	}
	QN_TRY(qn_call_axis(c, axis, rank, first));
	*last = flattens ? rank - 1 : *first;
	return QUERN_OK;
}

qn_status qn_softmax_infer(qn_call *c)
{
	int first, last;
	QN_TRY(qn_move_need_rank(c, 0));
	QN_TRY(qn_softmax_axes(c, &first, &last));
	return qn_infer_same(c);
}

typedef float lanes __attribute__((vector_size(32)));
typedef int32_t lane_masks __attribute__((vector_size(32)));

/* The largest number, NaN passed over; eight lanes, joined at the end. */
QN_VECTOR float qn_row_max(const float *x, int64_t n)
{
	float lane[8], top = -INFINITY;
	lanes best = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY}, v;
	int64_t i = 0;
	for (; i + 8 <= n; i += 8) {
		memcpy(&v, x + i, sizeof v);
		lane_masks more = v > best;
		best = (lanes)((more & (lane_masks)v) | (~more & (lane_masks)best));
	}
	for (; i < n; i++)
		top = x[i] > top ? x[i] : top;
	memcpy(lane, &best, sizeof lane);
	for (int l = 0; l < 8; l++)
		top = lane[l] > top ? lane[l] : top;
	return top;
}

QN_VECTOR static void exponentials(const float *x, float *y, int64_t n, float top)
{
	QN_SIMD for (int64_t k = 0; k < n; k++) y[k] = qn_exp_below(x[k] - top);
}

QN_VECTOR static double sum(const float *y, int64_t n)
{
	double lane[8] = {0}, rest = 0.0;
	int64_t i = 0;
	for (; i + 8 <= n; i += 8)
		for (int l = 0; l < 8; l++)
			lane[l] += (double)y[i + l];
	for (; i < n; i++)
		rest += (double)y[i];
	return rest + ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

double qn_row_exp(const float *x, float *y, int64_t n, float top)
{
	exponentials(x, y, n, top);
	return sum(y, n);
}

qn_status qn_softmax_eval(qn_call *c, qn_softmax_row row, qn_line_f64 line)
{
	const qn_tensor *x = c->x[0];
	int first, last;
	QN_TRY(qn_softmax_axes(c, &first, &last));
	if (!qn_dtype_is_float(x->type))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "elements of type %s: floats are needed", qn_dtype_name(x->type));
	qn_lines l = qn_lines_of(x, first, last);
	if (x->type != QN_F32 || l.inner != 1)
		return qn_lines_run(c, x, &c->y[0], l, line, NULL, NULL);
	const float *in = x->data;
	float *out = QN_OUT(c, 0, float);
	int threads = qn_span_threads(c, l.outer * l.n);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
	for (int64_t k = 0; k < l.outer; k++)
		row(in + k * l.n, out + k * l.n, l.n, k * l.n);
	return QUERN_OK;
}

qn_status qn_softmax_emit_axes(qn_emit *e, const char **axes)
{
	qn_call c = qn_move_call(e);
	int first, last, n = 0;
	int64_t list[QN_MAX_RANK];
	QN_TRY(qn_softmax_axes(&c, &first, &last));
	if (c.in[0].shape.rank == 0)
		return qn_emit_fail(e, "no emission along the axes of a scalar");
	for (int a = first; a <= last; a++)
		list[n++] = a;
	*axes = qn_emit_ints(e, list, n);
	return QUERN_OK;
}
