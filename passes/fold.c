/* fold.c - factors of channels put into gains, biases and weights. */
#include "passes/fold.h"

#include <math.h>

qn_value *qn_fold_vector(qn_graph *g, const char *name, const float *v, int64_t n, bool reciprocal)
{
	qn_tensor *t = qn_tensor_new(g->arena, QN_F32, 1, &n);
	float *to = (float *)(uintptr_t)t->data;
	for (int64_t i = 0; i < n; i++)
		to[i] = reciprocal ? 1 / v[i] : v[i];
	qn_value *c = qn_graph_const(g, name, t);
	c->weight = c->name;
	return c;
}

/* The weight times a constant that broadcasts to it, made when it is needed. */
static qn_value *scaled_weight(qn_graph *g, qn_node *before, qn_value *w, qn_value *by)
{
	qn_value *in[] = {w, by};
	qn_value *v = qn_graph_apply(g, before, "Mul", qn_arena_printf(g->arena, "%s.balanced", w->name), in, 2);
	v->fact = (qn_fact){QN_F32, w->fact.shape, NULL};
	v->is_const = true;
	v->weight = w->weight;
	return v;
}

qn_status qn_fold_numbers(qn_graph *g, qn_value *v, int64_t k, qn_arena *scratch, const float **out)
{
	*out = NULL;
	if (!v->is_const || !qn_dtype_is_float(v->fact.type))
		return QUERN_OK;
	const qn_tensor *t;
	QN_TRY(qn_graph_load(g, v, scratch, &t));
	int64_t n = qn_tensor_count(t);
	if (n != 1 && (n != k || t->dim[t->rank - 1] != k))
		return QUERN_OK;
	const float *from = qn_tensor_f32(scratch, t);
	float *all = QN_NEW(scratch, float, k);
	for (int64_t i = 0; i < k; i++)
		all[i] = from[n == 1 ? 0 : i];
	*out = all;
	return QUERN_OK;
}

/* Input i of the node divided by m; *out is NULL where it is no constant vector. */
static qn_status quotient(qn_graph *g, const qn_node *n, int i, const float *m, int64_t k, qn_arena *scratch, float **out)
{
	const float *v;
	*out = NULL;
	QN_TRY(qn_fold_numbers(g, n->in[i], k, scratch, &v));
	if (!v)
		return QUERN_OK;
	*out = QN_NEW(scratch, float, k);
	for (int64_t c = 0; c < k; c++)
		(*out)[c] = v[c] / m[c];
	return QUERN_OK;
}

static void set_vector(qn_graph *g, qn_node *n, int i, const float *v, int64_t k)
{
	qn_value *c = qn_fold_vector(g, qn_arena_printf(g->arena, "%s.balanced", n->in[i]->name), v, k, false);
	qn_node_set_input(g, n, i, c);
}

bool qn_fold_is_norm(const qn_node *n)
{
	static const char *const names[] = {"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"};
	int64_t axis = qn_node_int(n, "axis", -1);
	for (size_t i = 0; i < QN_LEN(names); i++)
		if (qn_node_is(n, names[i]))
			return (axis == -1 || axis == n->in[0]->fact.shape.rank - 1) && n->out[0]->fact.type == QN_F32;
	return false;
}

qn_status qn_fold_into_norm(qn_graph *g, qn_node *n, const float *m, int64_t k, bool *done)
{
	if (!qn_fold_is_norm(n))
		return QUERN_OK;
	qn_arena scratch;
	qn_arena_init(&scratch, g->ctx);
	float *gain = NULL, *bias = NULL;
	bool has_bias = qn_node_has_in(n, 2);
	qn_status status = quotient(g, n, 1, m, k, &scratch, &gain);
	if (status == QUERN_OK && has_bias)
		status = quotient(g, n, 2, m, k, &scratch, &bias);
	if (status == QUERN_OK && gain && (bias || !has_bias)) {
		set_vector(g, n, 1, gain, k);
		if (bias)
			set_vector(g, n, 2, bias, k);
		*done = true;
	}
	qn_arena_release(&scratch);
	return status;
}

/* Whether rows / m still have scales that f16 holds, where the layer stores such. */
static qn_status rows_fit(qn_graph *g, const qn_layer *l, const float *m, qn_arena *scratch, bool *fit)
{
	*fit = true;
	if (l->form == QN_FORM_I8 && !l->n_parts)
		return QUERN_OK;
	const qn_tensor *t;
	QN_TRY(qn_graph_load(g, l->node->in[1], scratch, &t));
	const float *w = qn_tensor_f32(scratch, t);
	for (int64_t i = 0; i < l->n * l->k; i++)
		*fit &= fabsf(w[i]) / m[i / l->k] < QN_FOLD_MOST_F16;
	return QUERN_OK;
}

/* What the result is divided by in all: other factors may have gone into the rows before. */
static const float *divided_by(qn_graph *g, const qn_layer *l, const float *m)
{
	if (!l->divided)
		return m;
	float *both = QN_NEW(g->arena, float, l->n);
	for (int64_t i = 0; i < l->n; i++)
		both[i] = l->divided[i] * m[i];
	return both;
}

static void divide_rows(qn_graph *g, qn_layer *l, const float *m)
{
	qn_node *n = l->node;
	int64_t column[] = {l->n, 1};
	qn_value *by = qn_fold_vector(g, qn_arena_printf(g->arena, "%s.rows", n->in[1]->name), m, l->n, true);
	qn_tensor *t = qn_tensor_new(g->arena, QN_F32, 2, column);
	t->data = by->fact.value->data;
	by->fact = (qn_fact){QN_F32, qn_shape_of(t), t};
	qn_node_set_input(g, n, 1, scaled_weight(g, n, n->in[1], by));
	l->divided = divided_by(g, l, m);
}

qn_status qn_fold_into_rows(qn_graph *g, qn_layer *l, const float *m, bool *done)
{
	qn_node *n = l->node;
	if (n->op != qn_op_find("quern", "Linear") || !n->in[1]->is_const)
		return QUERN_OK;
	qn_arena scratch;
	qn_arena_init(&scratch, g->ctx);
	float *bias = NULL;
	bool has_bias = qn_node_has_in(n, 2), fit = false;
	qn_status status = rows_fit(g, l, m, &scratch, &fit);
	if (status == QUERN_OK && has_bias)
		status = quotient(g, n, 2, m, l->n, &scratch, &bias);
	if (status == QUERN_OK && fit && (bias || !has_bias)) {
		divide_rows(g, l, m);
		if (bias)
			set_vector(g, n, 2, bias, l->n);
		*done = true;
	}
	qn_arena_release(&scratch);
	return status;
}

void qn_fold_into_columns(qn_graph *g, qn_layer *l, qn_value *m)
{
	qn_node *n = l->node;
	qn_node_set_input(g, n, 1, scaled_weight(g, n, n->in[1], m));
}
