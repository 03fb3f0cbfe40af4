#include "graph/ops/_unary.h"

QN_UNARY_ROW(acos, "Acos", "acos", acosf(x), acos(x));
