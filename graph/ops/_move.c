/* _move.c - strided copies, and small shared parts of the shape and data-movement operators. */
#include "graph/ops/_move.h"

#include <omp.h>

enum { TILE = 32, MAX_ELEM = sizeof(qn_dim), PARALLEL_BYTES = 1 << 18 };

void qn_move_strides(int rank, const int64_t *dim, int64_t *stride)
{
	int64_t step = 1;
	for (int i = rank - 1; i >= 0; i--) {
		stride[i] = step;
		step *= dim[i];
	}
}

int qn_move_threads(int threads, size_t bytes)
{
	if (bytes < PARALLEL_BYTES)
		return 1;
	return threads > 0 ? threads : omp_get_max_threads();
}

void qn_move_bytes(void *dst, const void *src, size_t bytes, int threads)
{
	if (!bytes)
		return;
	int n = qn_move_threads(threads, bytes);
	size_t part = (bytes / (size_t)n + 64) & ~(size_t)63;
#pragma omp parallel for num_threads(n) if (n > 1)
	for (int i = 0; i < n; i++) {
		size_t from = part * (size_t)i;
		if (from < bytes)
			memcpy((char *)dst + from, (const char *)src + from, bytes - from < part ? bytes - from : part);
	}
}

void qn_move_fill(void *dst, const void *value, size_t elem, int64_t n)
{
	if (n <= 0)
		return;
	char *d = dst;
	size_t done = elem, total = elem * (size_t)n;
	memcpy(d, value, elem);
	while (done < total) {
		size_t more = done < total - done ? done : total - done;
		memcpy(d + done, d, more);
		done += more;
	}
}

/* A box with unit axes dropped and mergeable axes merged. The last `inner` axes are one step of the outer loop. */
typedef struct box {
	int rank;
	int64_t dim[QN_MOVE_RANK], ss[QN_MOVE_RANK], ds[QN_MOVE_RANK];
	size_t elem;
} box;

static bool make_box(box *b, int rank, const int64_t *dim, const int64_t *ss, const int64_t *ds, size_t elem)
{
	b->rank = 0;
	b->elem = elem;
	for (int i = 0; i < rank; i++) {
		if (dim[i] == 0)
			return false;
		if (dim[i] == 1)
			continue;
		int k = b->rank - 1;
		if (k >= 0 && b->ss[k] == ss[i] * dim[i] && b->ds[k] == ds[i] * dim[i]) {
			b->dim[k] *= dim[i];
		} else {
			k = b->rank++;
			b->dim[k] = dim[i];
		}
		b->ss[k] = ss[i];
		b->ds[k] = ds[i];
	}
	if (b->rank == 0) {
		b->rank = 1;
		b->dim[0] = b->ss[0] = b->ds[0] = 1;
	}
	return true;
}

/* The axis read with stride 1 goes last but one, so that tiles of the last two axes are short in both directions. */
static bool make_tiles(box *b)
{
	int last = b->rank - 1, from = -1;
	for (int i = 0; i < last; i++)
		if (b->ss[i] == 1)
			from = i;
	if (from < 0 || b->ds[last] != 1 || b->ss[last] == 1 || b->elem > MAX_ELEM)
		return false;
	int64_t d = b->dim[from], s = b->ss[from], t = b->ds[from];
	for (int i = from; i + 1 < last; i++) {
		b->dim[i] = b->dim[i + 1];
		b->ss[i] = b->ss[i + 1];
		b->ds[i] = b->ds[i + 1];
	}
	b->dim[last - 1] = d;
	b->ss[last - 1] = s;
	b->ds[last - 1] = t;
	return true;
}

#define ROW(type)                                                                                                                          \
	for (int64_t i = 0; i < n; i++) {                                                                                                  \
		type v;                                                                                                                    \
		memcpy(&v, s + i * ss * (int64_t)sizeof v, sizeof v);                                                                      \
		memcpy(d + i * ds * (int64_t)sizeof v, &v, sizeof v);                                                                      \
	}                                                                                                                                  \
	break

static void copy_row(char *d, int64_t ds, const char *s, int64_t ss, int64_t n, size_t elem)
{
	switch (elem) {
	case 1:
		ROW(uint8_t);
	case 2:
		ROW(uint16_t);
	case 4:
		ROW(uint32_t);
	case 8:
		ROW(uint64_t);
	default:
		for (int64_t i = 0; i < n; i++)
			memcpy(d + i * ds * (int64_t)elem, s + i * ss * (int64_t)elem, elem);
	}
}

/* Read row by row into a tile and written column by column from there: large strides would fight for the same cache lines. */
static void copy_tile(const box *b, char *d, const char *s, int64_t rows, int64_t cols)
{
	char tile[TILE * TILE * MAX_ELEM];
	int last = b->rank - 1;
	int64_t e = (int64_t)b->elem;
	for (int64_t j = 0; j < cols; j++)
		memcpy(tile + j * TILE * e, s + j * b->ss[last] * e, (size_t)(rows * e));
	for (int64_t k = 0; k < rows; k++)
		copy_row(d + k * b->ds[last - 1] * e, 1, tile + k * e, TILE, cols, b->elem);
}

/* One step of the outer loop: a run, a strided row, or a row of tiles of a transposition. */
static void copy_step(const box *b, int inner, char *d, const char *s)
{
	int last = b->rank - 1;
	int64_t e = (int64_t)b->elem;
	if (inner == 1) {
		if (b->ss[last] == 1 && b->ds[last] == 1)
			memcpy(d, s, (size_t)(b->dim[last] * e));
		else
			copy_row(d, b->ds[last], s, b->ss[last], b->dim[last], b->elem);
		return;
	}
	int64_t rows = b->dim[last - 1], cols = b->dim[last];
	for (int64_t i = 0; i < rows; i += TILE)
		for (int64_t j = 0; j < cols; j += TILE)
			copy_tile(b, d + (i * b->ds[last - 1] + j) * e, s + (i + j * b->ss[last]) * e, rows - i < TILE ? rows - i : TILE,
				cols - j < TILE ? cols - j : TILE);
}

