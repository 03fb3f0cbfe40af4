/* folder.h - folders as archives see them: a list of what is inside, and a way to be rid of one. */
#ifndef QN_FOLDER_H
#define QN_FOLDER_H

#include "graph/base.h"

typedef struct qn_folder_file {
	const char *name; /* relative, components joined by '/' */
	uint64_t bytes;
} qn_folder_file;

/* The files below `path`, sorted by name; symlinks and special files are refused, so that nothing outside is ever reached. */
qn_status qn_folder_list(qn_ctx *ctx, qn_arena *a, const char *path, qn_folder_file **files, size_t *n);
/* Whether the folder is empty or holds a former archive and nothing else; *why says what else there is. */
qn_status qn_folder_is_archive(qn_ctx *ctx, qn_arena *a, const char *path, bool *yes, const char **why);
/* Removes the file or the tree, silently; never allocates from an arena. Links are removed, not followed. */
void qn_path_remove(const char *path);
/* Makes the parent folders of root/name. */
qn_status qn_folder_parents(qn_ctx *ctx, qn_arena *a, const char *root, const char *name);

/* A member or file name that stays inside its archive: not absolute, no empty, "." or ".." component, no backslash, no control
 * character. */
bool qn_path_is_inside(const char *name);

#endif
