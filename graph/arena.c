/* arena.c - blocks of memory that go all at once, and text built in them. */
#include "graph/base.h"

#include <stdio.h>

struct qn_chunk {
	qn_chunk *next;
	size_t size; /* of the whole block */
};

struct qn_deferred {
	qn_deferred *next;
	void (*fn)(void *);
	void *arg;
};

/* Data of tensors starts a cache line, so that no vector straddles two. */
enum { LINE = 64, LARGE = 4096 };
enum { ALIGN = 16, FIRST_CHUNK = 16 << 10, LARGEST_CHUNK = 4 << 20 };

void qn_arena_init(qn_arena *a, qn_ctx *ctx) { *a = (qn_arena){.ctx = ctx}; }

void qn_arena_release(qn_arena *a)
{
	for (qn_deferred *d = a->deferred; d; d = d->next)
		d->fn(d->arg);
	for (qn_chunk *c = a->chunks; c;) {
		qn_chunk *next = c->next;
		qn_heap(a->ctx, c, c->size, 0);
		c = next;
	}
	qn_arena_init(a, a->ctx);
}

static void add_chunk(qn_arena *a, size_t bytes)
{
	size_t size = a->chunks ? a->chunks->size * 2 : FIRST_CHUNK;
	if (size > LARGEST_CHUNK)
		size = LARGEST_CHUNK;
	size_t header = (sizeof(qn_chunk) + ALIGN - 1) / ALIGN * ALIGN;
	if (size < bytes + header)
		size = bytes + header;
	qn_chunk *c = qn_heap(a->ctx, NULL, 0, size);
	*c = (qn_chunk){a->chunks, size};
	/* a block of its own for a large request must not hide the room left in the present one */
	if (a->chunks && size > LARGEST_CHUNK) {
		c->next = a->chunks->next;
		a->chunks->next = c;
	} else {
		a->chunks = c;
	}
	a->at = (char *)c + header;
	a->end = (char *)c + size;
}

static char *start_at(char *p, size_t bytes)
{
	size_t unit = bytes >= LARGE ? LINE : ALIGN;
	return p + (unit - (uintptr_t)p % unit) % unit;
}

void *qn_arena_alloc(qn_arena *a, size_t bytes)
{
	if (bytes > SIZE_MAX / 2) {
		qn_heap(a->ctx, NULL, 0, SIZE_MAX); /* unwinds */
		return NULL;
	}
	bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
	size_t room = a->at ? (size_t)(a->end - a->at) : 0;
	char *p = room ? start_at(a->at, bytes) : NULL;
	if (!p || p > a->end || (size_t)(a->end - p) < bytes) {
		char *at = a->at, *end = a->end;
		add_chunk(a, bytes + LINE);
		p = start_at(a->at, bytes);
		memset(p, 0, bytes);
		if (end - at > a->end - (p + bytes)) { /* the old block has more room left */
			a->at = at;
			a->end = end;
		} else {
			a->at = p + bytes;
		}
		return p;
	}
	a->at = p + bytes;
	memset(p, 0, bytes);
	return p;
}

void *qn_arena_array(qn_arena *a, size_t n, size_t size)
{
	size_t bytes;
	return qn_arena_alloc(a, qn_mul_size(n, size, &bytes) ? bytes : SIZE_MAX);
}

void *qn_arena_grow(qn_arena *a, void *ptr, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return ptr;
	size_t cap2 = *cap ? *cap * 2 : 4;
	void *p = qn_arena_array(a, cap2, size);
	if (n)
		memcpy(p, ptr, n * size);
	*cap = cap2;
	return p;
}

char *qn_arena_strndup(qn_arena *a, const char *s, size_t n)
{
	char *p = qn_arena_alloc(a, n + 1);
	if (n)
		memcpy(p, s, n);
	return p;
}

char *qn_arena_strdup(qn_arena *a, const char *s) { return qn_arena_strndup(a, s, strlen(s)); }

char *qn_arena_vprintf(qn_arena *a, const char *fmt, va_list args)
{
	va_list again;
	va_copy(again, args);
	int n = vsnprintf(NULL, 0, fmt, args);
	char *p = qn_arena_alloc(a, (size_t)(n < 0 ? 0 : n) + 1);
	if (n > 0)
		vsnprintf(p, (size_t)n + 1, fmt, again);
	va_end(again);
	return p;
}

char *qn_arena_printf(qn_arena *a, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	char *p = qn_arena_vprintf(a, fmt, args);
	va_end(args);
	return p;
}

void qn_arena_defer(qn_arena *a, void (*fn)(void *), void *arg)
{
	qn_deferred *d = QN_NEW(a, qn_deferred, 1);
	*d = (qn_deferred){a->deferred, fn, arg};
	a->deferred = d;
}

void qn_text_bytes(qn_text *t, const void *data, size_t n)
{
	if (t->len + n + 1 > t->cap) {
		size_t cap = t->cap ? t->cap : 128;
		while (cap < t->len + n + 1)
			cap *= 2;
		char *s = qn_arena_alloc(t->arena, cap);
		if (t->len)
			memcpy(s, t->s, t->len);
		t->s = s;
		t->cap = cap;
	}
	if (n)
		memcpy(t->s + t->len, data, n);
	t->len += n;
	t->s[t->len] = '\0';
}

void qn_text_add(qn_text *t, const char *fmt, ...)
{
	char small[256];
	va_list args, again;
	va_start(args, fmt);
	va_copy(again, args);
	int n = vsnprintf(small, sizeof small, fmt, args);
	va_end(args);
	if (n >= 0 && (size_t)n < sizeof small)
		qn_text_bytes(t, small, (size_t)n);
	else if (n > 0)
		qn_text_bytes(t, qn_arena_vprintf(t->arena, fmt, again), (size_t)n);
	va_end(again);
}
