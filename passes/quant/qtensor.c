/* qtensor.c - a weight in the engine's Q4_0 form, its codes compressed in memory. */
#include "graph/onnx/mapfile.h"
#include "passes/nnef/archive.h"
#include "passes/nnef/folder.h"
#include "passes/quant/qscheme.h"

#include <errno.h>
#include <sys/stat.h>

struct quern_qtensor {
	qn_ctx *ctx;
	qn_arena arena; /* all that follows */
	quern_qscheme *scheme;
	quern_machine machine;
	quern_element type;
	int rank;
	int64_t dim[QN_MAX_RANK], count;
	quern_u8_compressor *chain;
	size_t n_chain;
	size_t *length; /* n_chain + 1: bytes before the first compressor, after each */
	uint8_t *stored;
};

static qn_status check_shape(qn_ctx *ctx, const quern_floats *v)
{
	if (v->rank < 2 || v->rank > 4)
		QN_FAIL(ctx, QUERN_ERR_SHAPE, "q4_0 holds tensors of 2 to 4 axes, not %d", v->rank);
	int64_t row = 1;
	for (int i = 1; i < v->rank; i++)
		row = row * (v->dim[i] % QN_BLOCK) % QN_BLOCK;
	if (row)
		QN_FAIL(ctx, QUERN_ERR_SHAPE, "q4_0 needs the axes after the first to multiply to a multiple of %d", QN_BLOCK);
	return QUERN_OK;
}

typedef struct making {
	quern_context *context;
	const quern_floats *values;
	const quern_qscheme *scheme;
	quern_machine machine;
	const quern_u8_compressor *chain;
	size_t n_chain;
	quern_qtensor **out;
} making;

static qn_status compress(quern_qtensor *t, qn_arena *scratch, const making *m, uint8_t *codes)
{
	qn_arena *a = &t->arena;
	t->n_chain = m->n_chain;
	t->chain = QN_NEW(a, quern_u8_compressor, t->n_chain);
	for (size_t i = 0; i < t->n_chain; i++)
		t->chain[i] = m->chain[i];
	t->length = QN_NEW(a, size_t, t->n_chain + 1);
	t->length[0] = (size_t)t->count;
	for (size_t i = 0; i < t->n_chain; i++) {
		const quern_u8_compressor *c = &t->chain[i];
		uint8_t *next = qn_arena_alloc(scratch, c->bound(c->user, t->length[i]));
		if (!c->compress(c->user, codes, t->length[i], next, &t->length[i + 1]))
			QN_FAIL(t->ctx, QUERN_ERR_CONFIG,
				"compressor '%s' refuses the codes; chain one that takes what the one before it gives", c->name);
		codes = next;
	}
	t->stored = qn_arena_alloc(a, t->length[t->n_chain]);
	if (t->length[t->n_chain])
		memcpy(t->stored, codes, t->length[t->n_chain]);
	return QUERN_OK;
}

static qn_status make(qn_ctx *ctx, qn_arena *scratch, void *args)
{
	making *m = args;
	const quern_qscheme *s = m->scheme;
	QN_TRY(check_shape(ctx, m->values));
	if (s->bits != 4 || s->group != QN_BLOCK)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "q4_0 needs a scheme of 4 bits and groups of %d, not of %d bits and groups of %lld",
			QN_BLOCK, s->bits, (long long)s->group);
	quern_qtensor *t = qn_heap(ctx, NULL, 0, sizeof *t);
	*t = (quern_qtensor){.ctx = ctx, .machine = m->machine, .type = m->values->type, .rank = m->values->rank, .count = 1};
	qn_arena_init(&t->arena, ctx);
	*m->out = t;
	for (int i = 0; i < t->rank; i++) {
		t->dim[i] = m->values->dim[i];
		if (t->dim[i] < 0 || __builtin_mul_overflow(t->count, t->dim[i], &t->count))
			QN_FAIL(ctx, QUERN_ERR_SHAPE, "axis %d of %lld items: negative, or the product of the axes overflows", i,
				(long long)t->dim[i]);
	}
	QN_TRY(quern_qscheme_new(m->context, s->bits, s->group, s->scale, s->n, &t->scheme));
	t->scheme->report = s->report;
	uint8_t *codes = qn_arena_alloc(scratch, (size_t)t->count);
	QN_TRY(quern_qscheme_quantize(t->scheme, m->values, codes));
	return compress(t, scratch, m, codes);
}

