#include "graph/ops/_unary.h"

QN_UNARY_ROW_ENGINE(tanh, "Tanh", "tanh", qn_tanh(x), tanh(x), qn_engine_tanh(x));
