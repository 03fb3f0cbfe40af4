/* result_files.h - the files that a call writes, looked at before its work: hours of it are not to end at a name. */
#ifndef QN_RESULT_FILES_H
#define QN_RESULT_FILES_H

#include "graph/base.h"

/* What a former file looks like, that a new one may replace. */
typedef struct qn_result_kind {
	const char *name;      /* "report" */
	const char *begins[2]; /* either, white space aside; NULL: there is no other */
} qn_result_kind;

typedef struct qn_result_file {
	const char *what; /* "the report" */
	const char *path; /* NULL: it is not asked for */
	const qn_result_kind *kind; /* NULL: any regular file makes way */
} qn_result_file;

/* Whether a file of that name can be made or replaced: it has a name, its folder takes files, and in its place is nothing, or a regular file that was not read,
 * and that is empty or of the kind: whatever else bears the name, a configuration, a page of somebody's, stays. */
qn_status qn_result_file_check(qn_ctx *ctx, qn_arena *a, const qn_result_file *f);
/* Whether no two of them are one file, by whatever names. */
qn_status qn_result_files_differ(qn_ctx *ctx, qn_arena *a, const qn_result_file *f, size_t n);

#endif
