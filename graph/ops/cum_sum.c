#include "graph/ops/_apart.h"
#include "graph/ops/_cumulate.h"
#include "graph/ops/_move.h"

static qn_status eval(qn_call *c) { return qn_cumulate_eval(c, false); }

/* A product with a triangle of ones. The engine multiplies floats only: integers are right up to 2^24. */
static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	int axis;
	QN_TRY(qn_cumulate_axis(&c, &axis));
	const qn_shape *s = &e->node->in[0]->fact.shape;
	qn_dtype type = e->node->in[0]->fact.type;
	bool reverse = qn_node_int(e->node, "reverse", 0) != 0, exclusive = qn_node_int(e->node, "exclusive", 0) != 0;
	if (e->target != QN_TARGET_TRACT)
		return qn_emit_fail(e, "standard NNEF has no running sum");
	const char *x = qn_emit_ref(e, e->node->in[0]), *n = qn_emit_dim(e, s->dim[axis]);
	if (type != QN_F32)
		x = qn_emit_temp(e, "real", "tract_core_cast(%s, to='f32')", x);
	if (qn_is_broadcast(e->node->in[0], s->rank, true))
		x = qn_emit_apart(e, x);
	const char *ones = qn_emit_temp(e, "triangle", "tract_core_trilu(tract_core_broadcast([[1.0]], shape=[%s, %s]), upper=%s, k=%d)", n, n,
		reverse ? "false" : "true", !exclusive ? 0 : reverse ? -1 : 1);
	char from[QN_MAX_RANK + 1] = {0}, to[QN_MAX_RANK + 1] = {0};
	for (int a = 0; a < s->rank; a++) {
		from[a] = (char)('a' + a);
		to[a] = a == axis ? 'z' : from[a];
	}
	const char *y = qn_arena_printf(e->arena, "tract_core_einsum([%s, %s], expr='%s,%cz->%s', acc='f32', output='')", x, ones, from,
		from[axis], to);
	if (type != QN_F32)
		y = qn_arena_printf(e->arena, "tract_core_cast(%s, to='%s')", y, qn_emit_dtype(type));
	qn_emit_output(e, 0, "%s", y);
	return QUERN_OK;
}

const qn_op qn_op_cum_sum = {
	.name = "CumSum",
	.min_in = 2,
	.max_in = 2,
	.infer = qn_cumulate_infer,
	.eval = eval,
	.emit = emit,
};
