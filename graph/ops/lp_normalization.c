#include "graph/ops/_lines.h"
#include "graph/ops/_move.h"

static qn_status axis_of(qn_call *c, int *axis)
{
	int64_t p = qn_node_int(c->node, "p", 2);
	if (p != 1 && p != 2)
		QN_OP_FAIL(c, QUERN_ERR_FORMAT, "attribute p is %lld: 1 or 2 is needed", (long long)p);
	return qn_call_axis(c, qn_node_int(c->node, "axis", -1), c->in[0].shape.rank, axis);
}

static qn_status infer(qn_call *c)
{
	int axis;
	QN_TRY(qn_move_need_rank(c, 0));
	QN_TRY(axis_of(c, &axis));
	return qn_infer_same(c);
}

/* A line of norm 0 stays 0. */
static void line(double *x, int64_t n, const void *user)
{
	double norm = 0.0;
	bool squares = *(const bool *)user;
	for (int64_t i = 0; i < n; i++)
		norm += squares ? x[i] * x[i] : fabs(x[i]);
	norm = squares ? sqrt(norm) : norm;
	for (int64_t i = 0; i < n; i++)
		x[i] = norm == 0.0 ? 0.0 : x[i] / norm;
}

static qn_status eval(qn_call *c)
{
	int axis;
	QN_TRY(axis_of(c, &axis));
	bool squares = qn_node_int(c->node, "p", 2) == 2;
	return qn_lines_run(c, c->x[0], &c->y[0], qn_lines_of(c->x[0], axis, axis), line, NULL, &squares);
}

static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	int axis;
	QN_TRY(axis_of(&c, &axis));
	const char *x = qn_emit_ref(e, e->node->in[0]), *norm;
	if (qn_node_int(e->node, "p", 2) == 2)
		norm = qn_emit_temp(e, "norm", "sqrt(sum_reduce(mul(%s, %s), axes=[%d]))", x, x, axis);
	else
		norm = qn_emit_temp(e, "norm", "sum_reduce(abs(%s), axes=[%d])", x, axis);
	qn_emit_output(e, 0, "div(%s, select(eq(%s, 0.0), add(%s, 1.0), %s))", x, norm, norm, norm);
	return QUERN_OK;
}

const qn_op qn_op_lp_normalization = {
	.name = "LpNormalization",
	.min_in = 1,
	.max_in = 1,
	.infer = infer,
	.eval = eval,
	.emit = emit,
};
