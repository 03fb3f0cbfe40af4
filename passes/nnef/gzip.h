/* gzip.h - a gzip stream of one member, compressed in blocks on several threads; the bytes do not depend on how many.
 *
 * Quantized weights hardly have repetitions, only uneven byte frequencies: they go through run lengths and Huffman codes alone, three times
 * as fast as a search for matches and no larger. Text is searched. */
#ifndef QN_GZIP_H
#define QN_GZIP_H

#include "graph/base.h"

typedef struct qn_gzip qn_gzip;

/* Takes compressed bytes; false stops. It runs on the caller's thread and must not unwind. */
typedef bool (*qn_sink_fn)(void *user, const void *data, size_t n);

/* All memory is taken here, in `a`: the other calls never allocate. */
qn_gzip *qn_gzip_new(qn_arena *a, qn_sink_fn sink, void *user);
bool qn_gzip_text(qn_gzip *gz, bool text); /* what follows is text, or (the default) data */
bool qn_gzip_write(qn_gzip *gz, const void *data, size_t n);
bool qn_gzip_finish(qn_gzip *gz);

#endif
