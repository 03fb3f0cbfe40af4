/* dat_file.c - .dat files of single tensors: their bytes, and the way onto the disk. */
#include "passes/nnef/archive.h"
#include "passes/quant/qscheme.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

qn_status qn_dat_file(qn_ctx *ctx, qn_arena *a, const char *name, const qn_tensor *t, bool legacy, uint8_t **file, size_t *n)
{
	enum { AT_ITEM = 48, ITEM_Q4_0_LEGACY = 0x2040 };
	uint8_t header[QN_DAT_HEADER];
	QN_TRY(qn_dat_encode(ctx, name, t, header));
	size_t bytes = qn_tensor_bytes(t);
	if (!qn_add_size(bytes, QN_DAT_HEADER, n))
		QN_FAIL(ctx, QUERN_ERR_SHAPE, "'%s': too many bytes for memory", name);
	*file = qn_arena_alloc(a, *n);
	memcpy(*file, header, QN_DAT_HEADER);
	if (bytes)
		memcpy(*file + QN_DAT_HEADER, t->data, bytes);
	if (legacy) {
		qn_put_u16(*file + AT_ITEM, ITEM_Q4_0_LEGACY);
		qn_q4_0_to_legacy(*file + QN_DAT_HEADER, qn_tensor_count(t) / QN_BLOCK);
	}
	return QUERN_OK;
}

static bool write_all(int fd, const uint8_t *data, size_t n)
{
	while (n) {
		ssize_t done = write(fd, data, n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		data += done;
		n -= (size_t)done;
	}
	return true;
}

/* A new file in the same folder, so that renaming is one step; with the mode that the user's mask leaves. */
static int open_beside(qn_arena *a, const char *path, char **name)
{
	static atomic_uint serial;
	int fd;
	do {
		*name = qn_arena_printf(a, "%s.%ld-%u.tmp", path, (long)getpid(), atomic_fetch_add(&serial, 1));
		fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	} while (fd < 0 && errno == EEXIST);
	return fd;
}

qn_status qn_file_replace(qn_ctx *ctx, qn_arena *a, const char *path, const void *data, size_t n)
{
	struct stat st;
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		QN_FAIL(ctx, QUERN_ERR_IO, "'%s' is not a regular file; give another name", path);
	char *beside;
	int fd = open_beside(a, path, &beside);
	if (fd < 0)
		QN_FAIL(ctx, QUERN_ERR_IO, "'%s' cannot be written: %s", path, strerror(errno));
	bool written = write_all(fd, data, n);
	int error = errno;
	if (close(fd) && written) {
		error = errno;
		written = false;
	}
	if (written && rename(beside, path)) {
		error = errno;
		written = false;
	}
	if (written)
		return QUERN_OK;
	unlink(beside);
	QN_FAIL(ctx, QUERN_ERR_IO, "'%s' cannot be written: %s", path, strerror(error));
}
