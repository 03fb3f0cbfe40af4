/* moment.h - sums of products over rows. */
#ifndef QN_MOMENT_H
#define QN_MOMENT_H

#include "graph/base.h"

enum { QN_CHUNK_ROWS = 1024, QN_MOMENT_TILE = 256 };

/* Threads for the loops here, and room that each needs. */
int qn_moment_threads(const qn_ctx *ctx);
float *qn_moment_space(qn_ctx *ctx, qn_arena *a);

/* out [m, n] += a^T b for a [rows, m] and b [rows, n], at most QN_CHUNK_ROWS rows: products in f32, sums in f64. `upper`: only the upper triangle, and perhaps some
 * of the rest. The same bits at any thread count. */
void qn_moment_add(qn_ctx *ctx, const float *a, int64_t m, const float *b, int64_t n, int64_t rows, bool upper, float *space, double *out);

#endif
