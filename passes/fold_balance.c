/* fold_balance.c - the factors of balanced tensors go into the graph, which computes the same as before.
 *
 * needs: scales. gives: layers that read x / m and have weights w m. 1 / m goes into the gain and bias of the normalization that makes x,
 * or into the rows and the bias of the linear layer that makes it, where nothing but those layers reads x; else a multiplication by a
 * constant vector is put in. Weights become recipes over the ones before. */
#include "passes/passes.h"
#include "passes/plan.h"

#include <math.h>

enum { MOST_READERS = 64 };
static const float MOST_F16 = 60000;

typedef struct fold {
	qn_graph *g;
	qn_plan *plan;
	qn_value *x;
	const float *m;
	int64_t k;
	qn_layer *reader[MOST_READERS];
	int n;
} fold;

static qn_value *vector(qn_graph *g, const char *name, const float *v, int64_t n, bool reciprocal)
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

/* A constant of one number, or of k along the last axis, as k numbers; NULL where it is of another kind. */
static qn_status numbers(qn_graph *g, qn_value *v, int64_t k, qn_arena *scratch, const float **out)
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

/* Input i of the node divided by m; false, with nothing changed, where it is no constant vector. */
static qn_status quotient(const fold *f, const qn_node *n, int i, qn_arena *scratch, float **out)
{
	const float *v;
	*out = NULL;
	QN_TRY(numbers(f->g, n->in[i], f->k, scratch, &v));
	if (!v)
		return QUERN_OK;
	*out = QN_NEW(scratch, float, f->k);
	for (int64_t k = 0; k < f->k; k++)
		(*out)[k] = v[k] / f->m[k];
	return QUERN_OK;
}

static void set_vector(const fold *f, qn_node *n, int i, const float *v)
{
	const qn_value *old = n->in[i];
	qn_value *c = vector(f->g, qn_arena_printf(f->g->arena, "%s.balanced", old->name), v, f->k, false);
	qn_node_set_input(f->g, n, i, c);
}

/* --- where 1 / m goes ----------------------------------------------------------------------------------------------- */
static bool normalizes_last_axis(const qn_node *n)
{
	static const char *const names[] = {"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"};
	int64_t axis = qn_node_int(n, "axis", -1);
	for (size_t i = 0; i < QN_LEN(names); i++)
		if (qn_node_is(n, names[i]))
			return (axis == -1 || axis == n->in[0]->fact.shape.rank - 1) && n->out[0]->fact.type == QN_F32;
	return false;
}

static qn_status into_norm(const fold *f, qn_node *n, bool *done)
{
	if (!normalizes_last_axis(n))
		return QUERN_OK;
	qn_arena scratch;
	qn_arena_init(&scratch, f->g->ctx);
	float *gain = NULL, *bias = NULL;
	bool has_bias = qn_node_has_in(n, 2);
	qn_status status = quotient(f, n, 1, &scratch, &gain);
	if (status == QUERN_OK && has_bias)
		status = quotient(f, n, 2, &scratch, &bias);
	if (status == QUERN_OK && gain && (bias || !has_bias)) {
		set_vector(f, n, 1, gain);
		if (bias)
			set_vector(f, n, 2, bias);
		*done = true;
	}
	qn_arena_release(&scratch);
	return status;
}

/* Whether rows / m still have scales that f16 holds, where the layer stores such. */
static qn_status rows_fit(const fold *f, const qn_layer *l, qn_arena *scratch, bool *fit)
{
	*fit = true;
	if (l->form == QN_FORM_I8 && !l->n_parts)
		return QUERN_OK;
	const qn_tensor *t;
	QN_TRY(qn_graph_load(f->g, l->node->in[1], scratch, &t));
	const float *w = qn_tensor_f32(scratch, t);
	for (int64_t i = 0; i < l->n * l->k; i++)
		*fit &= fabsf(w[i]) / f->m[i / l->k] < MOST_F16;
	return QUERN_OK;
}

