/* archive.h - NNEF archives: members in, a folder, .nnef.tar or .nnef.tgz out; and the reverse for `quern dump`. */
#ifndef QN_ARCHIVE_H
#define QN_ARCHIVE_H

#include "graph/tensor.h"

typedef struct qn_archive qn_archive;

/* The kind follows from the name: *.tgz, *.tar.gz: gzip'd tar; *.tar: tar; else a folder. All is written beside the target under a
 * temporary name; qn_archive_commit renames it, and whatever ends without a commit leaves nothing behind (it is deferred on `a`). An
 * existing folder is only replaced when it holds nothing but a former archive. No time stamps, no owners, members in the order of the
 * calls. */
qn_status qn_archive_create(qn_ctx *ctx, qn_arena *a, const char *path, qn_archive **out);
qn_status qn_archive_add(qn_archive *ar, const char *name, const void *data, size_t n);
/* A tensor as NAME.dat with its NNEF header; fails past 4 GiB - 1 of data. */
qn_status qn_archive_add_tensor(qn_archive *ar, const char *label, const qn_tensor *t);
/* Everything is on disk under the temporary name and the size is known; no member can be added after it. */
qn_status qn_archive_finish(qn_archive *ar);
qn_status qn_archive_commit(qn_archive *ar);
uint64_t qn_archive_bytes(const qn_archive *ar); /* size on disk, once finished */

/* Reads: calls fn for each member in order. Bounded: refuses absolute names, "..", and members over what the header says. */
qn_status qn_archive_read(qn_ctx *ctx, const char *path, qn_status (*fn)(void *user, const char *name, const void *data, size_t n),
	void *user);

/* The 128-byte .dat header. Encode writes it for a tensor; decode checks it against the data size. */
#define QN_DAT_HEADER 128
qn_status qn_dat_encode(qn_ctx *ctx, const char *label, const qn_tensor *t, uint8_t header[QN_DAT_HEADER]);
qn_status qn_dat_decode(qn_ctx *ctx, const char *label, const void *file, size_t n, qn_tensor *out);

#endif
