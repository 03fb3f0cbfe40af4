#include "graph/ops/_reduce.h"
#include "graph/ops/_engine.h"

void qn_reduce_plan_make(qn_reduce_plan *p, const qn_tensor *x, const bool *reduced)
{
	int64_t stride[QN_MAX_RANK], step = 1;
	*p = (qn_reduce_plan){.outputs = 1, .count = 1, .inner = 1};
	for (int a = x->rank - 1; a >= 0; a--) {
		stride[a] = step;
		step *= x->dim[a];
	}
	int last = -1;
	for (int a = 0; a < x->rank; a++) {
		int64_t n = x->dim[a];
		int *rank = reduced[a] ? &p->n_reduced : &p->n_kept;
		int64_t *dim = reduced[a] ? p->reduced : p->kept, *steps = reduced[a] ? p->reduced_stride : p->kept_stride;
		*(reduced[a] ? &p->count : &p->outputs) *= n;
		if (n == 1)
			continue;
		bool joins = *rank > 0 && last >= 0 && reduced[last] == reduced[a];
		int at = joins ? *rank - 1 : (*rank)++;
		dim[at] = joins ? dim[at] * n : n;
		steps[at] = stride[a];
		last = a;
	}
	p->by_row = last < 0 || reduced[last];
	if (p->by_row && p->n_reduced)
		p->inner = p->reduced[--p->n_reduced];
	else if (!p->by_row)
		p->inner = p->kept[--p->n_kept];
}

static int64_t offset_of(int64_t index, int rank, const int64_t *dim, const int64_t *stride)
{
	int64_t offset = 0;
	for (int a = rank - 1; a >= 0; a--) {
		offset += index % dim[a] * stride[a];
		index /= dim[a];
	}
	return offset;
}

typedef struct job {
	const qn_reduce_plan *plan;
	const qn_tensor *x;
	qn_fold fold;
	bool ints;
	const double *shift;
	void *acc; /* double or int64_t, one an output */
	int64_t outer; /* reduced positions beside the inner axis */
} job;

/* One run of at most QN_SPAN elements into one accumulator or as many. */
static void fold_span(const job *j, int64_t from, int64_t n, int64_t output)
{
	qn_cell part[QN_SPAN];
	const qn_tensor *x = j->x;
	const void *data = part;
	if (x->type == QN_F64 || (j->ints && (x->type == QN_I64 || x->type == QN_U64)))
		data = (const double *)x->data + from;
	else if (j->ints)
		qn_span_load(x->data, x->type, from, n, part);
	else
		qn_span_load_f64(x->data, x->type, from, n, (double *)part);
	j->fold(data, n, (double *)j->acc + output, j->plan->by_row, j->shift ? j->shift + output : NULL);
}

static void fold_row(const job *j, int64_t output)
{
	const qn_reduce_plan *p = j->plan;
	int64_t base = offset_of(output, p->n_kept, p->kept, p->kept_stride);
	for (int64_t r = 0; r < j->outer; r++) {
		int64_t at = base + offset_of(r, p->n_reduced, p->reduced, p->reduced_stride);
		for (int64_t i = 0; i < p->inner; i += QN_SPAN)
			fold_span(j, at + i, p->inner - i < QN_SPAN ? p->inner - i : QN_SPAN, output);
	}
}

static void fold_columns(const job *j, int64_t block, int64_t blocks)
{
	const qn_reduce_plan *p = j->plan;
	int64_t row = block / blocks, from = block % blocks * QN_SPAN;
	int64_t n = p->inner - from < QN_SPAN ? p->inner - from : QN_SPAN;
	int64_t base = offset_of(row, p->n_kept, p->kept, p->kept_stride) + from;
	for (int64_t r = 0; r < j->outer; r++)
		fold_span(j, base + offset_of(r, p->n_reduced, p->reduced, p->reduced_stride), n, row * p->inner + from);
}

static void run(const qn_call *c, job *j)
{
	const qn_reduce_plan *p = j->plan;
	int64_t blocks = (p->inner + QN_SPAN - 1) / QN_SPAN;
	int64_t tasks = p->outputs;
	if (!p->outputs || !p->count)
		return;
	j->outer = p->by_row ? p->count / p->inner : p->count;
	if (!p->by_row)
		tasks = p->outputs / p->inner * blocks;
	int threads = qn_span_threads(c, p->outputs * p->count);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
	for (int64_t t = 0; t < tasks; t++) {
		if (p->by_row)
			fold_row(j, t);
		else
			fold_columns(j, t, blocks);
	}
}

void qn_reduce_f64(const qn_call *c, const qn_reduce_plan *p, const qn_tensor *x, qn_fold fold, double start, const double *shift,
	double *acc)
{
	for (int64_t o = 0; o < p->outputs; o++)
		acc[o] = start;
	run(c, &(job){.plan = p, .x = x, .fold = fold, .shift = shift, .acc = acc});
}

static double real_start(qn_start s)
{
	return s == QN_START_ZERO ? 0.0 : s == QN_START_ONE ? 1.0 : s == QN_START_LOWEST ? -INFINITY : INFINITY;
}

/* u64 is compared as i64 with the top bit flipped; the others have their own limits. */
static int64_t int_start(qn_start s, qn_dtype type)
{
	if (s == QN_START_ZERO || s == QN_START_ONE)
		return s == QN_START_ONE;
	if (type == QN_BOOL)
		return s == QN_START_HIGHEST;
	int bits = 8 * (int)qn_dtype_size(type);
	if (bits == 64)
		return s == QN_START_LOWEST ? INT64_MIN : INT64_MAX;
	if (qn_dtype_is_unsigned(type))
		return s == QN_START_LOWEST ? 0 : ((int64_t)1 << bits) - 1;
	return s == QN_START_LOWEST ? -((int64_t)1 << (bits - 1)) : ((int64_t)1 << (bits - 1)) - 1;
}

