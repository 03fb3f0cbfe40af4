/* archive.c - members go to a folder or, through libarchive, to a tar stream; a rename at the end makes them visible. */
#include "graph/names.h"
#include "passes/nnef/archive.h"
#include "passes/nnef/folder.h"
#include "passes/nnef/gzip.h"

#include <archive.h>
#include <archive_entry.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum { KIND_FOLDER, KIND_TAR, KIND_TGZ } kind;

struct qn_archive {
	qn_ctx *ctx;
	qn_arena *arena;
	kind kind;
	const char *path; /* the target */
	const char *temp; /* where it is written; NULL once renamed, or before it exists */
	int fd;
	struct archive *tar;
	qn_gzip *gz;
	int error; /* errno of a failed write */
	uint64_t bytes;
	qn_names *members; /* by lower-case name, for file systems that fold case */
	bool discard;
};

/* Runs on every way out; undoes what was not committed. */
static void abandon(void *arg)
{
	qn_archive *ar = arg;
	ar->discard = true; /* what closing would write still goes through from_tar */
	if (ar->tar)
		archive_write_free(ar->tar);
	if (ar->fd >= 0)
		close(ar->fd);
	if (ar->temp)
		qn_path_remove(ar->temp);
	ar->tar = NULL;
	ar->fd = -1;
	ar->temp = NULL;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);
	return n > m && !strcmp(s + n - m, end);
}

/* --- the stream -------------------------------------------------------------------------------------------- */
static bool write_all(int fd, const void *data, size_t n, int *error)
{
	const char *p = data;
	while (n) {
		ssize_t m = write(fd, p, n);
		if (m < 0 && errno == EINTR)
			continue;
		if (m <= 0) {
			*error = m < 0 ? errno : EIO;
			return false;
		}
		p += m;
		n -= (size_t)m;
	}
	return true;
}

static bool to_file(void *user, const void *data, size_t n)
{
	qn_archive *ar = user;
	ar->bytes += n;
	return write_all(ar->fd, data, n, &ar->error);
}

static la_ssize_t from_tar(struct archive *tar, void *user, const void *data, size_t n)
{
	qn_archive *ar = user;
	if (ar->discard || (ar->gz ? qn_gzip_write(ar->gz, data, n) : to_file(ar, data, n)))
		return (la_ssize_t)n;
	archive_set_error(tar, ar->error ? ar->error : EIO, "the stream cannot be written");
	return -1;
}

static qn_status stream_failed(qn_archive *ar)
{
	QN_FAIL(ar->ctx, QUERN_ERR_IO, "cannot write '%s': %s", ar->path,
		ar->error ? strerror(ar->error) : archive_error_string(ar->tar) ? archive_error_string(ar->tar) : "compression failed");
}

static qn_status open_stream(qn_archive *ar)
{
	ar->tar = archive_write_new();
	if (!ar->tar)
		QN_FAIL(ar->ctx, QUERN_ERR_MEMORY, "out of memory");
	if (ar->kind == KIND_TGZ)
		ar->gz = qn_gzip_new(ar->arena, to_file, ar);
	archive_write_set_bytes_per_block(ar->tar, 0); /* no copy on the way, no padding at the end */
	if (archive_write_set_format_pax_restricted(ar->tar) != ARCHIVE_OK ||
		archive_write_open(ar->tar, ar, NULL, from_tar, NULL) != ARCHIVE_OK)
		return stream_failed(ar);
	return QUERN_OK;
}

/* --- where it is written ------------------------------------------------------------------------------------- */
/* A name beside the target that nobody has, made as a file or a folder. */
static qn_status make_temporary(qn_archive *ar)
{
	for (int k = 0; k < 1000; k++) {
		const char *temp = qn_arena_printf(ar->arena, "%s.tmp-%ld-%d", ar->path, (long)getpid(), k);
		if (ar->kind == KIND_FOLDER) {
			if (mkdir(temp, 0777) == 0) {
				ar->temp = temp;
				return QUERN_OK;
			}
		} else if ((ar->fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) >= 0) {
			ar->temp = temp;
			return open_stream(ar);
		}
		if (errno != EEXIST)
			break;
	}
	QN_FAIL(ar->ctx, QUERN_ERR_IO, "cannot write '%s': %s", ar->path, strerror(errno));
}

