#include "graph/ops/_apart.h"
#include "graph/ops/_einsum.h"
#include "graph/ops/_gemm.h"

static qn_status parse(qn_call *c, qn_einsum *e)
{
	int rank[QN_EINSUM_OPERANDS] = {0};
	for (int i = 0; i < c->node->n_in && i < QN_EINSUM_OPERANDS; i++)
		rank[i] = c->in[i].shape.rank;
	const char *why = qn_einsum_parse(c->scratch, c->node, rank, e);
	if (why)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%s", why);
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	qn_einsum e;
	QN_TRY(parse(c, &e));
	qn_dim dim[QN_EINSUM_LABELS];
	bool seen[QN_EINSUM_LABELS] = {false};
	for (int i = 0; i < e.n_in; i++) {
		if (c->in[i].type != c->in[0].type || !(qn_dtype_is_float(c->in[i].type) || qn_dtype_is_int(c->in[i].type)))
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "operand %d is of type %s and operand 0 of type %s", i, qn_dtype_name(c->in[i].type),
				qn_dtype_name(c->in[0].type));
		for (int k = 0; k < e.in[i].n; k++) {
			int label = e.in[i].label[k];
			qn_dim d = c->in[i].shape.dim[k];
			if (seen[label] && !qn_dim_is(d, 1) && !qn_dim_is(dim[label], 1))
				QN_TRY(qn_call_equate(c, dim[label], d, "two axes of one label"));
			if (!seen[label] || qn_dim_is(dim[label], 1))
				dim[label] = d;
			seen[label] = true;
		}
	}
	c->out[0].type = c->in[0].type;
	c->out[0].shape.rank = e.out.n;
	for (int k = 0; k < e.out.n; k++)
		c->out[0].shape.dim[k] = dim[e.out.label[k]];
	return QUERN_OK;
}

/* An operand or a partial result: element strides of its labels (0 where it repeats along one). */
typedef struct part {
	const void *data;
	qn_term term;
	int64_t stride[QN_EINSUM_LABELS]; /* by label */
} part;

typedef struct work {
	qn_call *c;
	qn_einsum e;
	int64_t dim[QN_EINSUM_LABELS];
	qn_dtype type; /* QN_F32, QN_F64 or QN_I64 */
} work;

static int64_t term_count(const work *w, const qn_term *t)
{
	int64_t n = 1;
	for (int i = 0; i < t->n; i++)
		n *= w->dim[t->label[i]];
	return n;
}

static void set_dense(const work *w, part *p)
{
	int64_t step = 1;
	memset(p->stride, 0, sizeof p->stride);
	for (int i = p->term.n - 1; i >= 0; i--) {
		p->stride[p->term.label[i]] = step;
		step *= w->dim[p->term.label[i]];
	}
}

/* Advances an index over the labels of `t` and an offset by strides; false after the last. */
static bool advance(const work *w, const qn_term *t, int64_t *at, const int64_t *stride, int64_t *offset)
{
	for (int i = t->n - 1; i >= 0; i--) {
		int label = t->label[i];
		*offset += stride[label];
		if (++at[i] < w->dim[label])
			return true;
		*offset -= stride[label] * w->dim[label];
		at[i] = 0;
	}
	return false;
}

#define SUM_INTO(type)                                                                                                   \
	do {                                                                                                             \
		type *to = out;                                                                                          \
		int64_t at[QN_EINSUM_LABELS] = {0}, offset = 0;                                                          \
		do {                                                                                                     \
			int64_t in[QN_EINSUM_LABELS] = {0}, inner = offset;                                              \
			type sum = 0;                                                                                    \
			do                                                                                               \
				sum += ((const type *)p->data)[inner];                                                   \
			while (advance(w, &gone, in, p->stride, &inner));                                                \
			*to++ = sum;                                                                                     \
		} while (advance(w, keep, at, p->stride, &offset));                                                      \
	} while (0)

