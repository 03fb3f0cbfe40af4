#include "graph/ops/_unary.h"

QN_UNARY_ROW(sigmoid, "Sigmoid", "sigmoid", qn_sigmoid(x), 1.0 / (1.0 + exp(-x)));