/* What already bears the target's name may only be what we would write. */
static qn_status check_target(qn_archive *ar, bool *exists)
{
	struct stat st;
	*exists = lstat(ar->path, &st) == 0;
	if (!*exists)
		return QUERN_OK;
	bool folder = S_ISDIR(st.st_mode);
	if (folder && ar->kind != KIND_FOLDER)
		QN_FAIL(ar->ctx, QUERN_ERR_IO, "'%s' is a folder, a file of that name cannot be written", ar->path);
	if (!folder && ar->kind == KIND_FOLDER)
		QN_FAIL(ar->ctx, QUERN_ERR_IO, "'%s' exists and is no folder; remove it, or end the name in .nnef.tgz for a file",
			ar->path);
	if (!folder)
		return QUERN_OK;
	bool archive;
	const char *why;
	QN_TRY(qn_folder_is_archive(ar->ctx, ar->arena, ar->path, &archive, &why));
	if (!archive)
		QN_FAIL(ar->ctx, QUERN_ERR_IO, "folder '%s' holds more than an archive ('%s') and is left alone; choose another name",
			ar->path, why);
	return QUERN_OK;
}

qn_status qn_archive_create(qn_ctx *ctx, qn_arena *a, const char *path, qn_archive **out)
{
	size_t n = strlen(path);
	while (n > 1 && path[n - 1] == '/')
		n--;
	if (n == 0)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "the name of the archive is empty");
	QN_TRY(qn_source_spare(ctx, path));
	qn_archive *ar = QN_NEW(a, qn_archive, 1);
	*ar = (qn_archive){.ctx = ctx, .arena = a, .path = qn_arena_strndup(a, path, n), .fd = -1};
	ar->members = qn_names_new(a);
	if (n == strlen(path)) /* "out.tar/" is a folder all the same */
		ar->kind = ends_with(path, ".tgz") || ends_with(path, ".tar.gz") ? KIND_TGZ
			: ends_with(path, ".tar")                                ? KIND_TAR
										 : KIND_FOLDER;
	qn_arena_defer(a, abandon, ar);
	bool exists;
	QN_TRY(check_target(ar, &exists));
	QN_TRY(make_temporary(ar));
	*out = ar;
	return QUERN_OK;
}

/* --- members ------------------------------------------------------------------------------------------------ */
typedef struct part {
	const void *data;
	size_t n;
} part;

