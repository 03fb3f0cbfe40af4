/* base.h - status, context, messages and memory: what every other file stands on.
 *
 * Memory rule of the whole code base: graph data, names and temporaries live in arenas; one call drops
 * all of an arena. An arena call never returns NULL: when the heap is exhausted it unwinds to the public
 * entry point (QN_ENTER), which returns QUERN_ERR_MEMORY. Whatever is not memory (a mapped file, a handle of
 * another library) is registered with qn_arena_defer and so is released on either way out.
 * Never unwind through an OpenMP region: allocate before it. */
#ifndef QN_BASE_H
#define QN_BASE_H

#include <quern/quern.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef quern_status qn_status;

#define QN_PRINTF(a, b) __attribute__((format(printf, a, b)))
#define QN_LEN(a) (sizeof(a) / sizeof((a)[0]))

typedef struct qn_ctx {
	quern_alloc_fn alloc; /* the one door to the heap: (user, ptr, old size, new size) */
	void *alloc_user;
	quern_log_fn log;
	void *log_user;
	quern_progress_fn progress;
	void *progress_user;
	int threads;        /* 0: as many as the machine has */
	bool engine_math;   /* f32 as the engine computes it (graph/ops/_engine.h), for what is to be compared with its results */
	jmp_buf *on_memory; /* where an exhausted heap unwinds to; set by QN_ENTER */
	char message[4096]; /* the text of the last failure */
	struct {
		uint64_t device, inode;
	} sources[64]; /* files that were read through this context; writers refuse to replace them */
	int n_sources;
} qn_ctx;

/* Returns its status argument after it wrote the message. Form: lower case, what failed first, subjects in
 * single quotes, no full stop; say what to try where there is something. */
qn_status qn_fail(qn_ctx *ctx, qn_status status, const char *fmt, ...) QN_PRINTF(3, 4);
/* Puts "text: " before the present message; returns `status` unchanged. Each layer adds its part on the way out. */
qn_status qn_prefix(qn_ctx *ctx, qn_status status, const char *fmt, ...) QN_PRINTF(3, 4);
/* Notes a file that is being read (of very many, the last 64 are remembered). */
void qn_source_note(qn_ctx *ctx, uint64_t device, uint64_t inode);
void qn_source_note_path(qn_ctx *ctx, const char *path); /* of a regular file; else it does nothing */
void qn_source_note_folder(qn_ctx *ctx, const char *path); /* of samples: its .npz and .pb files, and those of its folders, count as read */
/* QUERN_ERR_CONFIG when `path` is one of the noted files: what the user gives is never overwritten. */
qn_status qn_source_spare(qn_ctx *ctx, const char *path);
/* A line for the host's log callback; the library itself never prints. */
void qn_log(qn_ctx *ctx, quern_log_level level, const char *fmt, ...) QN_PRINTF(3, 4);

#define QN_FAIL(ctx, status, ...) return qn_fail((ctx), (status), __VA_ARGS__)
#define QN_TRY(expr)                                                                                                   \
	do {                                                                                                           \
		qn_status qn_try_status_ = (expr);                                                                     \
		if (qn_try_status_ != QUERN_OK)                                                                        \
			return qn_try_status_;                                                                         \
	} while (0)

/* First statement of a public function that may allocate: on an exhausted heap the function returns the memory
 * status. Nested entries keep the outermost target; QN_LEAVE restores it. */
#define QN_ENTER(ctx, saved, buf)                                                                                      \
	jmp_buf *saved = (ctx)->on_memory;                                                                             \
	jmp_buf buf;                                                                                                   \
	if (setjmp(buf)) {                                                                                             \
		(ctx)->on_memory = saved;                                                                              \
		return qn_fail((ctx), QUERN_ERR_MEMORY, "out of memory");                                              \
	}                                                                                                              \
	(ctx)->on_memory = &buf
#define QN_LEAVE(ctx, saved) ((ctx)->on_memory = (saved))

