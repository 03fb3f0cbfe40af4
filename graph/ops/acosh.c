#include "graph/ops/_unary.h"

QN_UNARY_ROW(acosh, "Acosh", "acosh", acoshf(x), acosh(x));