static qn_status add_to_folder(qn_archive *ar, const char *name, const part *parts, int n_parts)
{
	QN_TRY(qn_folder_parents(ar->ctx, ar->arena, ar->temp, name));
	const char *full = qn_arena_printf(ar->arena, "%s/%s", ar->temp, name);
	int error = 0, fd = open(full, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		QN_FAIL(ar->ctx, QUERN_ERR_IO, "cannot write '%s' of '%s': %s", name, ar->path, strerror(errno));
	for (int i = 0; i < n_parts && !error; i++)
		if (write_all(fd, parts[i].data, parts[i].n, &error))
			ar->bytes += parts[i].n;
	if (close(fd) && !error)
		error = errno;
	if (error)
		QN_FAIL(ar->ctx, QUERN_ERR_IO, "cannot write '%s' of '%s': %s", name, ar->path, strerror(error));
	return QUERN_OK;
}

static qn_status add_to_tar(qn_archive *ar, const char *name, const part *parts, int n_parts)
{
	struct archive_entry *e = archive_entry_new();
	if (!e)
		QN_FAIL(ar->ctx, QUERN_ERR_MEMORY, "out of memory");
	uint64_t bytes = 0;
	for (int i = 0; i < n_parts; i++)
		bytes += parts[i].n;
	archive_entry_set_pathname(e, name);
	archive_entry_set_filetype(e, AE_IFREG);
	archive_entry_set_perm(e, 0644);
	archive_entry_set_mtime(e, 0, 0);
	archive_entry_set_size(e, (la_int64_t)bytes);
	bool good = !ar->gz || qn_gzip_text(ar->gz, !ends_with(name, ".dat"));
	good = good && archive_write_header(ar->tar, e) == ARCHIVE_OK;
	archive_entry_free(e);
	for (int i = 0; good && i < n_parts; i++)
		good = archive_write_data(ar->tar, parts[i].data, parts[i].n) == (la_ssize_t)parts[i].n;
	good = good && archive_write_finish_entry(ar->tar) == ARCHIVE_OK;
	return good ? QUERN_OK : stream_failed(ar);
}

static qn_status add(qn_archive *ar, const char *name, const part *parts, int n_parts)
{
	if (!qn_path_is_inside(name))
		QN_FAIL(ar->ctx, QUERN_ERR_INTERNAL, "'%s' cannot be the name of a member", name);
	char *key = qn_arena_strdup(ar->arena, name);
	for (char *p = key; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	if (qn_names_get(ar->members, key))
		QN_FAIL(ar->ctx, QUERN_ERR_INTERNAL, "two members of '%s' are called '%s'", ar->path, name);
	qn_names_put(ar->members, key, ar);
	return (ar->kind == KIND_FOLDER ? add_to_folder : add_to_tar)(ar, name, parts, n_parts);
}

qn_status qn_archive_add(qn_archive *ar, const char *name, const void *data, size_t n)
{
	return add(ar, name, &(part){data, n}, 1);
}

qn_status qn_archive_add_tensor(qn_archive *ar, const char *label, const qn_tensor *t)
{
	uint8_t header[QN_DAT_HEADER];
	QN_TRY(qn_dat_encode(ar->ctx, label, t, header));
	const part parts[] = {{header, sizeof header}, {t->data, qn_tensor_bytes(t)}};
	return add(ar, qn_arena_printf(ar->arena, "%s.dat", label), parts, 2);
}

/* --- the end ------------------------------------------------------------------------------------------------- */
static qn_status close_stream(qn_archive *ar)
{
	bool good = archive_write_close(ar->tar) == ARCHIVE_OK && (!ar->gz || qn_gzip_finish(ar->gz));
	if (!good)
		return stream_failed(ar);
	archive_write_free(ar->tar);
	ar->tar = NULL;
	int fd = ar->fd;
	ar->fd = -1;
	if (close(fd))
		QN_FAIL(ar->ctx, QUERN_ERR_IO, "cannot write '%s': %s", ar->path, strerror(errno));
	return QUERN_OK;
}

/* The former archive steps aside, so that a failure can bring it back. */
static qn_status replace_folder(qn_archive *ar)
{
	const char *former = qn_arena_printf(ar->arena, "%s.old-%ld", ar->path, (long)getpid());
	if (rename(ar->path, former))
		QN_FAIL(ar->ctx, QUERN_ERR_IO, "cannot replace '%s': %s", ar->path, strerror(errno));
	if (rename(ar->temp, ar->path)) {
		int error = errno;
		bool back = rename(former, ar->path) == 0;
		QN_FAIL(ar->ctx, QUERN_ERR_IO, "cannot replace '%s': %s%s%s", ar->path, strerror(error),
			back ? "" : "; the former archive is now ", back ? "" : former);
	}
	qn_path_remove(former);
	return QUERN_OK;
}

qn_status qn_archive_finish(qn_archive *ar) { return ar->tar ? close_stream(ar) : QUERN_OK; }

qn_status qn_archive_commit(qn_archive *ar)
{
	QN_TRY(qn_archive_finish(ar));
	bool exists;
	QN_TRY(check_target(ar, &exists));
	if (exists && ar->kind == KIND_FOLDER)
		QN_TRY(replace_folder(ar));
	else if (rename(ar->temp, ar->path))
		QN_FAIL(ar->ctx, QUERN_ERR_IO, "cannot write '%s': %s", ar->path, strerror(errno));
	ar->temp = NULL;
	return QUERN_OK;
}

uint64_t qn_archive_bytes(const qn_archive *ar) { return ar->bytes; }
