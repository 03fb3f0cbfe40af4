/* mapfile.h - files mapped read-only, and a guess at what a file that is no model might be. */
#ifndef QN_ONNX_MAPFILE_H
#define QN_ONNX_MAPFILE_H

#include "graph/base.h"

typedef struct qn_bytes {
	const uint8_t *data;
	size_t n;
} qn_bytes;

/* Maps a regular file; the arena keeps the mapping. Anything but a regular file is refused without being opened. Messages do not
 * name the file: the caller puts its name before them. */
qn_status qn_file_map(qn_ctx *ctx, qn_arena *a, const char *path, qn_bytes *out);

/* What the content looks like, as "a zip archive; ..." with advice, when it is surely no ONNX model; else NULL. */
const char *qn_sniff(qn_bytes b);

#endif
