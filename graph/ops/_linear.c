#include "graph/ops/_linear.h"
#include "graph/ops/_gemm.h"

#include <math.h>

qn_status qn_linear_infer(qn_call *c, int bias)
{
	const qn_fact *x = &c->in[0], *w = &c->in[1];
	if (x->type != QN_F32)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the activation is of type %s, it must be f32", qn_dtype_name(x->type));
	if (x->shape.rank < 1 || w->shape.rank != 2)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "activation of rank %d and weight of rank %d, they must be at least 1 and exactly 2", x->shape.rank,
			w->shape.rank);
	QN_TRY(qn_call_equate(c, x->shape.dim[x->shape.rank - 1], w->shape.dim[1], "the contraction dims of activation and weight"));
	c->out[0].type = QN_F32;
	c->out[0].shape = x->shape;
	c->out[0].shape.dim[x->shape.rank - 1] = w->shape.dim[0];
	if (!qn_call_has(c, bias))
		return QUERN_OK;
	if (c->in[bias].type != QN_F32 || c->in[bias].shape.rank != 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the bias is of type %s and rank %d, it must be f32 of rank 1", qn_dtype_name(c->in[bias].type),
			c->in[bias].shape.rank);
	return qn_call_equate(c, c->in[bias].shape.dim[0], w->shape.dim[0], "the bias and the rows of the weight");
}

const char *qn_linear_einsum(qn_emit *e, const char *x, int rank, const char *w, const char *acc)
{
	char lead[QN_MAX_RANK] = {0};
	for (int i = 0; i + 1 < rank; i++)
		lead[i] = (char)('a' + i);
	return qn_arena_printf(e->arena, "tract_core_einsum([%s, %s], expr='%sk,nk->%sn', acc='%s', output='')", x, w, lead, lead, acc);
}

void qn_linear_add_bias(qn_call *c, float *y, const float *bias, int64_t rows, int64_t n)
{
	int threads = qn_threads_for(c->threads, (double)(rows * n));
#pragma omp parallel for num_threads(threads) if (threads > 1)
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < n; j++)
			y[i * n + j] += bias[j];
}

float qn_rows_range(int bits)
{
	return bits > 8 ? 32639.0f : (float)((1 << ((bits < 2 ? 2 : bits) - 1)) - 1);
}

/* The engine divides by multiplying with a reciprocal, so that is what is written, and done here. */
float qn_rows_split(const float *x, int64_t k, float range, float *hi, float *lo)
{
	float m = 0;
	for (int64_t i = 0; i < k; i++)
		m = fabsf(x[i]) > m ? fabsf(x[i]) : m;
	m = m > 1e-10f ? m : 1e-10f;
	float f = 1.0f / m * range;
	for (int64_t i = 0; i < k; i++) {
		float v = roundf(x[i] * f);
		if (!lo) {
			hi[i] = v;
			continue;
		}
		hi[i] = floorf((v + 128.0f) * 0.00390625f);
		lo[i] = v - hi[i] * 256.0f;
	}
	return m * (1.0f / range);
}

const char *qn_rows_emit_steps(qn_emit *e, const char *x, int rank, float range, const char **top)
{
	*top = qn_emit_temp(e, "top", "max(max_reduce(abs(%s), axes=[%d]), %s)", x, rank - 1, qn_emit_float(e, 1e-10f));
	return qn_emit_temp(e, "steps", "round(%s * (recip(%s) * %s))", x, *top, qn_emit_float(e, range));
}

void qn_linear_from_sums(qn_call *c, const qn_linear_sums *s, float *y)
{
	int threads = qn_threads_for(c->threads, (double)(s->rows * s->n));
#pragma omp parallel for num_threads(threads) if (threads > 1)
	for (int64_t r = 0; r < s->rows; r++) {
		const int32_t *yh = s->yh + r * s->n, *yl = s->yl ? s->yl + r * s->n : NULL;
		float *to = y + r * s->n, unit = s->unit ? s->unit[r] : 1.0f;
		for (int64_t j = 0; j < s->n; j++) {
			float v = (float)yh[j];
			if (yl)
				v = v * 256.0f + (float)yl[j];
			v = v * unit * s->scale[j];
			to[j] = s->bias ? v + s->bias[j] : v;
		}
	}
}
