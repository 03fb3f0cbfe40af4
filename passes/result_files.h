/* result_files.h - the files that a call writes, looked at before its work: hours of it are not to end at a name. */
#ifndef QN_RESULT_FILES_H
#define QN_RESULT_FILES_H

#include "graph/base.h"

typedef struct qn_result_file {
	const char *what; /* "the report" */
	const char *path; /* NULL: it is not asked for */
} qn_result_file;

/* Whether a file of that name can be made or replaced: it has a name, its folder takes files, and in its place is nothing, or a regular file that was not read. */
qn_status qn_result_file_check(qn_ctx *ctx, qn_arena *a, const qn_result_file *f);
/* Whether no two of them are one file, by whatever names. */
qn_status qn_result_files_differ(qn_ctx *ctx, qn_arena *a, const qn_result_file *f, size_t n);

#endif
