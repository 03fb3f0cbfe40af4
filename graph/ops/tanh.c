#include "graph/ops/_unary.h"

QN_UNARY_ROW(tanh, "Tanh", "tanh", qn_tanh(x), tanh(x));
