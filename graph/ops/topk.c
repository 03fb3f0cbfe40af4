/* topk.c - the k largest or smallest elements along an axis and where they stood; of equal ones the first comes first. */
#include "graph/ops/_move.h"

#include <omp.h>
#include <stdlib.h>

typedef struct item {
	double v;   /* of floats */
	int64_t iv; /* of integers */
	int64_t at;
} item;

static qn_status find_k(qn_call *c, qn_dim *k)
{
	if (!qn_call_has(c, 1)) {
		*k = qn_dim_const(qn_node_int(c->node, "k", -1));
	} else {
		const qn_dim *d = NULL;
		int n;
		QN_TRY(qn_call_dims(c, 1, &d, &n));
		if (n < 0)
			return qn_call_data_dependent(c, 1, "k");
		if (n != 1)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "k is not one number");
		*k = d[0];
	}
	if (qn_dim_is_const(*k) && k->k < 0)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "k is missing or negative");
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	qn_dim k;
	int axis;
	QN_TRY(find_k(c, &k));
	QN_TRY(qn_call_axis(c, qn_node_int(c->node, "axis", -1), c->in[0].shape.rank, &axis));
	qn_dim size = c->in[0].shape.dim[axis];
	if (qn_dim_lt(c->dims, size, k) == QN_TRUE)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "k is %s, but axis %d has a size of %s", qn_dim_text(c->scratch, k, NULL, NULL), axis,
			qn_dim_text(c->scratch, size, NULL, NULL));
	for (int i = 0; i < c->node->n_out; i++) {
		c->out[i].type = i ? QN_I64 : c->in[0].type;
		c->out[i].shape = c->in[0].shape;
		c->out[i].shape.dim[axis] = k;
	}
	return QUERN_OK;
}

/* Descending; NaN counts as larger than any number. */
static int larger_first(const void *pa, const void *pb)
{
	const item *a = pa, *b = pb;
	bool na = a->v != a->v, nb = b->v != b->v;
	if (na != nb)
		return na ? -1 : 1;
	if (!na && a->v != b->v)
		return a->v > b->v ? -1 : 1;
	if (a->iv != b->iv)
		return a->iv > b->iv ? -1 : 1;
	return a->at < b->at ? -1 : a->at > b->at;
}

static int smaller_first(const void *pa, const void *pb)
{
	const item *a = pa, *b = pb;
	item x = *a, y = *b;
	x.at = b->at;
	y.at = a->at;
	return larger_first(&y, &x);
}

typedef int (*item_order)(const void *, const void *);

/* Items above come no earlier in the order than those below: the root is the worst of the heap. */
static void sift_down(item *heap, int64_t n, int64_t at, item_order order)
{
	for (int64_t child; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n && order(&heap[child], &heap[child + 1]) < 0)
			child++;
		if (order(&heap[at], &heap[child]) >= 0)
			return;
		item t = heap[at];
		heap[at] = heap[child];
		heap[child] = t;
	}
}

/* The first k in the order go to the front, sorted. */
static void select_best(item *all, int64_t n, int64_t k, item_order order)
{
	for (int64_t i = k / 2 - 1; i >= 0; i--)
		sift_down(all, k, i, order);
	for (int64_t i = k; i < n; i++)
		if (order(&all[i], &all[0]) < 0) {
			all[0] = all[i];
			sift_down(all, k, 0, order);
		}
	qsort(all, (size_t)k, sizeof *all, order);
}

typedef struct rows {
	const qn_tensor *x;
	int64_t size, inner, k;
	bool integer;
	item_order order;
} rows;

static void do_row(qn_call *c, const rows *r, int64_t row, item *all)
{
	int64_t base = row / r->inner * r->size * r->inner + row % r->inner, to = row / r->inner * r->k * r->inner + row % r->inner;
	size_t elem = qn_dtype_size(r->x->type);
	for (int64_t i = 0; i < r->size; i++) {
		int64_t at = base + i * r->inner;
		all[i] = (item){r->integer ? 0 : qn_tensor_get(r->x, at), r->integer ? qn_tensor_get_i64(r->x, at) : 0, i};
		if (r->x->type == QN_U64) /* the same order as signed numbers */
			all[i].iv = (int64_t)((uint64_t)all[i].iv ^ 1ull << 63);
	}
	select_best(all, r->size, r->k, r->order);
	for (int64_t i = 0; i < r->k; i++) {
		int64_t y = to + i * r->inner;
		if (qn_call_wants(c, 0))
			memcpy(QN_OUT(c, 0, char) + (size_t)y * elem,
				(const char *)r->x->data + (size_t)(base + all[i].at * r->inner) * elem, elem);
		if (qn_call_wants(c, 1))
			QN_OUT(c, 1, int64_t)[y] = all[i].at;
	}
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0];
	int axis;
	qn_dim k;
	QN_TRY(find_k(c, &k));
	QN_TRY(qn_call_axis(c, qn_node_int(c->node, "axis", -1), x->rank, &axis));
	rows r = {.x = x, .size = x->dim[axis], .inner = 1, .k = k.k, .integer = !qn_dtype_is_float(x->type)};
	r.order = qn_node_int(c->node, "largest", 1) ? larger_first : smaller_first;
	for (int i = axis + 1; i < x->rank; i++)
		r.inner *= x->dim[i];
	int64_t count = r.size ? qn_tensor_count(x) / r.size : 0;
	if (!r.k || !count)
		return QUERN_OK;
	int threads = qn_move_threads(c->threads, (size_t)(count * r.size) * 8);
	item *all = QN_NEW(c->scratch, item, r.size * threads);
#pragma omp parallel for num_threads(threads) if (threads > 1)
	for (int64_t row = 0; row < count; row++)
		do_row(c, &r, row, all + omp_get_thread_num() * r.size);
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	qn_dim k;
	int axis;
	QN_TRY(find_k(&c, &k));
	QN_TRY(qn_call_axis(&c, qn_node_int(e->node, "axis", -1), c.in[0].shape.rank, &axis));
	const char *count = qn_emit_dim(e, k);
	if (!qn_dim_is_const(k))
		count = qn_emit_temp(e, "k", "tract_core_cast(%s, to='i64')", count);
	qn_emit_tuple(e, "tract_core_topk(%s, %s, axis=%d, largest=%s)", qn_emit_ref(e, e->node->in[0]), count, axis,
		qn_node_int(e->node, "largest", 1) ? "true" : "false");
	return QUERN_OK;
}

const qn_op qn_op_topk = {
	.name = "TopK", .hint = QN_HINT_SELECTION, .min_in = 1, .max_in = 2, .max_out = 2, .infer = infer, .eval = eval, .emit = emit};
