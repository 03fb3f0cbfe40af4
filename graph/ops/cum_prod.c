#include "graph/ops/_cumulate.h"
#include "graph/ops/_move.h"

static qn_status eval(qn_call *c) { return qn_cumulate_eval(c, true); }

/* "x moved `by` places along the axis, ones coming in", up or down. */
static const char *shifted(qn_emit *e, const char *x, int axis, int64_t n, int64_t by, bool down)
{
	const qn_shape *s = &e->node->in[0]->fact.shape;
	qn_text pads = {.arena = e->arena};
	for (int a = 0; a < s->rank; a++)
		qn_text_add(&pads, "%s(%lld, %lld)", a ? ", " : "", a == axis && !down ? (long long)by : 0LL, a == axis && down ? (long long)by : 0LL);
	const char *part = qn_move_emit_slice(e, x, axis, qn_dim_const(down ? by : 0), qn_dim_const(down ? n : n - by));
	return qn_arena_printf(e->arena, "pad(%s, padding=[%s], border='constant', value=1.0)", part, pads.s);
}

/* In log2(n) rounds, each multiplying with what lies 1, 2, 4 ... places back. */
static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	int axis;
	QN_TRY(qn_cumulate_axis(&c, &axis));
	qn_dim size = e->node->in[0]->fact.shape.dim[axis];
	if (!qn_dim_is_const(size))
		return qn_emit_fail(e, "a running product needs an axis of known size; bind the symbol with --set");
	bool down = qn_node_int(e->node, "reverse", 0) != 0;
	const char *x = qn_emit_ref(e, e->node->in[0]);
	if (qn_node_int(e->node, "exclusive", 0) && size.k > 1)
		x = qn_emit_temp(e, "before", "%s", shifted(e, x, axis, size.k, 1, down));
	else if (qn_node_int(e->node, "exclusive", 0))
		return qn_emit_fail(e, "no emission for the exclusive product over an axis of one");
	for (int64_t by = 1; by < size.k; by *= 2)
		x = qn_emit_temp(e, "product", "mul(%s, %s)", x, shifted(e, x, axis, size.k, by, down));
	qn_emit_output(e, 0, "copy(%s)", x);
	return QUERN_OK;
}

const qn_op qn_op_cum_prod = {
	.name = "CumProd",
	.min_in = 2,
	.max_in = 2,
	.infer = qn_cumulate_infer,
	.eval = eval,
	.emit = emit,
};
