#include "graph/ops/_reduce.h"

QN_FOLD(fold_f64, double, v, a + b)
QN_FOLD(fold_i64, int64_t, v, (int64_t)((uint64_t)a + (uint64_t)b))

static float sum_engine(float sum, int64_t n) { return ((void)n, sum); }

static const qn_reducer reducer = {.start = QN_START_ZERO, .f64 = fold_f64, .i64 = fold_i64, .dim = qn_dim_add, .engine = sum_engine};

static qn_status emit(qn_emit *e) { return qn_reduce_emit(e, "sum_reduce"); }

QN_REDUCE_ROW(reduce_sum, "ReduceSum", 1);
