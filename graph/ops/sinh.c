#include "graph/ops/_unary.h"

QN_UNARY_ROW(sinh, "Sinh", "sinh", sinhf(x), sinh(x));
