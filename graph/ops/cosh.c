#include "graph/ops/_unary.h"

QN_UNARY_ROW(cosh, "Cosh", "cosh", coshf(x), cosh(x));
