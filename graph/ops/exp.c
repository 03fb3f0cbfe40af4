#include "graph/ops/_unary.h"

QN_UNARY_ROW_ENGINE(exp, "Exp", "exp", qn_exp(x), exp(x), qn_engine_exp(x));
