/* _apart.h - operands that the engine must not look behind. */
#ifndef QN_OPS_APART_H
#define QN_OPS_APART_H

#include "graph/emit.h"

/* `text`, a float expression, with a maximum with -inf around it: it changes nothing, and the engine's rewritings stop there. */
const char *qn_emit_apart(qn_emit *e, const char *text);
/* Whether v comes from a broadcast along one of its last `axes` axes with nothing but unary operators between (`moves`: and views and
 * permutations, then along any axis). The engine drops such a broadcast in front of an einsum, which is right only along axes that the
 * other operand has too. */
bool qn_is_broadcast(const qn_value *v, int axes, bool moves);

#endif
