#include "graph/ops/_zip.h"

void qn_zip_plan_make(qn_zip_plan *p, const qn_tensor *const *operands, int n, int rank, const int64_t *out_dim)
{
	int64_t stride[QN_ZIP_OPERANDS][QN_MAX_RANK];
	*p = (qn_zip_plan){.n = n, .count = 1, .inner = 1, .rows = 1};
	for (int k = 0; k < n; k++)
		qn_broadcast_strides(operands[k], rank, out_dim, stride[k]);
	for (int a = 0; a < rank; a++) {
		p->count *= out_dim[a];
		if (out_dim[a] == 1)
			continue;
		bool joins = p->rank > 0;
		for (int k = 0; k < n && joins; k++)
			joins = p->stride[k][p->rank - 1] == stride[k][a] * out_dim[a];
		int at = joins ? p->rank - 1 : p->rank++;
		p->dim[at] = joins ? p->dim[at] * out_dim[a] : out_dim[a];
		for (int k = 0; k < n; k++)
			p->stride[k][at] = stride[k][a];
	}
	if (!p->rank)
		return;
	p->inner = p->dim[--p->rank];
	for (int k = 0; k < n; k++)
		p->inner_stride[k] = p->stride[k][p->rank];
	for (int a = 0; a < p->rank; a++)
		p->rows *= p->dim[a];
}

void qn_zip_plan_seek(const qn_zip_plan *p, int64_t row, int64_t *offset)
{
	for (int k = 0; k < p->n; k++)
		offset[k] = 0;
	for (int a = p->rank - 1; a >= 0; a--) {
		int64_t at = row % p->dim[a];
		row /= p->dim[a];
		for (int k = 0; k < p->n; k++)
			offset[k] += at * p->stride[k][a];
	}
}

typedef struct job {
	const qn_zip *f;
	qn_zip_plan plan;
	qn_dtype type, out_type;
	const void *a, *b;
	void *y;
} job;

static void span(const job *j, int64_t a, int64_t b, int64_t y, int64_t n)
{
	qn_compute as = qn_compute_of(j->type);
	qn_zip_kernel kernel = j->f->kernel[as];
	bool u = qn_dtype_is_unsigned(j->type);
	int64_t sa = j->plan.inner_stride[0], sb = j->plan.inner_stride[1];
	if (qn_is_native(j->type)) {
		size_t size = qn_compute_size(as), out = j->f->to_bool ? 1 : size;
		kernel((const char *)j->a + (size_t)a * size, sa, (const char *)j->b + (size_t)b * size, sb, (char *)j->y + (size_t)y * out, n, u);
		return;
	}
	qn_cell va[QN_SPAN], vb[QN_SPAN], vy[QN_SPAN];
	for (int64_t i = 0; i < n; i += QN_SPAN) {
		int64_t m = n - i < QN_SPAN ? n - i : QN_SPAN;
		qn_span_load(j->a, j->type, a + i * sa, sa ? m : 1, va);
		qn_span_load(j->b, j->type, b + i * sb, sb ? m : 1, vb);
		if (j->f->to_bool) {
			kernel(va, sa, vb, sb, (uint8_t *)j->y + y + i, m, u);
		} else {
			kernel(va, sa, vb, sb, vy, m, u);
			qn_span_store(vy, j->y, j->out_type, y + i, m);
		}
	}
}

/* Output elements from..to, which may start and end inside a row. */
static void range(const job *j, int64_t from, int64_t to)
{
	const qn_zip_plan *p = &j->plan;
	while (from < to) {
		int64_t row = from / p->inner, at = from % p->inner, offset[QN_ZIP_OPERANDS];
		int64_t n = p->inner - at < to - from ? p->inner - at : to - from;
		qn_zip_plan_seek(p, row, offset);
		span(j, offset[0] + at * p->inner_stride[0], offset[1] + at * p->inner_stride[1], from, n);
		from += n;
	}
}

qn_status qn_zip_tensors(qn_call *c, const qn_zip *f, const qn_tensor *a, const qn_tensor *b, const qn_tensor *y)
{
	if (!qn_dtype_is_numeric(a->type) || a->type != b->type)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "operands of types %s and %s", qn_dtype_name(a->type), qn_dtype_name(b->type));
	if (!f->kernel[qn_compute_of(a->type)])
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "no evaluation for elements of type %s", qn_dtype_name(a->type));
	job j = {.f = f, .type = a->type, .out_type = y->type, .a = a->data, .b = b->data, .y = (void *)(uintptr_t)y->data};
	qn_zip_plan_make(&j.plan, (const qn_tensor *const[]){a, b}, 2, y->rank, y->dim);
	int64_t n = j.plan.count, tasks = (n + QN_SPAN_TASK - 1) / QN_SPAN_TASK;
	int threads = qn_span_threads(c, n);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
	for (int64_t t = 0; t < tasks; t++)
		range(&j, t * QN_SPAN_TASK, n < (t + 1) * QN_SPAN_TASK ? n : (t + 1) * QN_SPAN_TASK);
	return QUERN_OK;
}

typedef enum { ROUNDS_NO, ROUNDS_DOWN, ROUNDS_UP } rounding;

/* i32 and i64 in the codes of the ONNX format */
static bool casts_to_integer(const qn_node *n)
{
	int64_t to = qn_node_int(n, "to", 0);
	return to == 6 || to == 7;
}

