/* _cast.h - conversions between element types, by Cast and CastLike. */
#ifndef QN_OPS_CAST_H
#define QN_OPS_CAST_H

#include "graph/emit.h"
#include "graph/ops/_span.h"

/* Output 0 = input 0 in the type that infer gave. A symbolic integer stays one in every number type. */
qn_status qn_cast_eval(qn_call *c);
qn_status qn_cast_emit(qn_emit *e);
/* Gives node `to` the attributes of `from` that say how small floats are rounded. */
void qn_cast_copy_rules(qn_graph *g, const qn_node *from, qn_node *to);

#endif