static qn_status into_linear(const fold *f, qn_node *n, bool *done)
{
	qn_layer *l = qn_plan_find(f->plan, n);
	if (n->op != qn_op_find("quern", "Linear") || !l || !n->in[1]->is_const)
		return QUERN_OK;
	qn_arena scratch;
	qn_arena_init(&scratch, f->g->ctx);
	float *bias = NULL;
	bool has_bias = qn_node_has_in(n, 2), fit = false;
	qn_status status = rows_fit(f, l, &scratch, &fit);
	if (status == QUERN_OK && has_bias)
		status = quotient(f, n, 2, &scratch, &bias);
	if (status == QUERN_OK && fit && (bias || !has_bias)) {
		int64_t column[] = {f->k, 1};
		qn_value *by = vector(f->g, qn_arena_printf(f->g->arena, "%s.rows", n->in[1]->name), f->m, f->k, true);
		qn_tensor *t = qn_tensor_new(f->g->arena, QN_F32, 2, column);
		t->data = by->fact.value->data;
		by->fact = (qn_fact){QN_F32, qn_shape_of(t), t};
		qn_node_set_input(f->g, n, 1, scaled_weight(f->g, n, n->in[1], by));
		if (bias)
			set_vector(f, n, 2, bias);
		l->divided = f->m;
		*done = true;
	}
	qn_arena_release(&scratch);
	return status;
}

static bool only_readers(const fold *f)
{
	size_t reads = 0;
	for (int i = 0; i < f->n; i++)
		for (int k = 0; k < f->reader[i]->node->n_in; k++)
			reads += f->reader[i]->node->in[k] == f->x;
	return !f->x->is_output && reads == f->x->n_uses;
}

static void multiply(const fold *f)
{
	qn_value *in[] = {f->x, vector(f->g, qn_arena_printf(f->g->arena, "%s.factors", f->x->name), f->m, f->k, true)};
	qn_value *y = qn_graph_apply(f->g, f->reader[0]->node, "Mul", qn_arena_printf(f->g->arena, "%s.balanced", f->x->name), in, 2);
	y->fact = (qn_fact){QN_F32, f->x->fact.shape, NULL};
	for (int i = 0; i < f->n; i++)
		qn_node_set_input(f->g, f->reader[i]->node, 0, y);
}

static qn_status fold_one(fold *f)
{
	bool done = false;
	qn_node *from = f->x->producer;
	if (from && from->out[0] == f->x && only_readers(f)) {
		QN_TRY(into_norm(f, from, &done));
		if (!done)
			QN_TRY(into_linear(f, from, &done));
	}
	if (!done)
		multiply(f);
	qn_value *m = vector(f->g, qn_arena_printf(f->g->arena, "%s.balance", f->x->name), f->m, f->k, false);
	for (int i = 0; i < f->n; i++) {
		qn_node *n = f->reader[i]->node;
		qn_node_set_input(f->g, n, 1, scaled_weight(f->g, n, n->in[1], m));
	}
	return QUERN_OK;
}

qn_status qn_pass_fold_balance(qn_graph *g, qn_pass_env *env)
{
	qn_plan *p = env->plan;
	bool *done = QN_NEW(env->scratch, bool, p->n + 1);
	for (size_t i = 0; i < p->n; i++) {
		qn_layer *l = &p->layers[i];
		if (done[i] || !l->node || !l->balance)
			continue;
		fold f = {.g = g, .plan = p, .x = l->node->in[0], .m = l->balance, .k = l->k};
		for (size_t j = i; j < p->n && f.n < MOST_READERS; j++) {
			qn_layer *o = &p->layers[j];
			bool same = o->node && !done[j] && o->balance && o->node->in[0] == f.x && o->k == f.k;
			if (!same || memcmp(o->balance, f.m, (size_t)f.k * sizeof *f.m))
				continue;
			done[j] = true;
			f.reader[f.n++] = o;
		}
		QN_TRY(fold_one(&f));
	}
	qn_graph_sweep(g);
	return QUERN_OK;
}
