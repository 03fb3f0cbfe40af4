/* archive_read.c - the members of a folder, a tar or a gzip'd tar, one at a time. */
#include "passes/nnef/archive_scan.h"
#include "passes/nnef/folder.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* No member of ours is larger: a variable's data size is a 32-bit field. */
static const uint64_t largest = (uint64_t)UINT32_MAX + QN_DAT_HEADER;

typedef struct reader {
	qn_ctx *ctx;
	const char *path;
	size_t keep;
	qn_scan_fn fn;
	void *user;
	qn_arena outer;  /* lives as long as the whole reading */
	qn_arena member; /* the present one's data */
	struct archive *tar;
	int fd;
} reader;

static void close_reader(void *arg)
{
	reader *r = arg;
	if (r->tar)
		archive_read_free(r->tar);
	if (r->fd >= 0)
		close(r->fd);
	r->tar = NULL;
	r->fd = -1;
	qn_arena_release(&r->member);
}

/* Reads the next n bytes of the present member, or fewer at its end; -1 with a message. */
typedef ssize_t (*pull_fn)(reader *r, void *to, size_t n);

static ssize_t pull_tar(reader *r, void *to, size_t n)
{
	la_ssize_t m = archive_read_data(r->tar, to, n);
	if (m < 0)
		qn_fail(r->ctx, QUERN_ERR_FORMAT, "%s", archive_error_string(r->tar) ? archive_error_string(r->tar) : "it cannot be read");
	return m < 0 ? -1 : (ssize_t)m;
}

static ssize_t pull_file(reader *r, void *to, size_t n)
{
	ssize_t m;
	do
		m = read(r->fd, to, n);
	while (m < 0 && errno == EINTR);
	if (m < 0)
		qn_fail(r->ctx, QUERN_ERR_IO, "%s", strerror(errno));
	return m;
}

/* Memory grows with what arrives, not with what a header claims. */
static qn_status member(reader *r, const char *name, uint64_t bytes, pull_fn pull)
{
	if (!qn_path_is_inside(name))
		QN_FAIL(r->ctx, QUERN_ERR_FORMAT, "its name is absolute, has '..' or is otherwise no path inside an archive");
	if (bytes > largest)
		QN_FAIL(r->ctx, QUERN_ERR_FORMAT, "%llu bytes, more than any member can have", (unsigned long long)bytes);
	uint64_t have = 0;
	size_t n = strlen(name), most = n > 4 && !strcmp(name + n - 4, ".dat") ? r->keep : SIZE_MAX;
	size_t keep = bytes < most ? (size_t)bytes : most, cap = keep < 65536 ? keep : 65536;
	char *data = qn_arena_alloc(&r->member, cap + 1);
	while (have < bytes) {
		if (have < keep && have == cap) {
			size_t more = cap < keep / 2 ? cap * 2 : keep;
			char *larger = qn_arena_alloc(&r->member, more + 1);
			memcpy(larger, data, cap);
			data = larger;
			cap = more;
		}
		char skipped[16384];
		bool kept = have < keep;
		size_t want = kept ? cap - (size_t)have : sizeof skipped;
		ssize_t m = pull(r, kept ? data + have : skipped, want);
		if (m < 0)
			return r->tar ? QUERN_ERR_FORMAT : QUERN_ERR_IO;
		if (m == 0)
			QN_FAIL(r->ctx, QUERN_ERR_FORMAT, "it ends after %llu of %llu bytes", (unsigned long long)have,
				(unsigned long long)bytes);
		have += (uint64_t)m;
	}
	qn_status st = r->fn(r->user, name, data, keep, bytes);
	qn_arena_release(&r->member);
	return st;
}

static qn_status named(reader *r, qn_status st, const char *name)
{
	return st == QUERN_OK ? st : qn_prefix(r->ctx, st, "archive '%s', member '%s'", r->path, name);
}

