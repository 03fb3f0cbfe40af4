/* archive_scan.h - reading an archive of any size in little memory: the beginning of each member only. */
#ifndef QN_ARCHIVE_SCAN_H
#define QN_ARCHIVE_SCAN_H

#include "passes/nnef/archive.h"

/* The first n bytes of a member of `bytes`; the data is followed by a NUL and valid during the call. */
typedef qn_status (*qn_scan_fn)(void *user, const char *name, const void *data, size_t n, uint64_t bytes);

/* Calls fn for each member in order (a folder's by name): of a .dat file with its first `keep` bytes, of any other with all. All of
 * the archive is read all the same, so that a truncated one is noticed. Refuses what qn_archive_read refuses. `a` releases what a
 * callback that unwinds leaves open. */
qn_status qn_archive_scan(qn_ctx *ctx, qn_arena *a, const char *path, size_t keep, qn_scan_fn fn, void *user);

#endif
