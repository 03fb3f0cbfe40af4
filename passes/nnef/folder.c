#include "passes/nnef/folder.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEEPEST = 64, MOST_FILES = 1 << 20 };

typedef struct listing {
	qn_ctx *ctx;
	qn_arena *a;
	qn_folder_file *files;
	size_t n, cap;
} listing;

/* Closes once, whether the listing ends or the memory does. */
static void close_dir(void *holder)
{
	DIR **dir = holder;
	if (*dir)
		closedir(*dir);
	*dir = NULL;
}

static qn_status list_below(listing *l, const char *path, const char *prefix, int depth);

static qn_status list_entry(listing *l, const char *path, const char *name, const char *full, int depth)
{
	struct stat st;
	if (lstat(full, &st))
		QN_FAIL(l->ctx, QUERN_ERR_IO, "'%s': %s", full, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return list_below(l, full, name, depth + 1);
	if (!S_ISREG(st.st_mode))
		QN_FAIL(l->ctx, QUERN_ERR_FORMAT, "'%s' in '%s' is no plain file", name, path);
	if (l->n == MOST_FILES)
		QN_FAIL(l->ctx, QUERN_ERR_FORMAT, "'%s' holds more than %d files", path, MOST_FILES);
	QN_GROW(l->a, l->files, l->n, l->cap);
	l->files[l->n++] = (qn_folder_file){name, (uint64_t)st.st_size};
	return QUERN_OK;
}

static qn_status list_below(listing *l, const char *path, const char *prefix, int depth)
{
	if (depth > DEEPEST)
		QN_FAIL(l->ctx, QUERN_ERR_FORMAT, "'%s' is nested more than %d folders deep", path, DEEPEST);
	DIR **dir = QN_NEW(l->a, DIR *, 1);
	qn_arena_defer(l->a, close_dir, dir);
	*dir = opendir(path);
	if (!*dir)
		QN_FAIL(l->ctx, QUERN_ERR_IO, "cannot read folder '%s': %s", path, strerror(errno));
	qn_status st = QUERN_OK;
	for (struct dirent *e; st == QUERN_OK && (e = readdir(*dir));) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		const char *name = *prefix ? qn_arena_printf(l->a, "%s/%s", prefix, e->d_name) : qn_arena_strdup(l->a, e->d_name);
		st = list_entry(l, path, name, qn_arena_printf(l->a, "%s/%s", path, e->d_name), depth);
	}
	close_dir(dir);
	return st;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const qn_folder_file *)a)->name, ((const qn_folder_file *)b)->name);
}

qn_status qn_folder_list(qn_ctx *ctx, qn_arena *a, const char *path, qn_folder_file **files, size_t *n)
{
	listing l = {.ctx = ctx, .a = a};
	QN_TRY(list_below(&l, path, "", 0));
	if (l.n)
		qsort(l.files, l.n, sizeof *l.files, by_name);
	*files = l.files;
	*n = l.n;
	return QUERN_OK;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);
	return n >= m && !strcmp(s + n - m, end);
}

qn_status qn_folder_is_archive(qn_ctx *ctx, qn_arena *a, const char *path, bool *yes, const char **why)
{
	qn_folder_file *files;
	size_t n;
	*why = "";
	QN_TRY(qn_folder_list(ctx, a, path, &files, &n));
	bool graph = n == 0;
	for (size_t i = 0; i < n; i++) {
		bool is_graph = !strcmp(files[i].name, "graph.nnef");
		graph |= is_graph;
		if (!is_graph && strcmp(files[i].name, "graph.quant") && !ends_with(files[i].name, ".dat"))
			*why = files[i].name;
	}
	if (!**why && !graph)
		*why = files[0].name;
	*yes = !**why;
	return QUERN_OK;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path) && errno != ENOENT;
}

void qn_path_remove(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

qn_status qn_folder_parents(qn_ctx *ctx, qn_arena *a, const char *root, const char *name)
{
	char *full = qn_arena_printf(a, "%s/%s", root, name);
	for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = '\0';
		if (mkdir(full, 0777) && errno != EEXIST)
			QN_FAIL(ctx, QUERN_ERR_IO, "cannot make folder '%s': %s", full, strerror(errno));
	}
	return QUERN_OK;
}

bool qn_path_is_inside(const char *name)
{
	if (!*name)
		return false;
	for (const char *p = name; *p;) {
		size_t n = strcspn(p, "/");
		if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		for (size_t i = 0; i < n; i++)
			if ((unsigned char)p[i] < 32 || p[i] == 127 || p[i] == '\\')
				return false;
		p += n;
		if (*p && !*++p)
			return false;
	}
	return true;
}
