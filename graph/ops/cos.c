#include "graph/ops/_unary.h"

QN_UNARY_ROW(cos, "Cos", "cos", cosf(x), cos(x), .hint = QN_HINT_POSITION);