static qn_status read_folder(reader *r)
{
	qn_folder_file *files;
	size_t n;
	QN_TRY(qn_folder_list(r->ctx, &r->outer, r->path, &files, &n));
	for (size_t i = 0; i < n; i++) {
		r->fd = open(qn_arena_printf(&r->outer, "%s/%s", r->path, files[i].name), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (r->fd < 0)
			return named(r, qn_fail(r->ctx, QUERN_ERR_IO, "%s", strerror(errno)), files[i].name);
		QN_TRY(named(r, member(r, files[i].name, files[i].bytes, pull_file), files[i].name));
		close(r->fd);
		r->fd = -1;
	}
	return QUERN_OK;
}

static qn_status tar_failed(reader *r)
{
	const char *why = archive_error_string(r->tar);
	QN_FAIL(r->ctx, QUERN_ERR_FORMAT, "'%s' is no NNEF archive that can be read: %s", r->path, why ? why : "not a tar file");
}

static qn_status read_tar(reader *r)
{
	r->tar = archive_read_new();
	if (!r->tar)
		QN_FAIL(r->ctx, QUERN_ERR_MEMORY, "out of memory");
	archive_read_support_filter_gzip(r->tar);
	archive_read_support_format_tar(r->tar);
	r->fd = open(r->path, O_RDONLY | O_CLOEXEC);
	if (r->fd < 0)
		QN_FAIL(r->ctx, QUERN_ERR_IO, "cannot read '%s': %s", r->path, strerror(errno));
	if (archive_read_open_fd(r->tar, r->fd, 65536) != ARCHIVE_OK)
		return tar_failed(r);
	for (;;) {
		struct archive_entry *e;
		int got = archive_read_next_header(r->tar, &e);
		if (got == ARCHIVE_EOF)
			return QUERN_OK;
		if (got != ARCHIVE_OK && got != ARCHIVE_WARN)
			return tar_failed(r);
		const char *name = archive_entry_pathname(e);
		if (!name)
			QN_FAIL(r->ctx, QUERN_ERR_FORMAT, "archive '%s' has a member whose name cannot be read", r->path);
		while (!strncmp(name, "./", 2))
			name += 2;
		if (archive_entry_filetype(e) == AE_IFDIR)
			continue;
		name = qn_arena_strdup(&r->outer, name);
		qn_status st = archive_entry_filetype(e) != AE_IFREG || archive_entry_hardlink(e) || !archive_entry_size_is_set(e)
			? qn_fail(r->ctx, QUERN_ERR_FORMAT, "it is no plain file")
			: member(r, name, (uint64_t)archive_entry_size(e), pull_tar);
		QN_TRY(named(r, st, name));
	}
}

qn_status qn_archive_scan(qn_ctx *ctx, qn_arena *a, const char *path, size_t keep, qn_scan_fn fn, void *user)
{
	struct stat st;
	if (stat(path, &st))
		QN_FAIL(ctx, QUERN_ERR_IO, "cannot read '%s': %s", path, strerror(errno));
	reader *r = QN_NEW(a, reader, 1);
	*r = (reader){.ctx = ctx, .path = path, .keep = keep, .fn = fn, .user = user, .fd = -1};
	qn_arena_init(&r->outer, ctx);
	qn_arena_init(&r->member, ctx);
	qn_arena_defer(&r->outer, close_reader, r);
	qn_arena_defer(a, (void (*)(void *))qn_arena_release, &r->outer);
	qn_status status = S_ISDIR(st.st_mode) ? read_folder(r) : read_tar(r);
	qn_arena_release(&r->outer);
	return status;
}

typedef struct whole {
	qn_status (*fn)(void *user, const char *name, const void *data, size_t n);
	void *user;
} whole;

static qn_status give_whole(void *user, const char *name, const void *data, size_t n, uint64_t bytes)
{
	whole *w = user;
	(void)bytes;
	return w->fn(w->user, name, data, n);
}

qn_status qn_archive_read(qn_ctx *ctx, const char *path, qn_status (*fn)(void *user, const char *name, const void *data, size_t n),
	void *user)
{
	qn_arena a;
	qn_arena_init(&a, ctx);
	/* the arena is local: an exhausted heap must come through here */
	jmp_buf *outer = ctx->on_memory, here;
	qn_status st;
	if (setjmp(here)) {
		st = qn_fail(ctx, QUERN_ERR_MEMORY, "out of memory");
	} else {
		ctx->on_memory = &here;
		st = qn_archive_scan(ctx, &a, path, SIZE_MAX, give_whole, &(whole){fn, user});
	}
	ctx->on_memory = outer;
	qn_arena_release(&a);
	return st;
}