/* Heap blocks with sizes told both ways. qn_heap(ctx, NULL, 0, n) allocates, qn_heap(ctx, p, n, 0) frees.
 * Unwinds when the heap is exhausted. */
void *qn_heap(qn_ctx *ctx, void *ptr, size_t old_size, size_t new_size);

/* --- arena ------------------------------------------------------------------------------------------- */
typedef struct qn_chunk qn_chunk;
typedef struct qn_deferred qn_deferred;
typedef struct qn_arena {
	qn_ctx *ctx;
	qn_chunk *chunks; /* newest first */
	char *at, *end;
	qn_deferred *deferred; /* newest first; run before the memory goes */
} qn_arena;

void qn_arena_init(qn_arena *a, qn_ctx *ctx);
void qn_arena_release(qn_arena *a); /* runs what was deferred, frees all; the arena is empty and usable after it */
void *qn_arena_alloc(qn_arena *a, size_t bytes);  /* zeroed; 16-byte aligned, from 4 KiB on 64-byte */
char *qn_arena_strdup(qn_arena *a, const char *s);
char *qn_arena_strndup(qn_arena *a, const char *s, size_t n);
char *qn_arena_printf(qn_arena *a, const char *fmt, ...) QN_PRINTF(2, 3);
char *qn_arena_vprintf(qn_arena *a, const char *fmt, va_list args) QN_PRINTF(2, 0);
void qn_arena_defer(qn_arena *a, void (*fn)(void *), void *arg);

/* n objects of a type, zeroed; unwinds when n * sizeof overflows */
#define QN_NEW(a, type, n) ((type *)qn_arena_array((a), (size_t)(n), sizeof(type)))
void *qn_arena_array(qn_arena *a, size_t n, size_t size);
/* Grows `ptr` (holding `n` of `*cap` items) so that one more fits. Old storage stays in the arena. */
#define QN_GROW(a, ptr, n, cap) ((ptr) = qn_arena_grow((a), (ptr), (size_t)(n), &(cap), sizeof *(ptr)))
void *qn_arena_grow(qn_arena *a, void *ptr, size_t n, size_t *cap, size_t size);

/* --- text under construction in an arena ------------------------------------------------------------- */
typedef struct qn_text {
	qn_arena *arena;
	char *s; /* NUL-terminated once something was added, else NULL */
	size_t len, cap;
} qn_text;
void qn_text_add(qn_text *t, const char *fmt, ...) QN_PRINTF(2, 3);
void qn_text_bytes(qn_text *t, const void *data, size_t n);

/* --- checked arithmetic and bytes ---------------------------------------------------------------------- */
static inline bool qn_mul_size(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool qn_add_size(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }

static inline uint16_t qn_get_u16(const void *p) { const uint8_t *b = p; return (uint16_t)(b[0] | b[1] << 8); }
static inline uint32_t qn_get_u32(const void *p)
{
	const uint8_t *b = p;
	return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}
static inline void qn_put_u16(void *p, uint16_t v) { uint8_t *b = p; b[0] = (uint8_t)v; b[1] = (uint8_t)(v >> 8); }
static inline void qn_put_u32(void *p, uint32_t v)
{
	uint8_t *b = p;
	b[0] = (uint8_t)v; b[1] = (uint8_t)(v >> 8); b[2] = (uint8_t)(v >> 16); b[3] = (uint8_t)(v >> 24);
}

/* IEEE half and bfloat16; to half rounds to nearest even, overflow gives infinity. */
uint16_t qn_f32_to_f16(float f);
float qn_f16_to_f32(uint16_t h);
uint16_t qn_f32_to_bf16(float f);
float qn_bf16_to_f32(uint16_t h);

/* Insertions, deletions and substitutions that turn a into b, letters of either case alike; some number over give_up when there are more. */
size_t qn_edit_distance(const char *a, size_t la, const char *b, size_t lb, size_t give_up);
/* The nearest name to `name` among `names` by edit distance, or NULL when none is near (for "did you mean"). */
const char *qn_nearest(const char *name, const char *const *names, size_t n);

#endif
