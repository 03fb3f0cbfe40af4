#include "graph/ops/_reduce.h"

/* NaN wins */
QN_FOLD(fold_f64, double, v, (b > a) | (b != b) ? b : a)
QN_FOLD(fold_i64, int64_t, v, b > a ? b : a)

static const qn_reducer reducer = {.start = QN_START_LOWEST, .f64 = fold_f64, .i64 = fold_i64, .dim = qn_dim_max};

static qn_status emit(qn_emit *e)
{
	if (e->node->in[0]->fact.type == QN_BOOL)
		return qn_reduce_emit(e, "any_reduce");
	return qn_reduce_emit_extreme(e, "max_reduce", "-inf");
}

QN_REDUCE_ROW(reduce_max, "ReduceMax", 1);
