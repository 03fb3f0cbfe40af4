#include "graph/ops/_unary.h"

QN_UNARY_ROW_ENGINE(sigmoid, "Sigmoid", "sigmoid", qn_sigmoid(x), 1.0 / (1.0 + exp(-x)), qn_engine_sigmoid(x));
