#include "graph/ops/_reduce.h"

QN_FOLD(fold_f64, double, v, a + b)
QN_FOLD(fold_i64, int64_t, v, (int64_t)((uint64_t)a + (uint64_t)b))
static double mean(double acc, int64_t n) { return acc / (double)n; }
static int64_t mean_int(int64_t acc, int64_t n) { return n ? acc / n : 0; }

static float mean_engine(float sum, int64_t n) { return sum * (1.0f / (float)n); }

static const qn_reducer reducer = {
	.start = QN_START_ZERO, .f64 = fold_f64, .i64 = fold_i64, .finish = mean, .finish_int = mean_int, .engine = mean_engine};

static qn_status emit(qn_emit *e) { return qn_reduce_emit(e, "mean_reduce"); }

QN_REDUCE_ROW(reduce_mean, "ReduceMean", 0);
