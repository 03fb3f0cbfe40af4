/* npz.h - NumPy .npz archives: named arrays in a zip. */
#ifndef QN_NPZ_H
#define QN_NPZ_H

#include "graph/tensor.h"

typedef struct qn_npz qn_npz;
/* Reads the whole file into `a`. Errors name the file and the member. */
qn_status qn_npz_read(qn_ctx *ctx, qn_arena *a, const char *path, qn_npz **out);
const qn_tensor *qn_npz_get(const qn_npz *z, const char *name); /* NULL when there is none */
int qn_npz_count(const qn_npz *z);
const char *qn_npz_name(const qn_npz *z, int i);
/* Written beside and renamed; uncompressed; no time stamps. Small types are written as their plain type, with a line in the log. */
qn_status qn_npz_write(qn_ctx *ctx, const char *path, const char *const *names, const qn_tensor *t, int n);

#endif
