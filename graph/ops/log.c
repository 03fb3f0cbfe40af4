#include "graph/ops/_unary.h"

QN_UNARY_ROW(log, "Log", "log", logf(x), log(x));
