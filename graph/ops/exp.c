#include "graph/ops/_unary.h"

QN_UNARY_ROW(exp, "Exp", "exp", qn_exp(x), exp(x));
