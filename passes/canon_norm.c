/* canon_norm.c - LayerNorm and RMSNorm written out: d / sqrt(mean(d^2) + eps), d the centred values or the values themselves, then a gain
 * and a bias along the last axis. */
#include "passes/canon.h"

/* 1 / sqrt(a) */
static qn_value *reciprocal_root_of(const qn_value *v)
{
	double c;
	const qn_node *n = qn_canon_made_by(v, "Reciprocal"), *root = n ? qn_canon_made_by(n->in[0], "Sqrt") : NULL;
	if (root)
		return root->in[0];
	n = qn_canon_made_by(v, "Div");
	root = n && qn_canon_scalar(n->in[0], &c) && c == 1 ? qn_canon_made_by(n->in[1], "Sqrt") : NULL;
	if (root)
		return root->in[0];
	n = qn_canon_made_by(v, "Pow");
	return n && qn_canon_scalar(n->in[1], &c) && c == -0.5 ? n->in[0] : NULL;
}

/* The operand of a mean over the last axis that keeps it, else NULL. */
static qn_value *mean_of(const qn_value *v)
{
	const qn_node *n = qn_canon_made_by(v, "ReduceMean");
	if (!n || n->in[0]->fact.shape.rank < 1 || v->fact.shape.rank != n->in[0]->fact.shape.rank)
		return NULL;
	int rank = n->in[0]->fact.shape.rank;
	int64_t axis;
	const qn_attr *a = qn_node_attr(n, "axes");
	if (a && a->n == 1)
		axis = a->ints[0];
	else if (qn_node_has_in(n, 1) && n->in[1]->fact.value && qn_tensor_count(n->in[1]->fact.value) == 1)
		axis = qn_tensor_get_i64(n->in[1]->fact.value, 0);
	else
		return NULL;
	return axis == -1 || axis == rank - 1 ? n->in[0] : NULL;
}

/* d and eps of mean(d^2) + eps */
static qn_value *mean_square_of(const qn_value *v, double *eps)
{
	const qn_value *mean = qn_canon_plus(v, eps);
	qn_value *square = mean ? mean_of(mean) : NULL;
	return square ? qn_canon_square_of(square) : NULL;
}

/* x for x - mean(x) */
static qn_value *centred_of(const qn_value *v)
{
	const qn_node *n = qn_canon_made_by(v, "Sub");
	return n && mean_of(n->in[1]) == n->in[0] ? n->in[0] : NULL;
}

/* The same subtraction may stand twice, once for the variance and once for the result. */
static bool same_centred(const qn_value *a, const qn_value *b)
{
	const qn_value *x = centred_of(a);
	return a == b || (x && x == centred_of(b));
}

/* d when n computes d / sqrt(mean(d^2) + eps) */
static qn_value *normalized_by(const qn_node *n, double *eps)
{
	qn_value *y = n->out[0];
	if (qn_canon_made_by(y, "Mul"))
		for (int i = 0; i < 2; i++) {
			const qn_value *a = reciprocal_root_of(n->in[i]), *d = a ? mean_square_of(a, eps) : NULL;
			if (d && same_centred(d, n->in[1 - i]))
				return n->in[1 - i];
		}
	if (qn_canon_made_by(y, "Div")) {
		const qn_node *root = qn_canon_made_by(n->in[1], "Sqrt");
		const qn_value *d = root ? mean_square_of(root->in[0], eps) : NULL;
		if (d && same_centred(d, n->in[0]))
			return n->in[0];
	}
	return NULL;
}

/* A constant along the last axis of `like`. */
static bool is_vector(const qn_value *v, const qn_value *like)
{
	if (!v || !v->is_const || !v->fact.value || v->fact.type != like->fact.type || v->fact.shape.rank < 1 ||
		v->fact.shape.rank > like->fact.shape.rank)
		return false;
	for (int i = 0; i + 1 < v->fact.shape.rank; i++)
		if (!qn_dim_is(v->fact.shape.dim[i], 1))
			return false;
	return qn_dim_equal(v->fact.shape.dim[v->fact.shape.rank - 1], like->fact.shape.dim[like->fact.shape.rank - 1]);
}

static qn_value *as_vector(qn_graph *g, qn_value *v)
{
	if (v->fact.shape.rank == 1)
		return v;
	qn_tensor *t = QN_NEW(g->arena, qn_tensor, 1);
	*t = (qn_tensor){v->fact.value->type, 1, {v->fact.value->dim[v->fact.value->rank - 1]}, v->fact.value->data};
	qn_value *flat = qn_graph_const(g, v->name, t);
	flat->weight = v->weight;
	return flat;
}

static qn_value *ones(qn_graph *g, const qn_value *like)
{
	int64_t n = like->fact.shape.dim[like->fact.shape.rank - 1].k;
	qn_tensor *t = qn_tensor_new(g->arena, like->fact.type, 1, &n);
	for (int64_t i = 0; i < n; i++)
		qn_tensor_set((void *)(uintptr_t)t->data, t->type, i, 1);
	return qn_graph_const(g, "ones", t);
}

/* The one reader of v when it is `op` with a vector as its other operand. */
static qn_node *reader_with_vector(const qn_value *v, const char *op, qn_value **vector)
{
	if (v->n_uses != 1 || v->is_output)
		return NULL;
	qn_node *n = v->uses[0].node;
	if (!n->out[0] || qn_canon_made_by(n->out[0], op) != n)
		return NULL;
	*vector = n->in[1 - v->uses[0].input];
	return is_vector(*vector, v) ? n : NULL;
}

void qn_canon_norm(qn_graph *g, qn_node *n)
{
	double eps;
	qn_value *d = normalized_by(n, &eps);
	if (!d || !qn_dim_is_const(d->fact.shape.dim[d->fact.shape.rank - 1]))
		return;
	qn_value *x = centred_of(d), *gain = NULL, *bias = NULL;
	qn_node *last = n, *scale = reader_with_vector(n->out[0], "Mul", &gain);
	if (scale)
		last = scale;
	else
		gain = ones(g, d);
	qn_node *shift = x ? reader_with_vector(last->out[0], "Add", &bias) : NULL;
	if (shift)
		last = shift;
	qn_value *in[3] = {x ? x : d, as_vector(g, gain), shift ? as_vector(g, bias) : NULL};
	qn_node_become(g, last, qn_op_find("", x ? "LayerNormalization" : "RMSNormalization"), in, shift ? 3 : 2);
	qn_node_set_int(g, last, "axis", -1);
	qn_node_set_float(g, last, "epsilon", (float)eps);
}