/* The part laid out densely over `keep`, summed over its other labels. */
static part arrange(work *w, const part *p, const qn_term *keep)
{
	qn_term gone = {.n = 0};
	for (int i = 0; i < p->term.n; i++)
		if (!qn_term_has(keep, p->term.label[i]) && !qn_term_has(&gone, p->term.label[i]))
			gone.label[gone.n++] = p->term.label[i];
	int64_t n = term_count(w, keep);
	part r = {.term = *keep};
	set_dense(w, &r);
	if (p->term.n == keep->n && !memcmp(p->term.label, keep->label, sizeof keep->label[0] * (size_t)keep->n)
		&& !memcmp(p->stride, r.stride, sizeof r.stride))
		return *p;
	void *out = qn_arena_array(w->c->scratch, (size_t)n, qn_dtype_size(w->type));
	r.data = out;
	if (n == 0 || term_count(w, &gone) == 0)
		return r;
	switch (w->type) {
	case QN_F32: SUM_INTO(float); break;
	case QN_F64: SUM_INTO(double); break;
	default: SUM_INTO(uint64_t); break;
	}
	return r;
}

static part operand(work *w, int i)
{
	const qn_tensor *t = w->c->x[i];
	part p = {.data = t->data, .term = w->e.in[i]};
	int64_t n = qn_tensor_count(t), step = 1;
	if (t->type != w->type) {
		void *copy = qn_arena_array(w->c->scratch, (size_t)n, qn_dtype_size(w->type));
		qn_convert(t->data, t->type, copy, w->type, n);
		p.data = copy;
	}
	for (int k = t->rank - 1; k >= 0; k--) {
		if (t->dim[k] > 1 || w->dim[p.term.label[k]] == 1)
			p.stride[p.term.label[k]] += step; /* a repeated label walks the diagonal */
		step *= t->dim[k];
	}
	return p;
}

static part product(work *w, const part *l, const part *r, int operand_index)
{
	qn_term batch, m, n, k;
	qn_einsum_split(&w->e, &l->term, &r->term, operand_index, &batch, &m, &n, &k);
	qn_term lt = batch, rt = batch, yt = batch;
	qn_term_join(&lt, &m), qn_term_join(&lt, &k);
	qn_term_join(&rt, &k), qn_term_join(&rt, &n);
	qn_term_join(&yt, &m), qn_term_join(&yt, &n);
	part a = arrange(w, l, &lt), b = arrange(w, r, &rt), y = {.term = yt};
	qn_gemm g = {.type = w->type, .m = term_count(w, &m), .n = term_count(w, &n), .k = term_count(w, &k), .batch = term_count(w, &batch),
		.chained = w->c->ctx->engine_math};
	g.lda = g.k ? g.k : 1, g.ldb = g.ldc = g.n ? g.n : 1, g.c_step = g.m * g.n;
	int64_t *at = QN_NEW(w->c->scratch, int64_t, g.batch), *bt = QN_NEW(w->c->scratch, int64_t, g.batch);
	for (int64_t i = 0; i < g.batch; i++)
		at[i] = i * g.m * g.k, bt[i] = i * g.k * g.n;
	g.a_at = at, g.b_at = bt;
	void *out = qn_arena_array(w->c->scratch, (size_t)(g.batch * g.m * g.n), qn_dtype_size(w->type));
	qn_gemm_run(&g, w->c->threads, a.data, b.data, out);
	y.data = out;
	set_dense(w, &y);
	return y;
}

