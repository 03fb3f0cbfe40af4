/* base.c - failures, messages, the door to the heap. */
#include "graph/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>

qn_status qn_fail(qn_ctx *ctx, qn_status status, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(ctx->message, sizeof ctx->message, fmt, args);
	va_end(args);
	return status;
}

qn_status qn_prefix(qn_ctx *ctx, qn_status status, const char *fmt, ...)
{
	char old[sizeof ctx->message - 256]; /* the end of a very long message gives way to its place */
	memcpy(old, ctx->message, sizeof old);
	old[sizeof old - 1] = '\0';
	va_list args;
	va_start(args, fmt);
	int n = vsnprintf(ctx->message, sizeof ctx->message, fmt, args);
	va_end(args);
	if (n < 0 || (size_t)n >= sizeof ctx->message)
		return status;
	size_t room = sizeof ctx->message - (size_t)n;
	if (snprintf(ctx->message + n, room, ": %s", old) < 0)
		ctx->message[n] = '\0';
	return status;
}

void qn_source_note(qn_ctx *ctx, uint64_t device, uint64_t inode)
{
	int i = ctx->n_sources++ % (int)QN_LEN(ctx->sources);
	ctx->sources[i].device = device;
	ctx->sources[i].inode = inode;
}

void qn_source_note_path(qn_ctx *ctx, const char *path)
{
	struct stat st;
	if (!stat(path, &st) && S_ISREG(st.st_mode))
		qn_source_note(ctx, (uint64_t)st.st_dev, (uint64_t)st.st_ino);
}

void qn_source_note_folder(qn_ctx *ctx, const char *path)
{
	struct stat st;
	if (!stat(path, &st) && S_ISDIR(st.st_mode))
		qn_source_note(ctx, (uint64_t)st.st_dev, (uint64_t)st.st_ino);
}

static bool is_noted(const qn_ctx *ctx, const struct stat *st)
{
	for (int i = 0; i < ctx->n_sources && i < (int)QN_LEN(ctx->sources); i++)
		if (ctx->sources[i].device == (uint64_t)st->st_dev && ctx->sources[i].inode == (uint64_t)st->st_ino)
			return true;
	return false;
}

/* Whether an existing file is a sample: by its name, in a noted folder or in a test_data_set there. */
static bool is_sample(const qn_ctx *ctx, const char *path)
{
	char folder[4096];
	const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
	if (!dot || (strcasecmp(dot, ".npz") && strcasecmp(dot, ".pb")))
		return false;
	int n = slash ? (int)(slash - path) + 1 : 0; /* with the slash: "/x" is in "/" */
	for (int up = 0; up < 2; up++) {
		struct stat st;
		int written = snprintf(folder, sizeof folder, "%.*s%s", n, path, up ? "./.." : ".");
		if (written > 0 && (size_t)written < sizeof folder && !stat(folder, &st) && is_noted(ctx, &st))
			return true;
	}
	return false;
}

qn_status qn_source_spare(qn_ctx *ctx, const char *path)
{
	struct stat st;
	if (stat(path, &st))
		return QUERN_OK;
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "'%s' is a device or a pipe, which a file would take the place of; choose another name for the output", path);
	if (is_noted(ctx, &st) || is_sample(ctx, path))
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "'%s' is a file that was read; choose another name for the output", path);
	return QUERN_OK;
}

void qn_log(qn_ctx *ctx, quern_log_level level, const char *fmt, ...)
{
	if (!ctx->log)
		return;
	char text[1024];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	ctx->log(ctx->log_user, level, text);
}

static void *system_alloc(void *ptr, size_t new_size)
{
	if (new_size == 0) {
		free(ptr);
		return NULL;
	}
	return realloc(ptr, new_size);
}

void *qn_heap(qn_ctx *ctx, void *ptr, size_t old_size, size_t new_size)
{
	void *p = ctx->alloc ? ctx->alloc(ctx->alloc_user, ptr, old_size, new_size) : system_alloc(ptr, new_size);
	if (!p && new_size) {
		ctx->engine_math = false; /* of the run that is left */
		if (ctx->on_memory)
			longjmp(*ctx->on_memory, 1);
		abort(); /* a library call outside QN_ENTER: a fault of ours */
	}
	return p;
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

size_t qn_edit_distance(const char *a, size_t la, const char *b, size_t lb, size_t give_up)
{
	enum { MAX = 512 };
	if (la >= MAX || lb >= MAX || (la > lb ? la - lb : lb - la) > give_up)
		return give_up + 1;
	size_t row[MAX + 1];
	for (size_t j = 0; j <= lb; j++)
		row[j] = j;
	for (size_t i = 1; i <= la; i++) {
		size_t diagonal = row[0], least = i;
		row[0] = i;
		for (size_t j = 1; j <= lb; j++) {
			size_t best = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
			least = best < least ? best : least;
		}
		if (least > give_up)
			return give_up + 1;
	}
	return row[lb];
}

const char *qn_nearest(const char *name, const char *const *names, size_t n)
{
	size_t best = strlen(name) / 3 + 2;
	const char *found = NULL;
	for (size_t i = 0; i < n; i++) {
		size_t d = qn_edit_distance(name, strlen(name), names[i], strlen(names[i]), best);
		if (d < best) {
			best = d;
			found = names[i];
		}
	}
	return found;
}
