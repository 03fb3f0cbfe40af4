/* reverse_sequence.c - for each batch entry, its first sequence_lens[b] steps in reverse order, the others as they are. */
#include "graph/ops/_move.h"

static qn_status find_axes(qn_call *c, int *batch, int *time)
{
	QN_TRY(qn_move_need_rank(c, 0));
	QN_TRY(qn_call_axis(c, qn_node_int(c->node, "batch_axis", 1), c->in[0].shape.rank, batch));
	QN_TRY(qn_call_axis(c, qn_node_int(c->node, "time_axis", 0), c->in[0].shape.rank, time));
	if (*batch == *time)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "batch_axis and time_axis are both %d", *batch);
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	int batch, time;
	QN_TRY(find_axes(c, &batch, &time));
	if (c->in[1].shape.rank != 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the lengths have rank %d, not 1", c->in[1].shape.rank);
	QN_TRY(qn_call_equate(c, c->in[1].shape.dim[0], c->in[0].shape.dim[batch], "there must be one length for each batch entry"));
	return qn_infer_same(c);
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0];
	int batch, time;
	QN_TRY(find_axes(c, &batch, &time));
	const int64_t *len = qn_move_i64(c, 1);
	size_t elem = qn_dtype_size(x->type);
	int64_t stride[QN_MAX_RANK], back[QN_MAX_RANK], dim[QN_MAX_RANK];
	qn_move_strides(x->rank, x->dim, stride);
	memcpy(back, stride, sizeof back);
	memcpy(dim, x->dim, sizeof dim);
	back[time] = -stride[time];
	dim[batch] = 1;
	qn_move_bytes(QN_OUT(c, 0, void), x->data, qn_tensor_bytes(x), c->threads);
	for (int64_t b = 0; b < x->dim[batch]; b++) {
		if (len[b] < 0 || len[b] > x->dim[time])
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "length %lld of batch entry %lld is out of range for %lld steps", (long long)len[b],
				(long long)b, (long long)x->dim[time]);
		if (len[b] == 0)
			continue;
		dim[time] = len[b];
		int64_t to = b * stride[batch], from = to + (len[b] - 1) * stride[time];
		qn_move_box(x->rank, dim, (const char *)x->data + (size_t)from * elem, back, QN_OUT(c, 0, char) + (size_t)to * elem, stride,
			elem, c->threads);
	}
	return QUERN_OK;
}

/* A gather along the time axis by positions computed from the lengths. */
static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	int batch, time, n = 0, rank = c.in[0].shape.rank;
	QN_TRY(find_axes(&c, &batch, &time));
	int64_t axes[QN_MAX_RANK];
	for (int i = 0; i < rank; i++)
		if (i != batch)
			axes[n++] = i;
	const char *steps = qn_move_emit_steps(e, c.in[0].shape.dim[time], time, rank);
	const char *len = qn_emit_temp(e, "lengths", "unsqueeze(%s, axes=%s)", qn_emit_ref(e, e->node->in[1]), qn_emit_ints(e, axes, n));
	const char *left = qn_emit_temp(e, "left", "%s - %s", len, steps);
	const char *at = qn_emit_temp(e, "at", "select(gt(%s, 0.0), %s - 1.0, %s)", left, left, steps);
	qn_emit_output(e, 0, "tract_core_gather_elements(%s, tract_core_broadcast(%s, shape=%s), axis=%d)", qn_emit_ref(e, e->node->in[0]),
		at, qn_emit_shape(e, &c.in[0].shape), time);
	return QUERN_OK;
}

const qn_op qn_op_reverse_sequence = {
	.name = "ReverseSequence", .since = 10, .min_in = 2, .max_in = 2, .infer = infer, .eval = eval, .emit = emit};
