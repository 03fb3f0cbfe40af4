#include "graph/ops/_reduce.h"

QN_FOLD(fold_f64, double, v, a + b)
static double logarithm(double acc, int64_t n) { return n ? log(acc) : -INFINITY; }

static const qn_reducer reducer = {.start = QN_START_ZERO, .f64 = fold_f64, .finish = logarithm};

static qn_status emit(qn_emit *e)
{
	const char *axes, *x = qn_emit_ref(e, e->node->in[0]);
	QN_TRY(qn_reduce_emit_axes(e, &axes));
	qn_dtype type = e->node->in[0]->fact.type;
	if (!qn_dtype_is_float(type))
		x = qn_emit_temp(e, "real", "tract_core_cast(%s, to='f32')", x);
	if (axes)
		x = qn_arena_printf(e->arena, "sum_reduce(%s, axes=%s)", x, axes);
	x = qn_arena_printf(e->arena, "log(%s)", x);
	if (!qn_dtype_is_float(type))
		x = qn_arena_printf(e->arena, "tract_core_cast(%s, to='%s')", x, qn_emit_dtype(type));
	return qn_reduce_emit_done(e, axes, x);
}

QN_REDUCE_ROW(reduce_log_sum, "ReduceLogSum", 0);
