/* mapfile.c - files mapped read-only. */
#include "graph/onnx/mapfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct mapping {
	void *at;
	size_t n;
} mapping;

static void unmap(void *arg)
{
	mapping *m = arg;
	if (m->n)
		munmap(m->at, m->n);
}

static qn_status check_kind(qn_ctx *ctx, const struct stat *st)
{
	if (S_ISDIR(st->st_mode))
		QN_FAIL(ctx, QUERN_ERR_IO, "is a directory; give the file inside it");
	if (!S_ISREG(st->st_mode))
		QN_FAIL(ctx, QUERN_ERR_IO, "is not a regular file; copy its content to a file first");
	return QUERN_OK;
}

/* Opened without blocking, so that a pipe that took the file's place between the checks cannot hang us. */
static qn_status map_open(qn_ctx *ctx, int fd, mapping *m)
{
	struct stat st;
	if (fstat(fd, &st))
		QN_FAIL(ctx, QUERN_ERR_IO, "cannot be inspected: %s", strerror(errno));
	QN_TRY(check_kind(ctx, &st));
	qn_source_note(ctx, (uint64_t)st.st_dev, (uint64_t)st.st_ino);
	if ((uint64_t)st.st_size > SIZE_MAX)
		QN_FAIL(ctx, QUERN_ERR_IO, "is larger than this machine can address");
	if (st.st_size == 0)
		return QUERN_OK;
	void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		QN_FAIL(ctx, QUERN_ERR_IO, "cannot be mapped: %s", strerror(errno));
	*m = (mapping){at, (size_t)st.st_size};
	return QUERN_OK;
}

qn_status qn_file_map(qn_ctx *ctx, qn_arena *a, const char *path, qn_bytes *out)
{
	struct stat st;
	if (stat(path, &st))
		QN_FAIL(ctx, QUERN_ERR_IO, "cannot be opened: %s", strerror(errno));
	QN_TRY(check_kind(ctx, &st));
	mapping *m = QN_NEW(a, mapping, 1); /* whatever may unwind comes before the descriptor and the mapping exist */
	qn_arena_defer(a, unmap, m);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		QN_FAIL(ctx, QUERN_ERR_IO, "cannot be opened: %s", strerror(errno));
	qn_status status = map_open(ctx, fd, m);
	close(fd);
	*out = (qn_bytes){m->n ? m->at : (const void *)"", m->n};
	return status;
}
