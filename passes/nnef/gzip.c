#include "passes/nnef/gzip.h"

#include <omp.h>
#include <zlib.h>

enum {
	BLOCK = 256 << 10,
	BLOCKS = 8,                                /* compressed together */
	ROOM = BLOCK + BLOCK / 8 + BLOCK / 64 + 64, /* the most that zlib can make of a block */
	WORK = 1 << 20                             /* memory of one zlib stream */
};

/* Memory that one zlib stream takes its blocks from; reset for each block of input. */
typedef struct pool {
	char *at;
	size_t used;
} pool;

struct qn_gzip {
	qn_sink_fn sink;
	void *user;
	int threads;
	bool started, text;
	bool block_text[BLOCKS];
	size_t block_len[BLOCKS], out_len[BLOCKS];
	int n;           /* whole blocks waiting; block n is being filled */
	uint8_t *in, *out;
	char *work;      /* WORK bytes a thread */
	uint32_t crc, size;
};

qn_gzip *qn_gzip_new(qn_arena *a, qn_sink_fn sink, void *user)
{
	qn_gzip *gz = QN_NEW(a, qn_gzip, 1);
	int threads = a->ctx->threads > 0 ? a->ctx->threads : omp_get_max_threads();
	*gz = (qn_gzip){.sink = sink, .user = user, .threads = threads < BLOCKS ? threads : BLOCKS};
	gz->in = qn_arena_alloc(a, (size_t)BLOCKS * BLOCK);
	gz->out = qn_arena_alloc(a, (size_t)BLOCKS * ROOM);
	gz->work = qn_arena_alloc(a, (size_t)gz->threads * WORK);
	return gz;
}

static void *take(void *opaque, unsigned items, unsigned size)
{
	pool *p = opaque;
	size_t bytes = ((size_t)items * size + 63) / 64 * 64;
	if (bytes > WORK - p->used)
		return Z_NULL;
	void *at = p->at + p->used;
	p->used += bytes;
	return at;
}

static void give_back(void *opaque, void *at)
{
	(void)opaque;
	(void)at;
}

/* Ends on a byte, with the stream open. Returns 0 where zlib fails. */
static size_t compress_block(const uint8_t *in, size_t n, bool text, uint8_t *out, char *work)
{
	pool p = {work, 0};
	z_stream z = {.zalloc = take, .zfree = give_back, .opaque = &p};
	if (deflateInit2(&z, text ? 6 : 1, Z_DEFLATED, -MAX_WBITS, 8, text ? Z_DEFAULT_STRATEGY : Z_RLE) != Z_OK)
		return 0;
	z.next_in = (uint8_t *)(uintptr_t)in;
	z.avail_in = (unsigned)n;
	z.next_out = out;
	z.avail_out = ROOM;
	int done = deflate(&z, Z_SYNC_FLUSH);
	size_t len = ROOM - z.avail_out;
	bool whole = done == Z_OK && z.avail_in == 0 && z.avail_out > 0;
	deflateEnd(&z);
	return whole ? len : 0;
}

static bool flush_blocks(qn_gzip *gz)
{
	if (!gz->started) {
		/* magic, deflate, no flags, no time, no hint, system unknown */
		static const uint8_t header[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255};
		gz->started = true;
		if (!gz->sink(gz->user, header, sizeof header))
			return false;
	}
#pragma omp parallel for num_threads(gz->threads) schedule(dynamic) if (gz->n > 1)
	for (int i = 0; i < gz->n; i++)
		gz->out_len[i] = compress_block(gz->in + (size_t)i * BLOCK, gz->block_len[i], gz->block_text[i], gz->out + (size_t)i * ROOM,
			gz->work + (size_t)omp_get_thread_num() * WORK);
	for (int i = 0; i < gz->n; i++) {
		if (!gz->out_len[i] || !gz->sink(gz->user, gz->out + (size_t)i * ROOM, gz->out_len[i]))
			return false;
		gz->block_len[i] = 0;
	}
	gz->n = 0;
	return true;
}

static bool end_block(qn_gzip *gz)
{
	if (!gz->block_len[gz->n])
		return true;
	gz->block_text[gz->n++] = gz->text;
	return gz->n < BLOCKS || flush_blocks(gz);
}

bool qn_gzip_text(qn_gzip *gz, bool text)
{
	if (text != gz->text && !end_block(gz))
		return false;
	gz->text = text;
	return true;
}

bool qn_gzip_write(qn_gzip *gz, const void *data, size_t n)
{
	const uint8_t *p = data;
	while (n) {
		size_t *len = &gz->block_len[gz->n];
		size_t m = n < BLOCK - *len ? n : BLOCK - *len;
		uint8_t *to = gz->in + (size_t)gz->n * BLOCK + *len;
		memcpy(to, p, m);
		gz->crc = (uint32_t)crc32(gz->crc, to, (unsigned)m);
		gz->size += (uint32_t)m;
		*len += m;
		p += m;
		n -= m;
		if (*len == BLOCK && !end_block(gz))
			return false;
	}
	return true;
}

bool qn_gzip_finish(qn_gzip *gz)
{
	if (!end_block(gz) || !flush_blocks(gz))
		return false;
	uint8_t tail[10] = {0x03, 0x00}; /* an empty last block */
	qn_put_u32(tail + 2, gz->crc);
	qn_put_u32(tail + 6, gz->size);
	return gz->sink(gz->user, tail, sizeof tail);
}
