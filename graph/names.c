/* names.c - open-addressing table from names to items. */
#include "graph/names.h"

typedef struct slot {
	const char *name;
	void *item;
	unsigned next_suffix; /* where the search for a free suffix goes on */
} slot;

struct qn_names {
	qn_arena *arena;
	slot *slots;
	size_t n, cap;
};

uint64_t qn_hash_bytes(const void *data, size_t n, uint64_t seed)
{
	const uint8_t *p = data;
	uint64_t h = 14695981039346656037u ^ seed;
	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 1099511628211u;
	return h;
}

qn_names *qn_names_new(qn_arena *a)
{
	qn_names *t = QN_NEW(a, qn_names, 1);
	t->arena = a;
	t->cap = 64;
	t->slots = QN_NEW(a, slot, t->cap);
	return t;
}

static slot *find(const qn_names *t, const char *name)
{
	size_t i = qn_hash_bytes(name, strlen(name), 0) & (t->cap - 1);
	while (t->slots[i].name && strcmp(t->slots[i].name, name))
		i = (i + 1) & (t->cap - 1);
	return &t->slots[i];
}

void *qn_names_get(const qn_names *t, const char *name) { return find(t, name)->item; }

void qn_names_put(qn_names *t, const char *name, void *item)
{
	slot *s = find(t, name);
	if (s->name) {
		s->item = item;
		return;
	}
	*s = (slot){name, item, 2};
	if (++t->n * 2 <= t->cap)
		return;
	slot *old = t->slots;
	size_t old_cap = t->cap;
	t->cap *= 2;
	t->slots = QN_NEW(t->arena, slot, t->cap);
	for (size_t i = 0; i < old_cap; i++)
		if (old[i].name)
			*find(t, old[i].name) = old[i];
}

const char *qn_names_unique(qn_names *t, const char *wanted)
{
	slot *s = find(t, wanted);
	if (!s->name)
		return qn_arena_strdup(t->arena, wanted);
	for (;;) {
		const char *name = qn_arena_printf(t->arena, "%s_%u", wanted, s->next_suffix++);
		if (!find(t, name)->name)
			return name;
	}
}
