/* canonicalize.c - nodes that do nothing go; decomposed forms become the operators they stand for.
 *
 * needs: shapes. gives: Gelu, Swish, LayerNormalization and RMSNormalization wherever their arithmetic stands; spoils nothing. */
#include "passes/canon.h"

#include <math.h>

qn_node *qn_canon_made_by(const qn_value *v, const char *op)
{
	qn_node *n = v ? v->producer : NULL;
	return n && !v->is_const && qn_node_is(n, op) ? n : NULL;
}

bool qn_canon_scalar(const qn_value *v, double *out)
{
	if (!v || !v->fact.value || !qn_dtype_is_float(v->fact.value->type) || qn_tensor_count(v->fact.value) != 1)
		return false;
	*out = qn_tensor_get(v->fact.value, 0);
	return true;
}

bool qn_canon_near(double a, double b) { return fabs(a - b) <= 1e-3 * fabs(b); }

static void add_factors(qn_value *v, qn_value **factors, int max, int *n, double *scale, bool inside)
{
	double c;
	qn_node *p;
	bool open = !inside || v->n_uses == 1;
	if (qn_canon_scalar(v, &c)) {
		*scale *= c;
	} else if (open && (p = qn_canon_made_by(v, "Mul"))) {
		add_factors(p->in[0], factors, max, n, scale, true);
		add_factors(p->in[1], factors, max, n, scale, true);
	} else if (open && (p = qn_canon_made_by(v, "Div")) && qn_canon_scalar(p->in[1], &c) && c != 0) {
		*scale /= c;
		add_factors(p->in[0], factors, max, n, scale, true);
	} else if (*n < max) {
		factors[(*n)++] = v;
	} else {
		*scale = NAN; /* too many: no form has so many factors */
	}
}

void qn_canon_factors(qn_value *v, qn_value **factors, int max, int *n, double *scale)
{
	*n = 0;
	*scale = 1;
	add_factors(v, factors, max, n, scale, false);
	if (isnan(*scale))
		*n = 0;
}

qn_value *qn_canon_plus(const qn_value *v, double *constant)
{
	const qn_node *n = qn_canon_made_by(v, "Add");
	for (int i = 0; n && i < 2; i++)
		if (qn_canon_scalar(n->in[i], constant))
			return n->in[1 - i];
	return NULL;
}

qn_value *qn_canon_square_of(const qn_value *v)
{
	double e;
	const qn_node *n = qn_canon_made_by(v, "Pow");
	if (n && qn_canon_scalar(n->in[1], &e) && e == 2)
		return n->in[0];
	n = qn_canon_made_by(v, "Mul");
	return n && n->in[0] == n->in[1] ? n->in[0] : NULL;
}

/* --- nodes that do nothing ------------------------------------------------------------------------------------ */
static bool same_fact(const qn_value *a, const qn_value *b)
{
	return a->fact.type == b->fact.type && qn_shape_equal(&a->fact.shape, &b->fact.shape);
}

/* A view, cast or copy whose result has the type and shape of its operand moves nothing, unless it permutes. */
static bool does_nothing(const qn_node *n)
{
	if (!(n->op->traits & (QN_LAYOUT | QN_KEEPS_WEIGHT)) || !n->out[0] || !n->in[0] || !same_fact(n->in[0], n->out[0]))
		return false;
	const qn_attr *perm = qn_node_attr(n, "perm");
	for (size_t i = 0; perm && i < perm->n; i++)
		if (perm->ints[i] != (int64_t)i)
			return false;
	return perm || !qn_node_is(n, "Transpose");
}

static void drop_idle(qn_graph *g, qn_node *n)
{
	if (!does_nothing(n))
		return;
	qn_value_replace(g, n->out[0], n->in[0]);
	qn_node_remove(g, n);
}

static void each_node(qn_graph *g, void (*rewrite)(qn_graph *g, qn_node *n))
{
	for (qn_node *n = g->first, *next; n; n = next) {
		next = n->next;
		if (n->out[0] && !n->out[0]->is_const)
			rewrite(g, n);
	}
	qn_graph_sweep(g); /* what a rewrite left unread must not count as a use for the next */
}

/* The shapes are settled here, and are told of once. */
static void tell_assumptions(qn_graph *g, qn_arena *scratch)
{
	const char *text;
	for (size_t i = 0; (text = qn_dims_assumption(g->dims, scratch, i)); i++)
		qn_log(g->ctx, QUERN_LOG_WARN, "the graph holds together only where %s: keep to sizes for which it is", text);
}

qn_status qn_pass_canonicalize(qn_graph *g, qn_pass_env *env)
{
	tell_assumptions(g, env->scratch);
	each_node(g, drop_idle);
	each_node(g, qn_canon_activation);
	each_node(g, qn_canon_norm);
	return QUERN_OK;
}
