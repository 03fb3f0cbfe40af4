#include "graph/ops/_reduce.h"

QN_FOLD(fold_f64, double, v, a + b)
QN_FOLD(fold_i64, int64_t, v, (int64_t)((uint64_t)a + (uint64_t)b))
static double mean(double acc, int64_t n) { return acc / (double)n; }
static int64_t mean_int(int64_t acc, int64_t n) { return n ? acc / n : 0; }

static const qn_reducer reducer = {.start = QN_START_ZERO, .f64 = fold_f64, .i64 = fold_i64, .finish = mean, .finish_int = mean_int};

static qn_status emit(qn_emit *e) { return qn_reduce_emit(e, "mean_reduce"); }

QN_REDUCE_ROW(reduce_mean, "ReduceMean", 0);
