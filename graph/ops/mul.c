#include "graph/ops/_zip.h"

QN_ZIP_KERNELS(a * b, qn_wrap_mul(a, b))

static bool on_dim(qn_call *c, qn_dim a, qn_dim b, qn_dim *y)
{
	*y = qn_dim_mul(c->dims, a, b);
	return true;
}

/* A factor that is one over an integer divides: a size halved by a scale. */
static bool on_fraction(qn_call *c, qn_dim a, double b, qn_dim *y)
{
	double k = 1.0 / b;
	if (!(fabs(k) < 1e6) || fabs(k - nearbyint(k)) > 1e-6 * fabs(k))
		return false;
	return qn_zip_quotient(c, a, qn_dim_const((int64_t)nearbyint(k)), y);
}

static qn_status eval(qn_call *c)
{
	return qn_zip_eval(c, &(qn_zip){.kernel = QN_ZIP_ALL, .dim = on_dim, .fraction = on_fraction, .commutes = true});
}

static qn_status emit(qn_emit *e) { return qn_zip_emit(e, "mul"); }

const qn_op qn_op_mul = {
	.name = "Mul",
	.min_in = 2,
	.max_in = 2,
	.traits = QN_ELEMENTWISE | QN_HOMOGENEOUS,
	.dims_in = 3,
	.infer = qn_zip_infer,
	.eval = eval,
	.emit = emit,
};
