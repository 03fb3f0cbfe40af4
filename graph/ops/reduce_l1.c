#include "graph/ops/_reduce.h"

QN_FOLD(fold_f64, double, fabs(v), a + b)
QN_FOLD(fold_i64, int64_t, v < 0 ? (int64_t)(0 - (uint64_t)v) : v, (int64_t)((uint64_t)a + (uint64_t)b))

static const qn_reducer reducer = {.start = QN_START_ZERO, .f64 = fold_f64, .i64 = fold_i64};

static qn_status emit(qn_emit *e)
{
	const char *axes, *x = qn_emit_ref(e, e->node->in[0]);
	QN_TRY(qn_reduce_emit_axes(e, &axes));
	x = qn_arena_printf(e->arena, "abs(%s)", x);
	if (axes)
		x = qn_arena_printf(e->arena, "sum_reduce(%s, axes=%s)", x, axes);
	return qn_reduce_emit_done(e, axes, x);
}

QN_REDUCE_ROW(reduce_l1, "ReduceL1", 0);
