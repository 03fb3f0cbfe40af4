/* streams.c - batches of samples and the two runs over them. */
#include "passes/gptq/streams.h"

/* --- copies --------------------------------------------------------------------------------------------------- */
typedef enum kind { RANDOM, HALF, MIX, CROP } kind;
/* Order in which copies are made: mostly new ids, for they cover most. */
static const kind order[] = {RANDOM, HALF, RANDOM, MIX, RANDOM, HALF, CROP};
enum { TOKENS_WANTED = 8500, MOST_COPIES = 14 };

/* xorshift64*: small, and the same everywhere */
static uint64_t next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 2685821657736338717u;
}

static int64_t below(uint64_t *state, int64_t n) { return (int64_t)((next(state) >> 11) % (uint64_t)n); }

typedef struct ids {
	int input;    /* -1: none */
	int64_t rows; /* of the table it indexes */
	int64_t *all; /* every id of every sample */
	size_t n, cap;
} ids;

/* The graph input that indexes the largest table. */
static ids find_ids(const qn_graph *g)
{
	ids found = {.input = -1};
	for (int i = 0; i < g->n_inputs; i++) {
		const qn_value *v = g->inputs[i];
		for (size_t k = 0; k < v->n_uses; k++) {
			const qn_node *n = v->uses[k].node;
			int table = n->op->weight_input - 1;
			if (n->op->hint != QN_HINT_NONE || table < 0 || v->uses[k].input == table || !qn_dtype_is_int(v->fact.type))
				continue;
			int64_t rows = n->in[table]->fact.shape.dim[0].k;
			if (rows > found.rows)
				found = (ids){.input = i, .rows = rows};
		}
	}
	return found;
}

static const qn_tensor *vary(const qn_tensor *t, kind how, const ids *d, uint64_t *state, qn_arena *a)
{
	qn_tensor *r = qn_tensor_new(a, t->type, t->rank, t->dim);
	int64_t len = t->dim[t->rank - 1], rows = qn_tensor_count(t) / (len ? len : 1);
	for (int64_t row = 0; row < rows; row++) {
		int64_t shift = how == CROP && len > 3 ? 1 + below(state, len - 3) : 0;
		for (int64_t i = 0; i < len; i++) {
			int64_t at = row * len + i, id = qn_tensor_get_i64(t, at);
			if (i > 0 && i < len - 1) {
				if (how == RANDOM || (how == HALF && below(state, 2)))
					id = below(state, d->rows);
				else if (how == MIX)
					id = d->all[below(state, (int64_t)d->n)];
				else if (how == CROP)
					id = qn_tensor_get_i64(t, row * len + 1 + (i - 1 + shift) % (len - 2));
			}
			qn_tensor_set((void *)(uintptr_t)r->data, r->type, at, (double)id);
		}
	}
	return r;
}

/* --- batches --------------------------------------------------------------------------------------------------- */
/* Whether samples can be stacked: axis 0 of every input is one and the same symbol. */
static bool has_batch_axis(const qn_graph *g)
{
	for (int i = 0; i < g->n_inputs; i++) {
		const qn_shape *s = &g->inputs[i]->fact.shape;
		if (s->rank < 1 || qn_dim_is_const(s->dim[0]) || !qn_dim_equal(s->dim[0], g->inputs[0]->fact.shape.dim[0]))
			return false;
	}
	return g->n_inputs > 0;
}

static bool stackable(const qn_tensor *a, const qn_tensor *b)
{
	return a->rank == b->rank && !memcmp(a->dim + 1, b->dim + 1, sizeof a->dim[0] * (size_t)(a->rank - 1));
}

static const qn_tensor *stacked(const qn_tensor *x, const qn_tensor *y, qn_arena *a)
{
	int64_t dim[QN_MAX_RANK];
	memcpy(dim, x->dim, sizeof dim);
	dim[0] += y->dim[0];
	qn_tensor *t = qn_tensor_new(a, x->type, x->rank, dim);
	size_t nx = qn_tensor_bytes(x), ny = qn_tensor_bytes(y);
	if (nx)
		memcpy((char *)(uintptr_t)t->data, x->data, nx);
	if (ny)
		memcpy((char *)(uintptr_t)t->data + nx, y->data, ny);
	return t;
}

static void add_batch(qn_streams *s, qn_arena *a, const qn_tensor *const *inputs, bool stack)
{
	for (size_t b = 0; b < s->n && stack; b++) {
		bool fits = true;
		for (int i = 0; i < s->g->n_inputs; i++)
			fits &= stackable(s->batch[b].inputs[i], inputs[i]);
		if (!fits)
			continue;
		for (int i = 0; i < s->g->n_inputs; i++)
			s->batch[b].inputs[i] = stacked(s->batch[b].inputs[i], inputs[i], a);
		return;
	}
	QN_GROW(a, s->batch, s->n, s->cap);
	qn_batch *b = &s->batch[s->n++];
	b->inputs = QN_NEW(a, const qn_tensor *, s->g->n_inputs);
	memcpy(b->inputs, inputs, (size_t)s->g->n_inputs * sizeof *inputs);
}

