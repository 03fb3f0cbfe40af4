#include "graph/ops/_unary.h"

QN_UNARY_ROW(atan, "Atan", "atan", atanf(x), atan(x));
