#include "graph/ops/_act.h"
#include "graph/ops/_gemm.h"
#include "graph/ops/_linear.h"

static qn_status infer(qn_call *c)
{
	int bits = qn_act_get(c->node).bits;
	if (c->in[0].type != QN_F32 || c->in[0].shape.rank < 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the activation is of type %s and rank %d, it must be f32 of rank 1 or more",
			qn_dtype_name(c->in[0].type), c->in[0].shape.rank);
	if (bits < 1 || bits > 8)
		QN_OP_FAIL(c, QUERN_ERR_CONFIG, "activations of %d bits, it can be 1 to 8", bits);
	return qn_infer_same(c);
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *t = c->x[0];
	int64_t k = t->dim[t->rank - 1], rows = k ? qn_tensor_count(t) / k : 0;
	const float *x = t->data;
	float *y = QN_OUT(c, 0, float), range = qn_rows_range(qn_act_get(c->node).bits);
	int threads = qn_threads_for(c->threads, (double)(rows * k));
#pragma omp parallel for num_threads(threads) if (threads > 1)
	for (int64_t r = 0; r < rows; r++) {
		float unit = qn_rows_split(x + r * k, k, range, y + r * k, NULL);
		for (int64_t i = 0; i < k; i++)
			y[r * k + i] *= unit;
	}
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	const qn_value *in = e->node->in[0];
	int rank = in->fact.shape.rank;
	float range = qn_rows_range(qn_act_get(e->node).bits);
	const char *m, *v = qn_rows_emit_steps(e, qn_emit_ref(e, e->node->in[0]), rank, range, &m);
	qn_emit_output(e, 0, "%s * (%s * %s)", v, m, qn_emit_float(e, 1.0f / range));
	return QUERN_OK;
}

/* x f32, rank 1 or more; attribute act_bits (1..8). What is left of x when each row (last axis) is rounded to integers with the scale of its
 * largest magnitude. */
const qn_op qn_op_fake_quant_rows = {
	.name = "FakeQuantRows", .domain = "quern", .min_in = 1, .max_in = 1, .infer = infer, .eval = eval, .emit = emit};
