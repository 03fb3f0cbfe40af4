#include "graph/ops/_unary.h"

QN_UNARY_ROW(asinh, "Asinh", "asinh", asinhf(x), asinh(x));
