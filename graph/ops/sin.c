#include "graph/ops/_unary.h"

QN_UNARY_ROW(sin, "Sin", "sin", sinf(x), sin(x), .hint = QN_HINT_POSITION);
