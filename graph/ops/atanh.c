#include "graph/ops/_unary.h"

QN_UNARY_ROW(atanh, "Atanh", "atanh", atanhf(x), atanh(x));