static qn_status eval(qn_call *c)
{
	work w = {.c = c};
	QN_TRY(parse(c, &w.e));
	qn_dtype t = c->x[0]->type;
	w.type = t == QN_F64 ? QN_F64 : qn_dtype_is_float(t) ? QN_F32 : QN_I64;
	for (int i = 0; i < w.e.n_labels; i++)
		w.dim[i] = 1;
	for (int i = 0; i < w.e.n_in; i++)
		for (int k = 0; k < w.e.in[i].n; k++)
			if (c->x[i]->dim[k] != 1)
				w.dim[w.e.in[i].label[k]] = c->x[i]->dim[k];
	part sum = operand(&w, 0);
	qn_term kept;
	qn_einsum_needed(&w.e, &sum.term, 0, NULL, &kept);
	sum = arrange(&w, &sum, &kept);
	for (int i = 1; i < w.e.n_in; i++) {
		part next = operand(&w, i);
		qn_einsum_needed(&w.e, &next.term, i, &sum.term, &kept);
		next = arrange(&w, &next, &kept);
		sum = product(&w, &sum, &next, i);
	}
	sum = arrange(&w, &sum, &w.e.out);
	int64_t n = qn_tensor_count(&c->y[0]);
	if (w.type == t)
		memcpy(QN_OUT(c, 0, void), sum.data, (size_t)n * qn_dtype_size(t));
	else if (qn_dtype_is_float(t))
		qn_convert(sum.data, w.type, QN_OUT(c, 0, void), t, n);
	else
		for (int64_t i = 0; i < n; i++) /* integers wrap, of either signedness: the low bytes */
			memcpy(QN_OUT(c, 0, char) + (size_t)i * qn_dtype_size(t), (const int64_t *)sum.data + i, qn_dtype_size(t));
	return QUERN_OK;
}

/* --- emission ----------------------------------------------------------------------------------------------- */
static const char *spell(qn_emit *e, const qn_term *t)
{
	char text[QN_EINSUM_LABELS + 1];
	for (int i = 0; i < t->n; i++)
		text[i] = (char)(t->label[i] < 26 ? 'a' + t->label[i] : 'A' + t->label[i] - 26);
	return qn_arena_strndup(e->arena, text, (size_t)t->n);
}

/* Repeated labels become one: the diagonal is taken by a product with the identity and a sum, which the engine can express. */
static const char *diagonal(qn_emit *e, const char *x, const qn_shape *s, qn_term *t, const char *type, qn_status *status)
{
	for (int i = 0; i < t->n; i++)
		for (int j = i + 1; j < t->n; j++) {
			if (t->label[i] != t->label[j])
				continue;
			if (!qn_dim_is_const(s->dim[i]) || !qn_dim_equal(s->dim[i], s->dim[j])) {
				*status = qn_emit_fail(e, "a diagonal over axes of unknown size is not expressible: bind the symbol with --set");
				return x;
			}
			int64_t d = s->dim[i].k, dim[2] = {d, d};
			qn_tensor *eye = qn_tensor_new(e->arena, QN_F32, 2, dim);
			for (int64_t k = 0; k < d; k++)
				((float *)(uintptr_t)eye->data)[k * (d + 1)] = 1.0f;
			qn_term other = *t, pair = {.n = 2}, left = *t;
			other.label[j] = QN_EINSUM_LABELS - 1; /* a letter of its own for the second axis */
			pair.label[0] = t->label[i], pair.label[1] = other.label[j];
			memmove(left.label + j, left.label + j + 1, sizeof left.label[0] * (size_t)(left.n - j - 1));
			left.n--;
			const char *id = qn_emit_constant(e, "identity", eye);
			if (strcmp(type, "f32") != 0)
				id = qn_emit_temp(e, "identity", "tract_core_cast(%s, to='%s')", id, type);
			x = qn_emit_temp(e, "diagonal", "tract_core_einsum([%s, %s], expr='%s,%s->%s', acc='%s', output='')", x, id, spell(e, &other),
				spell(e, &pair), spell(e, &left), type);
			*t = left;
			return x;
		}
	return x;
}

/* A sum and a permutation of one operand. */
static const char *reduced(qn_emit *e, const char *x, const qn_term *from, const qn_term *to, const char *type)
{
	if (from->n == to->n && !memcmp(from->label, to->label, sizeof from->label[0] * (size_t)from->n))
		return x;
	if (to->n == 0) { /* to the engine's einsum an empty output term is an absent one */
		int64_t axes[QN_EINSUM_LABELS];
		for (int i = 0; i < from->n; i++)
			axes[i] = i;
		const char *all = qn_emit_ints(e, axes, from->n), *sum = qn_emit_temp(e, "sum", "sum_reduce(%s, axes=%s)", x, all);
		return qn_emit_temp(e, "summed", "squeeze(%s, axes=%s)", sum, all);
	}
	return qn_emit_temp(e, "summed", "tract_core_einsum([%s], expr='%s->%s', acc='%s', output='')", x, spell(e, from), spell(e, to), type);
}

