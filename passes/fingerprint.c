/* fingerprint.c - two independent 64-bit hashes over 8-byte words, taken side by side in one walk. Not a cryptographic hash: it tells models apart, it does not
 * guard against somebody who makes two alike. */
#include "passes/fingerprint.h"

#include <inttypes.h>

struct qn_hash {
	uint64_t a, b;
	qn_arena *arena; /* for texts on the way */
};

static inline uint64_t rotate(uint64_t v, int by) { return v << by | v >> (64 - by); }

/* The factors are odd numbers with bits all over. */
static inline void add_word(qn_hash *h, uint64_t w)
{
	h->a = rotate(h->a ^ w * 0x8f3a61d50c2be947u, 27) * 0xc19d4e7b3286f0a5u;
	h->b = (rotate(h->b, 31) + w) * 0xb5297a4d1f86e3c9u;
}

static void add_bytes(qn_hash *h, const void *data, size_t n)
{
	const uint8_t *p = data;
	uint64_t w = 0;
	add_word(h, n);
	for (; n >= sizeof w; n -= sizeof w, p += sizeof w) {
		memcpy(&w, p, sizeof w);
		add_word(h, w);
	}
	w = 0;
	if (n)
		memcpy(&w, p, n);
	add_word(h, w);
}

static void add_string(qn_hash *h, const char *s) { add_bytes(h, s ? s : "", s ? strlen(s) : 0); }

static void add_tensor(qn_hash *h, const qn_tensor *t)
{
	if (!t) {
		add_word(h, 0);
		return;
	}
	add_word(h, 1 + (uint64_t)t->type);
	add_bytes(h, t->dim, (size_t)t->rank * sizeof *t->dim);
	add_bytes(h, t->data, qn_tensor_bytes(t));
}

static void add_graph(qn_hash *h, const qn_graph *g);

static void add_attr(qn_hash *h, const qn_attr *at)
{
	uint32_t bits;
	memcpy(&bits, &at->f, sizeof bits);
	add_string(h, at->name);
	add_word(h, (uint64_t)at->kind);
	add_word(h, (uint64_t)at->i);
	add_word(h, bits);
	add_string(h, at->s);
	add_tensor(h, at->t);
	add_word(h, at->n);
	if (at->ints)
		add_bytes(h, at->ints, at->n * sizeof *at->ints);
	if (at->floats)
		add_bytes(h, at->floats, at->n * sizeof *at->floats);
	for (size_t i = 0; at->strings && i < at->n; i++)
		add_string(h, at->strings[i]);
	if (at->graph)
		add_graph(h, at->graph);
}

static void add_node(qn_hash *h, const qn_node *n)
{
	add_string(h, n->name);
	add_string(h, n->op_type);
	add_string(h, n->domain);
	add_word(h, (uint64_t)n->opset);
	add_word(h, (uint64_t)n->n_in);
	for (int i = 0; i < n->n_in; i++)
		add_string(h, n->in[i] ? n->in[i]->name : NULL);
	add_word(h, (uint64_t)n->n_out);
	for (int i = 0; i < n->n_out; i++)
		add_string(h, n->out[i] ? n->out[i]->name : NULL);
	add_word(h, (uint64_t)n->n_attrs);
	for (int i = 0; i < n->n_attrs; i++)
		add_attr(h, &n->attrs[i]);
}

static void add_graph(qn_hash *h, const qn_graph *g)
{
	add_word(h, (uint64_t)g->n_inputs);
	for (int i = 0; i < g->n_inputs; i++) {
		add_string(h, g->inputs[i]->name);
		add_word(h, (uint64_t)g->inputs[i]->fact.type);
		add_string(h, qn_shape_text(h->arena, &g->inputs[i]->fact.shape));
	}
	add_word(h, (uint64_t)g->n_outputs);
	for (int i = 0; i < g->n_outputs; i++)
		add_string(h, g->output_names[i]);
	for (const qn_node *n = g->first; n; n = n->next)
		add_node(h, n);
	for (size_t i = 0; i < g->n_values; i++) {
		const qn_value *v = g->values[i];
		if (!v || !v->is_const || !v->fact.value)
			continue;
		add_string(h, v->name);
		add_tensor(h, v->fact.value);
	}
}

static uint64_t finish(uint64_t v)
{
	v = (v ^ v >> 32) * 0xd6e8feb86659fd93u;
	v = (v ^ v >> 29) * 0x9fb21c651e98df25u;
	return v ^ v >> 32;
}

static const qn_hash start = {0x6a09e667f3bcc909u, 0xbb67ae8584caa73bu, NULL};

qn_hash *qn_hash_new(qn_arena *a)
{
	qn_hash *h = QN_NEW(a, qn_hash, 1);
	*h = start;
	h->arena = a;
	return h;
}

void qn_hash_text(qn_hash *h, const char *s) { add_string(h, s); }
void qn_hash_tensor(qn_hash *h, const qn_tensor *t) { add_tensor(h, t); }

const char *qn_hash_digits(const qn_hash *h, qn_arena *a) { return qn_arena_printf(a, "%016" PRIx64 "%016" PRIx64, finish(h->a), finish(h->b)); }

const char *qn_fingerprint(const qn_graph *g, qn_arena *a)
{
	qn_arena scratch;
	qn_arena_init(&scratch, g->ctx);
	qn_hash h = start;
	h.arena = &scratch;
	add_graph(&h, g);
	qn_arena_release(&scratch);
	return qn_hash_digits(&h, a);
}
