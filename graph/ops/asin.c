#include "graph/ops/_unary.h"

QN_UNARY_ROW(asin, "Asin", "asin", asinf(x), asin(x));