static void copy_steps(const box *b, int inner, const char *src, char *dst, int64_t from, int64_t to)
{
	int outer = b->rank - inner;
	int64_t at[QN_MOVE_RANK] = {0}, so = 0, dof = 0, rest = from;
	for (int i = outer - 1; i >= 0; i--) {
		at[i] = rest % b->dim[i];
		rest /= b->dim[i];
		so += at[i] * b->ss[i];
		dof += at[i] * b->ds[i];
	}
	int64_t e = (int64_t)b->elem;
	for (int64_t k = from; k < to; k++) {
		copy_step(b, inner, dst + dof * e, src + so * e);
		for (int i = outer - 1; i >= 0; i--) {
			so += b->ss[i];
			dof += b->ds[i];
			if (++at[i] < b->dim[i])
				break;
			so -= b->ss[i] * b->dim[i];
			dof -= b->ds[i] * b->dim[i];
			at[i] = 0;
		}
	}
}

void qn_move_box(int rank, const int64_t *dim, const void *src, const int64_t *src_stride, void *dst, const int64_t *dst_stride,
	size_t elem, int threads)
{
	box b;
	if (!make_box(&b, rank, dim, src_stride, dst_stride, elem))
		return;
	int inner = make_tiles(&b) ? 2 : 1;
	size_t bytes = elem;
	for (int i = 0; i < b.rank; i++)
		bytes *= (size_t)b.dim[i];
	int n = qn_move_threads(threads, bytes);
	if (inner == 2 && n > 1 && b.rank == 2) { /* a plain matrix: bands of rows are the outer loop */
		int64_t band = (b.dim[0] / n + TILE) / TILE * TILE;
#pragma omp parallel for num_threads(n)
		for (int i = 0; i < n; i++) {
			box part = b;
			int64_t from = band * i;
			part.dim[0] = b.dim[0] - from < band ? b.dim[0] - from : band;
			if (part.dim[0] > 0)
				copy_step(&part, 2, (char *)dst + from * b.ds[0] * (int64_t)elem, (const char *)src + from * (int64_t)elem);
		}
		return;
	}
	if (b.rank == 1 && b.ss[0] == 1 && b.ds[0] == 1) {
		qn_move_bytes(dst, src, bytes, threads);
		return;
	}
	int64_t steps = 1;
	for (int i = 0; i < b.rank - inner; i++)
		steps *= b.dim[i];
	int64_t part = (steps + n - 1) / n;
#pragma omp parallel for num_threads(n) if (n > 1)
	for (int i = 0; i < n; i++)
		copy_steps(&b, inner, src, dst, part * i, part * (i + 1) < steps ? part * (i + 1) : steps);
}

void qn_move_know_empty(qn_call *c, int o)
{
	const qn_shape *s = &c->out[o].shape;
	int64_t dim[QN_MAX_RANK];
	bool empty = false;
	for (int i = 0; i < s->rank; i++) {
		if (!qn_dim_is_const(s->dim[i]))
			return;
		dim[i] = s->dim[i].k;
		empty |= dim[i] == 0;
	}
	if (empty && qn_dtype_size(c->out[o].type))
		c->out[o].value = qn_tensor_new(c->scratch, c->out[o].type, s->rank, dim);
}

qn_status qn_move_copy_eval(qn_call *c)
{
	qn_move_bytes(QN_OUT(c, 0, void), c->x[0]->data, qn_tensor_bytes(c->x[0]), c->threads);
	return QUERN_OK;
}

qn_status qn_move_need_rank(qn_call *c, int i)
{
	if (c->in[i].shape.rank < 0)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the rank of '%s' is not known", c->node->in[i]->name);
	return QUERN_OK;
}

const int64_t *qn_move_i64(qn_call *c, int i)
{
	const qn_tensor *t = c->x[i];
	if (t->type == QN_I64)
		return t->data;
	int64_t n = qn_tensor_count(t);
	int64_t *v = QN_NEW(c->scratch, int64_t, n + 1);
	for (int64_t k = 0; k < n; k++)
		v[k] = qn_tensor_get_i64(t, k);
	return v;
}

qn_status qn_move_indices(qn_call *c, int i, int64_t limit, const int64_t **out)
{
	const int64_t *v = qn_move_i64(c, i);
	int64_t n = qn_tensor_count(c->x[i]);
	int64_t *copy = NULL;
	for (int64_t k = 0; k < n; k++) {
		int64_t at = v[k];
		if (!qn_move_wrap(&at, limit))
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "index %lld (item %lld of '%s') is out of range for a size of %lld", (long long)at,
				(long long)k, c->node->in[i]->name, (long long)limit);
		if (at != v[k] && !copy) {
			copy = QN_NEW(c->scratch, int64_t, n);
			memcpy(copy, v, (size_t)n * sizeof *v);
		}
		if (copy)
			copy[k] = at;
	}
	*out = copy ? copy : v;
	return QUERN_OK;
}

void qn_move_put(qn_call *c, int o, int64_t i, int64_t v)
{
	if (c->y[o].type == QN_DIM)
		QN_OUT(c, o, qn_dim)[i] = qn_dim_const(v);
	else if (c->y[o].type == QN_I64)
		QN_OUT(c, o, int64_t)[i] = v;
	else
		qn_tensor_set(QN_OUT(c, o, void), c->y[o].type, i, (double)v);
}