static const qn_tensor *flipped(qn_call *c, const qn_tensor *x)
{
	qn_tensor *t = qn_tensor_new(c->scratch, QN_U64, x->rank, x->dim);
	int64_t n = qn_tensor_count(x);
	for (int64_t i = 0; i < n; i++)
		((uint64_t *)(uintptr_t)t->data)[i] = ((const uint64_t *)x->data)[i] ^ ((uint64_t)1 << 63);
	return t;
}

static void eval_ints(qn_call *c, const qn_reducer *r, const qn_reduce_plan *p)
{
	const qn_tensor *x = c->x[0], *y = &c->y[0];
	bool flip = x->type == QN_U64 && (r->start == QN_START_LOWEST || r->start == QN_START_HIGHEST);
	int64_t *acc = QN_NEW(c->scratch, int64_t, p->outputs + 1);
	for (int64_t o = 0; o < p->outputs; o++)
		acc[o] = int_start(r->start, x->type);
	run(c, &(job){.plan = p, .x = flip ? flipped(c, x) : x, .fold = r->i64, .ints = true, .acc = acc});
	for (int64_t o = 0; o < p->outputs; o++) {
		if (flip)
			acc[o] = (int64_t)((uint64_t)acc[o] ^ ((uint64_t)1 << 63));
		if (r->finish_int)
			acc[o] = r->finish_int(acc[o], p->count);
	}
	qn_span_store(acc, (void *)(uintptr_t)y->data, y->type, 0, p->outputs);
}

static void eval_dims(qn_call *c, const qn_reducer *r, const qn_reduce_plan *p)
{
	const qn_dim *x = c->x[0]->data;
	qn_dim *y = QN_OUT(c, 0, qn_dim);
	int64_t outer = p->by_row && p->inner ? p->count / p->inner : p->count;
	c->undecided = !r->dim || p->count == 0;
	for (int64_t o = 0; o < p->outputs && !c->undecided; o++) {
		int64_t row = p->by_row ? o : o / p->inner, column = p->by_row ? 0 : o % p->inner;
		int64_t base = offset_of(row, p->n_kept, p->kept, p->kept_stride) + column;
		for (int64_t i = 0; i < outer * (p->by_row ? p->inner : 1); i++) {
			int64_t k = p->by_row ? i / p->inner : i;
			int64_t at = base + offset_of(k, p->n_reduced, p->reduced, p->reduced_stride) + (p->by_row ? i % p->inner : 0);
			y[o] = i ? r->dim(c->dims, y[o], x[at]) : x[at];
		}
	}
}

/* Sums in the engine's order: along the last axis, or down one axis (or neighbours) before it. False: another set of axes. */
static bool engine_sums(const qn_call *c, const qn_reduce_plan *p, const bool *reduced, float *y)
{
	const qn_tensor *x = c->x[0];
	const float *v = x->data;
	int axes = 0;
	for (int a = 0; a < x->rank; a++)
		axes += reduced[a];
	if (p->by_row ? axes != 1 || !reduced[x->rank - 1] : p->n_reduced != 1)
		return false;
	for (int64_t o = 0; p->by_row && o < p->outputs; o++)
		y[o] = qn_engine_sum(v + o * p->count, p->count, o * p->count);
	if (p->by_row)
		return true;
	memset(y, 0, (size_t)p->outputs * sizeof *y);
	for (int64_t o = 0; o < p->outputs; o += p->inner) {
		const float *from = v + offset_of(o / p->inner, p->n_kept, p->kept, p->kept_stride);
		for (int64_t r = 0; r < p->count; r++)
			for (int64_t i = 0; i < p->inner; i++)
				y[o + i] += from[r * p->reduced_stride[0] + i];
	}
	return true;
}

qn_status qn_reduce_eval(qn_call *c, const qn_reducer *r)
{
	const qn_tensor *x = c->x[0], *y = &c->y[0];
	bool reduced[QN_MAX_RANK];
	qn_reduce_plan p;
	QN_TRY(qn_reduce_axes(c, reduced));
	qn_reduce_plan_make(&p, x, reduced);
	if (x->type == QN_DIM) {
		eval_dims(c, r, &p);
		return QUERN_OK;
	}
	if (!qn_dtype_is_numeric(x->type))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "no reduction of elements of type %s", qn_dtype_name(x->type));
	if (!qn_dtype_is_float(x->type) && r->i64) {
		eval_ints(c, r, &p);
		return QUERN_OK;
	}
	if (c->ctx->engine_math && r->engine && x->type == QN_F32 && engine_sums(c, &p, reduced, QN_OUT(c, 0, float))) {
		for (int64_t o = 0; o < p.outputs; o++)
			QN_OUT(c, 0, float)[o] = r->engine(QN_OUT(c, 0, float)[o], p.count);
		return QUERN_OK;
	}
	double *acc = QN_NEW(c->scratch, double, p.outputs + 1);
	qn_reduce_f64(c, &p, x, r->f64, real_start(r->start), NULL, acc);
	for (int64_t o = 0; r->finish && o < p.outputs; o++)
		acc[o] = r->finish(acc[o], p.count);
	qn_span_store_f64(acc, (void *)(uintptr_t)y->data, y->type, 0, p.outputs);
	return QUERN_OK;
}