static rounding consumers_round(const qn_node *n, bool negative)
{
	const qn_value *v = n->out[0];
	rounding all = ROUNDS_NO;
	for (size_t i = 0; i < v->n_uses; i++) {
		const char *op = v->uses[i].node->op->name;
		rounding r = ROUNDS_NO;
		if (strcmp(op, "Ceil") == 0)
			r = ROUNDS_UP;
		else if (strcmp(op, "Floor") == 0)
			r = ROUNDS_DOWN;
		else if (strcmp(op, "Cast") == 0 && !negative && casts_to_integer(v->uses[i].node))
			r = ROUNDS_DOWN;
		if (r == ROUNDS_NO || (i > 0 && r != all))
			return ROUNDS_NO;
		all = r;
	}
	return v->is_output ? ROUNDS_NO : all;
}

bool qn_zip_quotient(qn_call *c, qn_dim a, qn_dim b, qn_dim *y)
{
	int64_t low, divisor;
	if (qn_dim_is(b, 0))
		return false;
	if (qn_dim_exact_div(c->dims, a, b, y))
		return true;
	bool positive = qn_dim_lower(c->dims, b, &divisor) && divisor > 0;
	rounding r = positive ? consumers_round(c->node, !qn_dim_lower(c->dims, a, &low) || low < 0) : ROUNDS_NO;
	if (r != ROUNDS_NO)
		*y = r == ROUNDS_UP ? qn_dim_ceildiv(c->dims, a, b) : qn_dim_floordiv(c->dims, a, b);
	return r != ROUNDS_NO;
}

static bool one_dim(qn_call *c, const qn_zip *f, const qn_tensor *a, int64_t ia, const qn_tensor *b, int64_t ib, void *y, int64_t at)
{
	qn_dim va, vb, *out = (qn_dim *)y + at;
	bool has_a = qn_tensor_dim(a, ia, &va), has_b = qn_tensor_dim(b, ib, &vb);
	if (f->to_bool) {
		qn_tristate test = has_a && has_b ? f->test(c->dims, va, vb) : QN_UNDECIDED;
		((uint8_t *)y)[at] = test == QN_TRUE;
		return test != QN_UNDECIDED;
	}
	if (has_a && has_b)
		return f->dim && f->dim(c, va, vb, out);
	if (f->fraction && has_a)
		return f->fraction(c, va, qn_tensor_get(b, ib), out);
	return f->fraction && f->commutes && has_b && f->fraction(c, vb, qn_tensor_get(a, ia), out);
}

static void on_dims(qn_call *c, const qn_zip *f, const qn_tensor *a, const qn_tensor *b, const qn_tensor *y)
{
	qn_zip_plan p;
	qn_zip_plan_make(&p, (const qn_tensor *const[]){a, b}, 2, y->rank, y->dim);
	for (int64_t i = 0; i < p.count && !c->undecided; i++) {
		int64_t offset[QN_ZIP_OPERANDS];
		qn_zip_plan_seek(&p, i / p.inner, offset);
		int64_t at = i % p.inner;
		c->undecided = !one_dim(c, f, a, offset[0] + at * p.inner_stride[0], b, offset[1] + at * p.inner_stride[1],
			(void *)(uintptr_t)y->data, i);
	}
}

static qn_status one(qn_call *c, const qn_zip *f, const qn_tensor *a, const qn_tensor *b)
{
	if (a->type != QN_DIM && b->type != QN_DIM)
		return qn_zip_tensors(c, f, a, b, &c->y[0]);
	on_dims(c, f, a, b, &c->y[0]);
	return QUERN_OK;
}

qn_status qn_zip_eval(qn_call *c, const qn_zip *f) { return one(c, f, c->x[0], c->x[1]); }

/* The first input alone, broadcast to the output. */
static void spread(qn_call *c)
{
	const qn_tensor *x = c->x[0], *y = &c->y[0];
	size_t size = qn_dtype_size(y->type);
	qn_zip_plan p;
	qn_zip_plan_make(&p, &x, 1, y->rank, y->dim);
	for (int64_t row = 0; row < p.rows && p.inner; row++) {
		int64_t offset[QN_ZIP_OPERANDS];
		qn_zip_plan_seek(&p, row, offset);
		for (int64_t i = 0; i < p.inner; i++)
			memcpy((char *)(uintptr_t)y->data + (size_t)(row * p.inner + i) * size,
				(const char *)x->data + (size_t)(offset[0] + i * p.inner_stride[0]) * size, size);
	}
}

qn_status qn_zip_eval_all(qn_call *c, const qn_zip *f)
{
	int n = c->node->n_in;
	bool dims = c->y[0].type == QN_DIM;
	if (n == 1 && (!dims || c->x[0]->type == QN_DIM)) {
		spread(c);
		return QUERN_OK;
	}
	if (n == 1)
		QN_OP_FAIL(c, QUERN_ERR_INTERNAL, "symbolic output of a known input");
	QN_TRY(one(c, f, c->x[0], c->x[1]));
	for (int i = 2; i < n && !c->undecided; i++)
		QN_TRY(one(c, f, &c->y[0], c->x[i]));
	return QUERN_OK;
}

qn_status qn_zip_infer(qn_call *c)
{
	for (int i = 1; i < c->node->n_in; i++)
		if (c->in[i].type != QN_NONE && c->in[0].type != QN_NONE && c->in[i].type != c->in[0].type)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "input 0 ('%s') has type %s, input %d ('%s') has type %s: they must be equal",
				c->node->in[0]->name, qn_dtype_name(c->in[0].type), i, c->node->in[i]->name, qn_dtype_name(c->in[i].type));
	return qn_infer_broadcast(c);
}

qn_status qn_zip_infer_bool(qn_call *c)
{
	QN_TRY(qn_zip_infer(c));
	c->out[0].type = QN_BOOL;
	return QUERN_OK;
}
