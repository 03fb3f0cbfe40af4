/* result_files.c - names of files to come, checked. */
#include "passes/result_files.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *folder_of(qn_arena *a, const char *path)
{
	const char *slash = strrchr(path, '/');
	return !slash ? "." : slash == path ? "/" : qn_arena_strndup(a, path, (size_t)(slash - path));
}

static const char *name_in_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* Whether `head` begins with `text`, but for white space. */
static bool begins_with(const char *head, const char *text)
{
	for (; *text; text++) {
		if (isspace((unsigned char)*text))
			continue;
		while (isspace((unsigned char)*head))
			head++;
		if (*head++ != *text)
			return false;
	}
	return true;
}

static bool may_replace(const char *path, const qn_result_kind *kind)
{
	char head[256] = {0};
	FILE *f = fopen(path, "rbe");
	size_t n = f ? fread(head, 1, sizeof head - 1, f) : 0;
	if (f)
		fclose(f);
	bool ours = n == 0;
	for (size_t i = 0; i < QN_LEN(kind->begins); i++)
		ours |= kind->begins[i] && begins_with(head, kind->begins[i]);
	return ours;
}

qn_status qn_result_file_check(qn_ctx *ctx, qn_arena *a, const qn_result_file *f)
{
	struct stat st;
	if (!f->path)
		return QUERN_OK;
	if (!*f->path)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "the name of %s is empty", f->what);
	QN_TRY(qn_source_spare(ctx, f->path));
	if (stat(f->path, &st) == 0 && !S_ISREG(st.st_mode))
		QN_FAIL(ctx, QUERN_ERR_IO, "cannot write %s '%s': it is not a regular file", f->what, f->path);
	if (access(folder_of(a, f->path), W_OK))
		QN_FAIL(ctx, QUERN_ERR_IO, "cannot write %s '%s': %s", f->what, f->path, strerror(errno));
	if (f->kind && !may_replace(f->path, f->kind))
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "'%s' is there and is no %s, so it is left alone; give %s another name", f->path, f->kind->name, f->what);
	return QUERN_OK;
}

static bool same_place(const char *x, const char *y)
{
	struct stat a, b;
	return stat(x, &a) == 0 && stat(y, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static bool same_file(qn_arena *a, const char *x, const char *y)
{
	if (!strcmp(x, y) || same_place(x, y))
		return true;
	return !strcmp(name_in_folder(x), name_in_folder(y)) && same_place(folder_of(a, x), folder_of(a, y));
}

qn_status qn_result_files_differ(qn_ctx *ctx, qn_arena *a, const qn_result_file *f, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = i + 1; k < n; k++)
			if (f[i].path && f[k].path && same_file(a, f[i].path, f[k].path))
				QN_FAIL(ctx, QUERN_ERR_CONFIG, "'%s' cannot be both %s and %s", f[k].path, f[i].what, f[k].what);
	return QUERN_OK;
}
