#include "graph/ops/_unary.h"

QN_UNARY_ROW(tan, "Tan", "tan", tanf(x), tan(x));
