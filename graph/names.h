/* names.h - a set of names in use, with what each denotes. */
#ifndef QN_NAMES_H
#define QN_NAMES_H

#include "graph/base.h"

typedef struct qn_names qn_names;

qn_names *qn_names_new(qn_arena *a);
void *qn_names_get(const qn_names *t, const char *name);
void qn_names_put(qn_names *t, const char *name, void *item); /* `name` must outlive the table; a later put replaces */
/* `wanted` when nobody has it, else wanted_2, wanted_3, ...; in the table's arena, not yet put. */
const char *qn_names_unique(qn_names *t, const char *wanted);
uint64_t qn_hash_bytes(const void *data, size_t n, uint64_t seed); /* FNV-1a, 64 bits */

#endif
