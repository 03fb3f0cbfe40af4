/* convert.h (private to tensor.c) - conversions of many elements that weights and activations go through. */
#ifndef QN_CONVERT_H
#define QN_CONVERT_H

#include "graph/tensor.h"

/* False, with nothing done, where the general way, one element at a time, has to be taken. The results are the same. */
bool qn_convert_fast(const void *src, qn_dtype from, void *dst, qn_dtype to, int64_t n);

#endif
