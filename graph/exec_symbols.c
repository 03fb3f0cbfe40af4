/* exec_symbols.c - sizes of symbols in one run. */
#include "graph/exec_symbols.h"

typedef struct binding {
	const char *symbol;
	int64_t size;
} binding;

struct qn_sizes {
	binding *b;
	size_t n, cap;
	bool unknown; /* the last evaluation met a symbol without a size */
};

static int64_t size_of(void *user, const char *text)
{
	qn_sizes *s = user;
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->b[i].symbol, text))
			return s->b[i].size;
	s->unknown = true;
	return 0;
}

static bool known_size(qn_sizes *s, qn_dim d, int64_t *size)
{
	*size = d.k;
	if (qn_dim_is_const(d))
		return true;
	s->unknown = false;
	return qn_dim_eval(d, size_of, s, size) && !s->unknown;
}

/* First round: lone symbols get their sizes. Second round: everything is checked. */
static qn_status check_axis(qn_graph *g, qn_sizes *s, qn_arena *a, const qn_value *v, int axis, int64_t got, bool first)
{
	qn_dim want = qn_dim_resolve(g->dims, v->fact.shape.dim[axis]);
	const char *text = qn_dim_text(a, want, NULL, NULL);
	int64_t expected;
	bool known = known_size(s, want, &expected);
	if (first && !known && qn_dim_equal(qn_dim_symbol(g->dims, text), want)) {
		QN_GROW(a, s->b, s->n, s->cap);
		s->b[s->n++] = (binding){text, got};
	}
	if (first || !known || expected == got)
		return QUERN_OK;
	bool symbolic = !qn_dim_is_const(want);
	QN_FAIL(g->ctx, QUERN_ERR_SHAPE, "input '%s': axis %d is %lld, but the graph needs %lld there%s%s%s", v->name, axis, (long long)got,
		(long long)expected, symbolic ? " (" : "", symbolic ? text : "", symbolic ? ")" : "");
}

static qn_status check_input(qn_graph *g, const qn_value *v, const qn_tensor *t)
{
	if (!t)
		QN_FAIL(g->ctx, QUERN_ERR_CONFIG, "input '%s' is missing", v->name);
	if (t->type != v->fact.type)
		QN_FAIL(g->ctx, QUERN_ERR_CONFIG, "input '%s' is %s, the graph takes %s", v->name, qn_dtype_name(t->type),
			qn_dtype_name(v->fact.type));
	if (v->fact.shape.rank >= 0 && t->rank != v->fact.shape.rank)
		QN_FAIL(g->ctx, QUERN_ERR_SHAPE, "input '%s' has rank %d, the graph takes %d", v->name, t->rank, v->fact.shape.rank);
	return QUERN_OK;
}

qn_status qn_sizes_from_inputs(qn_graph *g, const qn_tensor *const *inputs, qn_arena *a, qn_sizes **out)
{
	qn_sizes *s = QN_NEW(a, qn_sizes, 1);
	for (int i = 0; i < g->n_inputs; i++)
		QN_TRY(check_input(g, g->inputs[i], inputs[i]));
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < g->n_inputs; i++)
			for (int k = 0; k < g->inputs[i]->fact.shape.rank; k++)
				QN_TRY(check_axis(g, s, a, g->inputs[i], k, inputs[i]->dim[k], round == 0));
	*out = s;
	return QUERN_OK;
}

qn_status qn_sizes_apply(qn_graph *g, const qn_sizes *sizes, const qn_tensor *dims, qn_dtype type, qn_arena *a, const qn_tensor **out)
{
	qn_sizes s = *sizes;
	qn_tensor *t = qn_tensor_new(a, type, dims->rank, dims->dim);
	int64_t n = qn_tensor_count(dims);
	for (int64_t i = 0; i < n; i++) {
		qn_dim d = qn_dim_resolve(g->dims, ((const qn_dim *)dims->data)[i]);
		int64_t size;
		if (!known_size(&s, d, &size))
			QN_FAIL(g->ctx, QUERN_ERR_SHAPE, "the size '%s' follows from no input", qn_dim_text(a, d, NULL, NULL));
		qn_convert(&size, QN_I64, (char *)(uintptr_t)t->data + (size_t)i * qn_dtype_size(type), type, 1);
	}
	*out = t;
	return QUERN_OK;
}
