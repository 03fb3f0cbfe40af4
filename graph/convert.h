/* convert.h (private to tensor.c) - conversions of many elements that weights and activations go through, and of one of a small type. */
#ifndef QN_CONVERT_H
#define QN_CONVERT_H

#include "graph/tensor.h"

/* False, with nothing done, where the general way, one element at a time, has to be taken. The results are the same. */
bool qn_convert_fast(const void *src, qn_dtype from, void *dst, qn_dtype to, int64_t n);

/* --- elements of small types (convert_small.c) --- */
double qn_small_value(qn_dtype type, uint8_t code);                                       /* of a small float */
uint8_t qn_small_code(qn_dtype type, double v, bool saturate, qn_small_round round);      /* and back, see qn_convert_rounded */
uint8_t qn_small_int(qn_dtype type, uint64_t bits); /* the low 4 or 2 bits, as the byte of the type */

#endif
