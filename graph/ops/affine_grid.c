#include "graph/emit.h"

/* inputs: theta [N, d, d + 1], size [N, C, spatial...] */

static qn_status infer(qn_call *c)
{
	const qn_shape *theta = &c->in[0].shape;
	const qn_dim *size;
	int n;
	if (!qn_dtype_is_float(c->in[0].type) || theta->rank != 3)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "theta is of type %s and rank %d, it must be float of rank 3", qn_dtype_name(c->in[0].type), theta->rank);
	QN_TRY(qn_call_dims(c, 1, &size, &n));
	if (n < 0)
		return qn_call_data_dependent(c, 1, "the size of the grid");
	if (n != 4 && n != 5)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "size has %d entries, it must have 4 or 5", n);
	QN_TRY(qn_call_equate(c, theta->dim[0], size[0], "the batches of theta and size"));
	QN_TRY(qn_call_equate(c, theta->dim[1], qn_dim_const(n - 2), "the rows of theta and the spatial axes"));
	QN_TRY(qn_call_equate(c, theta->dim[2], qn_dim_const(n - 1), "the columns of theta and the spatial axes"));
	c->out[0].type = c->in[0].type;
	c->out[0].shape = (qn_shape){.rank = n, .dim = {theta->dim[0]}};
	for (int i = 2; i < n; i++)
		c->out[0].shape.dim[i - 1] = size[i];
	c->out[0].shape.dim[n - 1] = qn_dim_const(n - 2);
	return QUERN_OK;
}

/* Homogeneous coordinates of every grid point, last spatial axis first: [points, d + 1]. */
static qn_tensor *base_grid(qn_arena *a, const int64_t *spatial, int d, bool align)
{
	int64_t dim[2] = {1, d + 1};
	for (int i = 0; i < d; i++)
		dim[0] *= spatial[i];
	qn_tensor *t = qn_tensor_new(a, QN_F32, 2, dim);
	float *v = (float *)(uintptr_t)t->data;
	for (int64_t p = 0; p < dim[0]; p++) {
		int64_t rest = p;
		for (int i = d - 1; i >= 0; i--) {
			int64_t at = rest % spatial[i], n = spatial[i];
			rest /= n;
			v[p * (d + 1) + d - 1 - i] = align ? (n > 1 ? (float)(2 * at) / (float)(n - 1) - 1 : 0) : (float)(2 * at + 1) / (float)n - 1;
		}
		v[p * (d + 1) + d] = 1;
	}
	return t;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *y = &c->y[0];
	int d = y->rank - 2;
	const qn_tensor *base = base_grid(c->scratch, y->dim + 1, d, qn_node_int(c->node, "align_corners", 0) != 0);
	const float *theta = qn_tensor_f32(c->scratch, c->x[0]), *b = base->data;
	for (int64_t i = 0; i < qn_tensor_count(y); i++) {
		int64_t row = i % d, point = i / d % base->dim[0], image = i / d / base->dim[0];
		double sum = 0;
		for (int k = 0; k <= d; k++)
			sum += (double)theta[(image * d + row) * (d + 1) + k] * (double)b[point * (d + 1) + k];
		qn_tensor_set(QN_OUT(c, 0, void), y->type, i, sum);
	}
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	const qn_node *n = e->node;
	const qn_shape *y = &n->out[0]->fact.shape;
	int64_t spatial[3] = {0};
	for (int i = 1; i + 1 < y->rank; i++) {
		if (!qn_dim_is_const(y->dim[i]))
			return qn_emit_fail(e, "a grid of symbolic size is not expressible: bind the symbol with --set");
		spatial[i - 1] = y->dim[i].k;
	}
	if (n->in[0]->fact.type != QN_F32)
		return qn_emit_fail(e, "theta of type %s is not expressible", qn_dtype_name(n->in[0]->fact.type));
	const char *base = qn_emit_constant(e, "base", base_grid(e->arena, spatial, y->rank - 2, qn_node_int(n, "align_corners", 0) != 0));
	const char *points = qn_emit_temp(e, "points", "tract_core_einsum([%s, %s], expr='pk,nik->npi', acc='f32', output='')", base,
		qn_emit_ranked(e, n->in[0], 3));
	qn_emit_output(e, 0, "reshape(%s, shape=%s)", points, qn_emit_shape(e, y));
	return QUERN_OK;
}

const qn_op qn_op_affine_grid = {
	.name = "AffineGrid", .since = 20, .min_in = 2, .max_in = 2, .infer = infer, .eval = eval, .emit = emit};
