#include "graph/op.h"
#include <math.h>

static qn_status infer(qn_call *c)
{
	const qn_shape *x = &c->in[0].shape;
	if (!qn_dtype_is_float(c->in[0].type) || x->rank < 2)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "input of type %s and rank %d, it must be float matrices", qn_dtype_name(c->in[0].type), x->rank);
	QN_TRY(qn_call_equate(c, x->dim[x->rank - 2], x->dim[x->rank - 1], "the sides of the matrices"));
	c->out[0].type = c->in[0].type;
	c->out[0].shape = *x;
	c->out[0].shape.rank -= 2;
	return QUERN_OK;
}

/* Elimination with partial pivoting; spoils m. */
static double determinant(double *m, int64_t n)
{
	double det = 1;
	for (int64_t k = 0; k < n; k++) {
		int64_t pivot = k;
		for (int64_t i = k + 1; i < n; i++)
			pivot = fabs(m[i * n + k]) > fabs(m[pivot * n + k]) ? i : pivot;
		if (m[pivot * n + k] == 0)
			return 0;
		for (int64_t j = 0; pivot != k && j < n; j++) {
			double t = m[k * n + j];
			m[k * n + j] = m[pivot * n + j];
			m[pivot * n + j] = t;
		}
		det *= pivot != k ? -m[k * n + k] : m[k * n + k];
		for (int64_t i = k + 1; i < n; i++) {
			double f = m[i * n + k] / m[k * n + k];
			for (int64_t j = k; j < n; j++)
				m[i * n + j] -= f * m[k * n + j];
		}
	}
	return det;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0];
	int64_t n = x->dim[x->rank - 1];
	double *m = QN_NEW(c->scratch, double, n * n);
	for (int64_t i = 0; i < qn_tensor_count(&c->y[0]); i++) {
		for (int64_t k = 0; k < n * n; k++)
			m[k] = qn_tensor_get(x, i * n * n + k);
		qn_tensor_set(QN_OUT(c, 0, void), x->type, i, determinant(m, n));
	}
	return QUERN_OK;
}

/* Not expressible in NNEF. */
const qn_op qn_op_det = {.name = "Det", .since = 11, .min_in = 1, .max_in = 1, .infer = infer, .eval = eval};
