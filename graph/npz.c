/* npz.c - .npz archives through libarchive. */
#include "graph/npz.h"

#include "graph/npy.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

struct qn_npz {
	const char **names;
	qn_tensor *tensors;
	size_t n, cap_names, cap_tensors;
};

static void free_reader(void *r) { archive_read_free(r); }

/* Grows with what is there, whatever the header claims. */
static qn_status read_member(qn_ctx *ctx, qn_arena *a, struct archive *r, const char *path, const char *name, const void **out, size_t *n)
{
	qn_text bytes = {.arena = a};
	char buffer[64 << 10];
	for (;;) {
		la_ssize_t got = archive_read_data(r, buffer, sizeof buffer);
		if (got < 0)
			QN_FAIL(ctx, QUERN_ERR_FORMAT, "'%s': member '%s': %s", path, name, archive_error_string(r));
		if (got == 0)
			break;
		qn_text_bytes(&bytes, buffer, (size_t)got);
	}
	*out = bytes.s;
	*n = bytes.len;
	return QUERN_OK;
}

qn_status qn_npz_read(qn_ctx *ctx, qn_arena *a, const char *path, qn_npz **out)
{
	struct archive *r = archive_read_new();
	if (!r)
		QN_FAIL(ctx, QUERN_ERR_MEMORY, "out of memory");
	qn_arena_defer(a, free_reader, r);
	archive_read_support_format_zip(r);
	if (archive_read_open_filename(r, path, 64 << 10) != ARCHIVE_OK)
		QN_FAIL(ctx, QUERN_ERR_IO, "cannot read '%s' as a .npz: %s", path, archive_error_string(r));
	qn_npz *z = QN_NEW(a, qn_npz, 1);
	struct archive_entry *e;
	int code;
	while ((code = archive_read_next_header(r, &e)) == ARCHIVE_OK || code == ARCHIVE_WARN) {
		const char *member = archive_entry_pathname_utf8(e);
		if (!member)
			member = archive_entry_pathname(e);
		size_t len = member ? strlen(member) : 0;
		if (len < 4 || strcmp(member + len - 4, ".npy"))
			continue;
		const void *file;
		size_t n;
		QN_GROW(a, z->names, z->n, z->cap_names);
		QN_GROW(a, z->tensors, z->n, z->cap_tensors);
		const char *name = qn_arena_strndup(a, member, len - 4);
		if (qn_npz_get(z, name))
			QN_FAIL(ctx, QUERN_ERR_FORMAT, "'%s': array '%s' is there twice", path, name);
		QN_TRY(read_member(ctx, a, r, path, name, &file, &n));
		QN_TRY(qn_npy_decode(ctx, a, qn_arena_printf(a, "%s: %s", path, name), file, n, &z->tensors[z->n]));
		z->names[z->n++] = name;
	}
	if (code != ARCHIVE_EOF)
		QN_FAIL(ctx, QUERN_ERR_FORMAT, "'%s': %s", path, archive_error_string(r));
	*out = z;
	return QUERN_OK;
}

const qn_tensor *qn_npz_get(const qn_npz *z, const char *name)
{
	for (size_t i = 0; i < z->n; i++)
		if (!strcmp(z->names[i], name))
			return &z->tensors[i];
	return NULL;
}

int qn_npz_count(const qn_npz *z) { return (int)z->n; }
const char *qn_npz_name(const qn_npz *z, int i) { return z->names[i]; }

static qn_status write_member(qn_ctx *ctx, struct archive *w, const char *name, const qn_tensor *t)
{
	qn_arena a;
	qn_arena_init(&a, ctx);
	const void *file = NULL;
	size_t n = 0;
	if (qn_dtype_is_small(t->type))
		qn_log(ctx, QUERN_LOG_INFO, "array '%s' is of type %s, which NumPy does not have: written as %s", name, qn_dtype_name(t->type),
			qn_dtype_name(qn_dtype_plain(t->type)));
	qn_status status = qn_npy_encode(ctx, &a, name, qn_tensor_plain(&a, t), &file, &n);
	struct archive_entry *e = archive_entry_new();
	if (status == QUERN_OK) {
		archive_entry_set_pathname_utf8(e, qn_arena_printf(&a, "%s.npy", name));
		archive_entry_set_size(e, (la_int64_t)n);
		archive_entry_set_filetype(e, AE_IFREG);
		archive_entry_set_perm(e, 0644);
		archive_entry_set_mtime(e, 315532800, 0); /* 1980, where the zip calendar begins */
		if (archive_write_header(w, e) != ARCHIVE_OK || archive_write_data(w, file, n) != (la_ssize_t)n)
			status = qn_fail(ctx, QUERN_ERR_IO, "cannot write array '%s': %s", name, archive_error_string(w));
	}
	archive_entry_free(e);
	qn_arena_release(&a);
	return status;
}

qn_status qn_npz_write(qn_ctx *ctx, const char *path, const char *const *names, const qn_tensor *t, int n)
{
	QN_TRY(qn_source_spare(ctx, path));
	qn_arena a;
	qn_arena_init(&a, ctx);
	const char *beside = qn_arena_printf(&a, "%s.%ld.part", path, (long)getpid());
	struct archive *w = archive_write_new();
	archive_write_set_format_zip(w);
	archive_write_zip_set_compression_store(w);
	qn_status status = QUERN_OK;
	if (archive_write_open_filename(w, beside) != ARCHIVE_OK)
		status = qn_fail(ctx, QUERN_ERR_IO, "cannot write '%s': %s", path, archive_error_string(w));
	for (int i = 0; i < n && status == QUERN_OK; i++)
		status = write_member(ctx, w, names[i], &t[i]);
	if (archive_write_close(w) != ARCHIVE_OK && status == QUERN_OK)
		status = qn_fail(ctx, QUERN_ERR_IO, "cannot write '%s': %s", path, archive_error_string(w));
	archive_write_free(w);
	if (status == QUERN_OK && rename(beside, path))
		status = qn_fail(ctx, QUERN_ERR_IO, "cannot rename '%s' to '%s': %s", beside, path, strerror(errno));
	if (status != QUERN_OK)
		unlink(beside);
	qn_arena_release(&a);
	return status;
}