static int copies_wanted(int asked, int64_t tokens)
{
	if (asked >= 0)
		return asked;
	int64_t n = tokens ? TOKENS_WANTED / tokens : 0;
	return (int)(n < 1 ? 1 : n > MOST_COPIES ? MOST_COPIES : n);
}

qn_status qn_streams_open(qn_graph *g, qn_samples *samples, int copies, qn_arena *a, qn_streams *s)
{
	size_t n = qn_samples_count(samples);
	*s = (qn_streams){.g = g, .source = samples, .samples = n, .arena = a};
	ids d = find_ids(g);
	const qn_tensor ***all = QN_NEW(a, const qn_tensor **, n);
	for (size_t i = 0; i < n; i++) {
		all[i] = QN_NEW(a, const qn_tensor *, g->n_inputs);
		QN_TRY(qn_samples_read(samples, i, a, all[i]));
		if (d.input < 0)
			continue;
		const qn_tensor *t = all[i][d.input];
		int64_t count = qn_tensor_count(t);
		s->tokens += count;
		for (int64_t k = 0; k < count; k++) {
			QN_GROW(a, d.all, d.n, d.cap);
			d.all[d.n++] = qn_tensor_get_i64(t, k);
		}
	}
	bool stack = has_batch_axis(g);
	for (size_t i = 0; i < n; i++)
		add_batch(s, a, all[i], stack);
	s->copies = d.input < 0 ? 0 : (size_t)copies_wanted(copies, s->tokens);
	uint64_t state = 0x9e3779b97f4a7c15u;
	const qn_tensor **varied = QN_NEW(a, const qn_tensor *, g->n_inputs);
	for (size_t c = 0; c < s->copies; c++)
		for (size_t i = 0; i < n; i++) {
			memcpy(varied, all[i], (size_t)g->n_inputs * sizeof *varied);
			varied[d.input] = vary(all[i][d.input], order[c % QN_LEN(order)], &d, &state, a);
			add_batch(s, a, varied, stack);
		}
	s->consts = qn_consts_new(g, a);
	for (size_t b = 0; b < s->n; b++) {
		s->batch[b].exact = qn_exec_new(s->consts, a);
		s->batch[b].rounded = qn_exec_new(s->consts, a);
	}
	return QUERN_OK;
}

static qn_status run_alone(qn_streams *s, size_t i)
{
	qn_arena a;
	qn_arena_init(&a, s->g->ctx);
	const qn_tensor **in = QN_NEW(&a, const qn_tensor *, s->g->n_inputs + 1);
	qn_tensor *out = QN_NEW(&a, qn_tensor, s->g->n_outputs + 1);
	qn_status status = qn_samples_read(s->source, i, &a, in);
	if (status == QUERN_OK)
		status = qn_exec_run(s->g->ctx, s->g, in, &a, out, NULL, NULL);
	qn_arena_release(&a);
	return status;
}

qn_status qn_streams_blame(qn_streams *s, qn_status status)
{
	qn_ctx *ctx = s->g->ctx;
	char first[sizeof ctx->message];
	memcpy(first, ctx->message, sizeof first);
	for (size_t i = 0; status != QUERN_OK && i < s->samples; i++)
		if (run_alone(s, i) != QUERN_OK)
			return qn_prefix(ctx, status, "sample '%s'", qn_samples_name(s->source, i));
	memcpy(ctx->message, first, sizeof first);
	return status;
}

qn_status qn_streams_begin(qn_streams *s)
{
	qn_status status = QUERN_OK;
	for (size_t b = 0; b < s->n && status == QUERN_OK; b++) {
		status = qn_exec_begin(s->batch[b].exact, s->batch[b].inputs);
		if (status == QUERN_OK)
			status = qn_exec_begin(s->batch[b].rounded, s->batch[b].inputs);
	}
	return qn_streams_blame(s, status);
}

qn_status qn_streams_step(qn_streams *s, qn_node *n)
{
	for (size_t b = 0; b < s->n; b++)
		for (int k = 0; k < 2; k++) {
			qn_exec *e = k ? s->batch[b].rounded : s->batch[b].exact;
			qn_status status = qn_exec_step(e, n);
			if (status != QUERN_OK)
				return qn_streams_blame(s, status);
			qn_exec_finish(e, n);
		}
	return QUERN_OK;
}

qn_rows qn_streams_rows(qn_streams *s, qn_value *v, bool rounded, qn_arena *a)
{
	qn_rows r = {QN_NEW(a, const float *, s->n), QN_NEW(a, int64_t, s->n), s->n, 0, 0};
	for (size_t b = 0; b < s->n; b++) {
		const qn_tensor *t = qn_exec_value(rounded ? s->batch[b].rounded : s->batch[b].exact, v);
		if (!t || t->type != QN_F32 || t->rank < 1)
			return (qn_rows){0};
		r.width = t->dim[t->rank - 1];
		r.piece[b] = t->data;
		r.count[b] = r.width ? qn_tensor_count(t) / r.width : 0;
		r.rows += r.count[b];
	}
	return r;
}

void qn_streams_override(qn_streams *s, const qn_value *v, const qn_tensor *t)
{
	for (size_t b = 0; b < s->n; b++)
		qn_exec_override(s->batch[b].rounded, v, t);
}