/* An operand as an expression of the type that is computed in, its diagonals taken. */
static qn_status operand_text(qn_emit *e, int i, qn_dtype acc, const char **out, qn_term *term)
{
	const qn_value *v = e->node->in[i];
	const qn_term all = *term;
	qn_shape s = v->fact.shape;
	qn_status status = QUERN_OK;
	const char *x = qn_emit_ranked(e, e->node->in[i], s.rank);
	if (v->fact.type != acc)
		x = qn_emit_temp(e, "wide", "tract_core_cast(%s, to='%s')", x, qn_emit_dtype(acc));
	for (int before = term->n + 1; term->n < before && status == QUERN_OK;) {
		before = term->n;
		x = diagonal(e, x, &s, term, qn_emit_dtype(acc), &status);
		for (int k = 0; k < term->n; k++) /* dims by label: those of the operand's first axis with it */
			for (int q = all.n - 1; q >= 0; q--)
				if (all.label[q] == term->label[k])
					s.dim[k] = v->fact.shape.dim[q];
	}
	*out = x;
	return status;
}

/* The product of what is folded so far and one more operand, its axes in the order of `to`. */
static const char *product_text(qn_emit *e, const char *l, const qn_term *lt, const char *r, const qn_term *rt, const qn_term *to,
	const char *type)
{
	if (lt->n && rt->n)
		return qn_emit_temp(e, "product", "tract_core_einsum([%s, %s], expr='%s,%s->%s', acc='%s', output='')", l, r, spell(e, lt),
			spell(e, rt), spell(e, to), type);
	const char *y = qn_emit_temp(e, "scaled", "%s * %s", l, r); /* the engine's einsum takes no scalars */
	return reduced(e, y, lt->n ? lt : rt, to, type);
}

static qn_status emit(qn_emit *e)
{
	const qn_node *n = e->node;
	qn_einsum eq;
	int rank[QN_EINSUM_OPERANDS] = {0};
	for (int i = 0; i < n->n_in && i < QN_EINSUM_OPERANDS; i++)
		rank[i] = n->in[i]->fact.shape.rank;
	const char *why = qn_einsum_parse(e->arena, n, rank, &eq), *sum = NULL, *x;
	if (why)
		return qn_emit_fail(e, "%s", why);
	qn_dtype t = n->in[0]->fact.type;
	qn_dtype acc = t == QN_F64 || qn_dtype_size(t) > 4 || t == QN_U32 ? QN_F64 : qn_dtype_is_float(t) ? QN_F32 : QN_I32;
	qn_term have = {.n = 0}, kept;
	for (int i = 0; i < n->n_in; i++) {
		qn_term term = eq.in[i], m, right, k;
		QN_TRY(operand_text(e, i, acc, &x, &term));
		if (qn_dtype_is_float(acc) && qn_is_broadcast(n->in[i], rank[i], false))
			x = qn_emit_apart(e, x);
		qn_einsum_needed(&eq, &term, i, i ? &have : NULL, &kept);
		if (i + 1 == n->n_in && i == 0)
			kept = eq.out;
		x = reduced(e, x, &term, &kept, qn_emit_dtype(acc));
		qn_term to = kept;
		if (i) {
			qn_einsum_split(&eq, &have, &kept, i, &to, &m, &right, &k);
			qn_term_join(&to, &m), qn_term_join(&to, &right);
			if (i + 1 == n->n_in)
				to = eq.out;
			x = product_text(e, sum, &have, x, &kept, &to, qn_emit_dtype(acc));
		}
		sum = x, have = to;
	}
	if (t != acc)
		sum = qn_arena_printf(e->arena, "tract_core_cast(%s, to='%s')", sum, qn_emit_dtype(t));
	qn_emit_output(e, 0, "%s", sum);
	return QUERN_OK;
}

const qn_op qn_op_einsum = {
	.name = "Einsum", .since = 12, .hint = QN_HINT_CONTRACTION, .min_in = 1, .max_in = -1, .infer = infer, .eval = eval, .emit = emit};
