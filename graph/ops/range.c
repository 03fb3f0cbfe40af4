/* range.c - start, start + delta, ... before limit. Bounds may be symbolic; floats that are whole numbers count as integers. */
#include "graph/ops/_move.h"

#include <math.h>

typedef struct bounds {
	bool whole; /* all three are integers, as dims */
	qn_dim d[3];
	double v[3];
} bounds;

static qn_status find_bounds(qn_call *c, bounds *b)
{
	static const char *const what[] = {"the start", "the limit", "the step"};
	b->whole = true;
	for (int i = 0; i < 3; i++) {
		const qn_tensor *t = c->in[i].value;
		if (!t)
			return qn_call_data_dependent(c, i, what[i]);
		if (qn_tensor_count(t) != 1)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%s is not a scalar", what[i]);
		if (t->type == QN_DIM) {
			b->d[i] = *(const qn_dim *)t->data;
			b->v[i] = qn_dim_is_const(b->d[i]) ? (double)b->d[i].k : (double)NAN;
			continue;
		}
		b->v[i] = qn_tensor_get(t, 0);
		if (!qn_dtype_is_float(t->type))
			b->d[i] = qn_dim_const(qn_tensor_get_i64(t, 0));
		else if (floor(b->v[i]) == b->v[i] && fabs(b->v[i]) < 9e15)
			b->d[i] = qn_dim_const((int64_t)b->v[i]);
		else
			b->whole = false;
	}
	if (b->whole && !qn_dim_is_const(b->d[2]))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "the step is '%s', not a number; bind the symbol with --set",
			qn_dim_text(c->scratch, b->d[2], NULL, NULL));
	if (b->whole ? b->d[2].k == 0 : b->v[2] == 0)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the step is 0");
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	bounds b;
	QN_TRY(find_bounds(c, &b));
	qn_dim n;
	if (b.whole) {
		bool up = b.d[2].k > 0;
		qn_dim from = up ? b.d[0] : b.d[1], to = up ? b.d[1] : b.d[0];
		n = qn_dim_const(0);
		if (qn_dim_le(c->dims, to, from) != QN_TRUE)
			n = qn_dim_ceildiv(c->dims, qn_dim_sub(c->dims, to, from), qn_dim_const(up ? b.d[2].k : -b.d[2].k));
	} else {
		double count = ceil((b.v[1] - b.v[0]) / b.v[2]);
		if (count != count || count > 9e15)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "a range from %g to %g by %g has no size", b.v[0], b.v[1], b.v[2]);
		n = qn_dim_const(count < 0 ? 0 : (int64_t)count);
	}
	c->out[0].type = c->in[0].type;
	c->out[0].shape = (qn_shape){1, {n}};
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	bounds b;
	QN_TRY(find_bounds(c, &b));
	int64_t n = c->y[0].dim[0];
	if (c->y[0].type == QN_DIM) {
		for (int64_t i = 0; i < n; i++)
			QN_OUT(c, 0, qn_dim)[i] = qn_dim_add(c->dims, b.d[0], qn_dim_const(b.d[2].k * i));
	} else if (qn_dtype_is_int(c->y[0].type)) {
		for (int64_t i = 0; i < n; i++)
			qn_move_put(c, 0, i, b.d[0].k + b.d[2].k * i);
	} else {
		for (int64_t i = 0; i < n; i++)
			qn_tensor_set(QN_OUT(c, 0, void), c->y[0].type, i, b.v[0] + b.v[2] * (double)i);
	}
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	bounds b;
	QN_TRY(find_bounds(&c, &b));
	const char *type = qn_emit_dtype(e->node->out[0]->fact.type);
	if (b.whole)
		qn_emit_output(e, 0, "tract_core_cast(tract_core_range(%s, %s, %s), to='%s')", qn_emit_dim(e, b.d[0]),
			qn_emit_dim(e, b.d[1]), qn_emit_dim(e, b.d[2]), type);
	else
		qn_emit_output(e, 0, "tract_core_cast(tract_core_range(0, %s, 1), to='%s') * %s + %s",
			qn_emit_dim(e, c.out[0].shape.dim[0]), type, qn_emit_float(e, b.v[2]), qn_emit_float(e, b.v[0]));
	return QUERN_OK;
}

const qn_op qn_op_range = {
	.name = "Range", .also = "com.microsoft:Range", .min_in = 3, .max_in = 3, .dims_in = 7, .infer = infer, .eval = eval, .emit = emit};