quern_status quern_qtensor_new(quern_context *c, const quern_floats *values, const quern_qscheme *scheme, quern_machine machine,
	const quern_u8_compressor *chain, size_t n_chain, quern_qtensor **out)
{
	making m = {c, values, scheme, machine, chain, n_chain, out};
	*out = NULL;
	qn_status status = qn_guarded(&c->ctx, make, &m);
	if (status != QUERN_OK) {
		quern_qtensor_free(*out);
		*out = NULL;
	}
	return status;
}

quern_status quern_qtensor_min_max(quern_context *c, const quern_floats *values, double percentile, quern_qtensor **out)
{
	enum { BITS = 4 };
	quern_qscheme *scheme;
	quern_u8_compressor packing = quern_u8_bit_packing(BITS);
	*out = NULL;
	QN_TRY(check_shape(&c->ctx, values));
	QN_TRY(quern_qscheme_min_max(c, values, BITS, QN_BLOCK, percentile, &scheme));
	qn_status status = quern_qtensor_new(c, values, scheme, QUERN_MACHINE_HOST, &packing, 1, out);
	quern_qscheme_free(scheme);
	return status;
}

void quern_qtensor_free(quern_qtensor *t)
{
	if (!t)
		return;
	quern_qscheme_free(t->scheme);
	qn_arena_release(&t->arena);
	qn_heap(t->ctx, t, sizeof *t, 0);
}

const quern_qscheme *quern_qtensor_scheme(const quern_qtensor *t)
{
	return t->scheme;
}
int quern_qtensor_rank(const quern_qtensor *t)
{
	return t->rank;
}
const int64_t *quern_qtensor_dims(const quern_qtensor *t)
{
	return t->dim;
}
int64_t quern_qtensor_count(const quern_qtensor *t)
{
	return t->count;
}
size_t quern_qtensor_code_bytes(const quern_qtensor *t)
{
	return t->length[t->n_chain];
}

/* --- back --------------------------------------------------------------------------------------------- */

static qn_status decompress(const quern_qtensor *t, qn_arena *scratch, const uint8_t **codes)
{
	const uint8_t *now = t->stored;
	for (size_t i = t->n_chain; i-- > 0;) {
		const quern_u8_compressor *c = &t->chain[i];
		uint8_t *next = qn_arena_alloc(scratch, t->length[i]);
		if (!c->decompress(c->user, now, t->length[i + 1], next, t->length[i]))
			QN_FAIL(t->ctx, QUERN_ERR_FORMAT, "compressor '%s' cannot read what it wrote", c->name);
		now = next;
	}
	*codes = now;
	return QUERN_OK;
}

typedef struct reading {
	const quern_qtensor *t;
	void *out;
	quern_q4_order order;
	const char *dir, *label;
} reading;

static qn_status read_codes(qn_ctx *ctx, qn_arena *scratch, void *args)
{
	(void)ctx;
	reading *r = args;
	const uint8_t *codes;
	QN_TRY(decompress(r->t, scratch, &codes));
	if (r->t->count)
		memcpy(r->out, codes, (size_t)r->t->count);
	return QUERN_OK;
}

static qn_status read_floats(qn_ctx *ctx, qn_arena *scratch, void *args)
{
	(void)ctx;
	reading *r = args;
	const uint8_t *codes;
	QN_TRY(decompress(r->t, scratch, &codes));
	return quern_qscheme_dequantize(r->t->scheme, codes, r->t->count, r->t->machine, r->t->type, r->out);
}

quern_status quern_qtensor_codes(const quern_qtensor *t, uint8_t *codes)
{
	reading r = {.t = t, .out = codes};
	return qn_guarded(t->ctx, read_codes, &r);
}

