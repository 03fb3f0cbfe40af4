/* _sequence.h - sequences exist only between the operators that make and take them. */
#ifndef QN_OPS_SEQUENCE_H
#define QN_OPS_SEQUENCE_H

#include "graph/ops/_build.h"

/* The elements of the sequence that input 0 is, *n of them; fails where it was not made of a known number of values. */
qn_status qn_sequence_of(const qn_build *b, qn_value *const **elements, int *n);

#endif
