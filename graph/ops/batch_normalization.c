#include "graph/ops/_move.h"
#include "graph/ops/_norm.h"

/* Inference form: statistics are inputs. Training mode would compute them from the batch: refused. */
static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	if (qn_node_int(c->node, "training_mode", 0))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "training_mode is set: export the model for inference (model.eval())");
	if (c->in[0].shape.rank < 2)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the input has rank %d: [N, C, ...] is needed", c->in[0].shape.rank);
	if (!qn_node_int(c->node, "spatial", 1))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "attribute spatial is 0: statistics for each element are not supported");
	for (int i = 1; i < 5; i++)
		QN_TRY(qn_norm_channels(c, i, c->in[0].shape.dim[1]));
	for (int o = 1; o < c->node->n_out; o++)
		if (qn_call_wants(c, o))
			QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "output %d exists in training only: export the model for inference (model.eval())", o);
	return qn_infer_same(c);
}

#define CHANNEL(name, type)                                                                                            \
	QN_VECTOR static void name(const type *x, type *y, int64_t n, type mean, type by, type add)                    \
	{                                                                                                              \
		QN_SIMD for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * by + add;                               \
	}
CHANNEL(channel_f32, float)
CHANNEL(channel_f64, double)

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *y = &c->y[0];
	int64_t channels = x->dim[1], rows = x->dim[0] * channels, n = 1, count = qn_tensor_count(x);
	double epsilon = (double)qn_node_float(c->node, "epsilon", 1e-5f);
	if (!qn_dtype_is_float(x->type))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "elements of type %s: floats are needed", qn_dtype_name(x->type));
	double *param[4]; /* scale, bias, mean, variance */
	for (int i = 0; i < 4; i++) {
		param[i] = QN_NEW(c->scratch, double, channels + 1);
		qn_convert(c->x[i + 1]->data, c->x[i + 1]->type, param[i], QN_F64, channels);
	}
	for (int a = 2; a < x->rank; a++)
		n *= x->dim[a];
	const float *in = x->type == QN_F64 ? NULL : qn_tensor_f32(c->scratch, x);
	float *out = y->type == QN_F32 ? QN_OUT(c, 0, float) : QN_NEW(c->scratch, float, count + 1);
	int threads = qn_span_threads(c, count);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
	for (int64_t r = 0; r < rows; r++) {
		int64_t k = r % channels;
		double by = param[0][k] / sqrt(param[3][k] + epsilon);
		if (in)
			channel_f32(in + r * n, out + r * n, n, (float)param[2][k], (float)by, (float)param[1][k]);
		else
			channel_f64((const double *)x->data + r * n, QN_OUT(c, 0, double) + r * n, n, param[2][k], by, param[1][k]);
	}
	if (in && y->type != QN_F32)
		qn_convert(out, QN_F32, QN_OUT(c, 0, void), y->type, count);
	return QUERN_OK;
}

/* Constant parameters become one factor and one addend a channel. */
static qn_status folded(qn_emit *e, int rank, const char **by, const char **add)
{
	const qn_tensor *p[4];
	int64_t n = 0, dim[QN_MAX_RANK];
	for (int i = 0; i < 4; i++) {
		QN_TRY(qn_move_const(e, i + 1, &p[i]));
		if (!p[i])
			return QUERN_OK;
		n = qn_tensor_count(p[i]);
	}
	for (int a = 0; a < rank; a++)
		dim[a] = a == 1 ? n : 1;
	double epsilon = (double)qn_node_float(e->node, "epsilon", 1e-5f);
	qn_tensor *f = qn_tensor_new(e->arena, QN_F32, rank, dim), *t = qn_tensor_new(e->arena, QN_F32, rank, dim);
	for (int64_t k = 0; k < n; k++) {
		double factor = qn_tensor_get(p[0], k) / sqrt(qn_tensor_get(p[3], k) + epsilon);
		((float *)(uintptr_t)f->data)[k] = (float)factor;
		((float *)(uintptr_t)t->data)[k] = (float)(qn_tensor_get(p[1], k) - qn_tensor_get(p[2], k) * factor);
	}
	*by = qn_emit_constant(e, "factor", f);
	*add = qn_emit_constant(e, "addend", t);
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	int rank = e->node->in[0]->fact.shape.rank;
	const char *by = NULL, *add = NULL, *x = qn_norm_emit_wide(e, qn_emit_ref(e, e->node->in[0]));
	const char *epsilon = qn_emit_float(e, (double)qn_node_float(e->node, "epsilon", 1e-5f));
	QN_TRY(folded(e, rank, &by, &add));
	const char *y;
	if (by) {
		y = qn_arena_printf(e->arena, "add(mul(%s, %s), %s)", x, by, add);
	} else {
		const char *p[5];
		for (int i = 1; i < 5; i++) {
			p[i] = qn_norm_channel_param(e, i, rank);
			if (e->node->in[i]->fact.type != QN_F32)
				p[i] = qn_arena_printf(e->arena, "tract_core_cast(%s, to='f32')", p[i]);
		}
		y = qn_arena_printf(e->arena, "add(mul(sub(%s, %s), mul(%s, rsqrt(add(%s, %s)))), %s)", x, p[3], p[1], p[4], epsilon, p[2]);
	}
	qn_emit_output(e, 0, "%s", qn_norm_emit_narrow(e, y));
	return QUERN_OK;
}

const qn_op qn_op_batch_normalization = {
	.name = "BatchNormalization",
	.since = 7,
	.min_in = 5,
	.max_in = 5,
	.max_out = 5,
	.infer = infer,
	.eval = eval,
	.emit = emit,
};