quern_status quern_qtensor_floats(const quern_qtensor *t, float *values)
{
	reading r = {.t = t, .out = values};
	return qn_guarded(t->ctx, read_floats, &r);
}

/* --- files --------------------------------------------------------------------------------------------- */

size_t quern_qtensor_dat_bytes(const quern_qtensor *t)
{
	return QN_DAT_HEADER + (size_t)t->count / QN_BLOCK * QN_Q4_0_BYTES;
}

static qn_status file_bytes(const reading *r, qn_arena *scratch, const char *name, uint8_t **file, size_t *n)
{
	const quern_qtensor *t = r->t;
	const uint8_t *codes;
	if (r->order != QUERN_Q4_ORDER && r->order != QUERN_Q4_ORDER_LEGACY)
		QN_FAIL(t->ctx, QUERN_ERR_CONFIG, "nibble order %d is not known", (int)r->order);
	QN_TRY(decompress(t, scratch, &codes));
	qn_tensor blocks = {.type = QN_Q4_0, .rank = t->rank};
	memcpy(blocks.dim, t->dim, sizeof blocks.dim);
	uint8_t *data = qn_arena_alloc(scratch, quern_qtensor_dat_bytes(t) - QN_DAT_HEADER);
	for (int64_t b = 0; b < t->scheme->n; b++) {
		qn_put_u16(data + b * QN_Q4_0_BYTES, t->scheme->scale[b]);
		qn_q4_0_pack(codes + b * QN_BLOCK, data + b * QN_Q4_0_BYTES + 2);
	}
	blocks.data = data;
	return qn_dat_file(t->ctx, scratch, name, &blocks, r->order == QUERN_Q4_ORDER_LEGACY, file, n);
}

static qn_status give_dat(qn_ctx *ctx, qn_arena *scratch, void *args)
{
	(void)ctx;
	reading *r = args;
	uint8_t *file;
	size_t n;
	QN_TRY(file_bytes(r, scratch, "tensor", &file, &n));
	memcpy(r->out, file, n);
	return QUERN_OK;
}

static qn_status write_dat(qn_ctx *ctx, qn_arena *scratch, void *args)
{
	reading *r = args;
	uint8_t *file;
	size_t n;
	struct stat st;
	const char *name = qn_arena_printf(scratch, "%s.dat", r->label);
	if (!qn_path_is_inside(name) || !*r->label)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "label '%s' leaves its folder; give a relative path without '..'", r->label);
	QN_TRY(file_bytes(r, scratch, r->label, &file, &n));
	const char *path = qn_arena_printf(scratch, "%s/%s", r->dir, name);
	if (stat(path, &st) == 0) {
		qn_bytes old;
		qn_status status = qn_file_map(ctx, scratch, path, &old);
		if (status != QUERN_OK)
			return qn_prefix(ctx, status, "'%s'", path);
		if (old.n != n || memcmp(old.data, file, n))
			QN_FAIL(ctx, QUERN_ERR_CONFIG, "label '%s' is taken: '%s' holds other bytes; give this tensor a label of its own",
				r->label, path);
		return QUERN_OK;
	}
	if (errno != ENOENT)
		QN_FAIL(ctx, QUERN_ERR_IO, "'%s' cannot be inspected: %s", path, strerror(errno));
	QN_TRY(qn_folder_parents(ctx, scratch, r->dir, name));
	return qn_file_replace(ctx, scratch, path, file, n);
}

quern_status quern_qtensor_dat(const quern_qtensor *t, quern_q4_order order, uint8_t *bytes)
{
	reading r = {.t = t, .out = bytes, .order = order};
	return qn_guarded(t->ctx, give_dat, &r);
}

quern_status quern_qtensor_write(const quern_qtensor *t, const char *dir, const char *label, quern_q4_order order)
{
	reading r = {.t = t, .order = order, .dir = dir, .label = label};
	return qn_guarded(t->ctx, write_dat, &r);
}
