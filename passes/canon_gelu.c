/* canon_gelu.c - GELU in its erf and tanh forms, and x sigmoid(a x), whatever the order of their factors. */
#include "passes/canon.h"

#include <math.h>

/* v == scale * x for one of the candidates? */
static bool is_scaled(qn_value *v, const qn_value *x, double *scale)
{
	qn_value *f[2];
	int n;
	qn_canon_factors(v, f, 2, &n, scale);
	return n == 1 && f[0] == x;
}

/* c x^3 in any spelling */
static bool is_cubic(qn_value *v, const qn_value *x, double *scale)
{
	qn_value *f[3];
	int n;
	double e;
	qn_canon_factors(v, f, 3, &n, scale);
	if (n == 3)
		return f[0] == x && f[1] == x && f[2] == x;
	if (n == 2) /* x and a square that others read too */
		return (f[0] == x && qn_canon_square_of(f[1]) == x) || (f[1] == x && qn_canon_square_of(f[0]) == x);
	const qn_node *p = n == 1 ? qn_canon_made_by(f[0], "Pow") : NULL;
	return p && p->in[0] == x && qn_canon_scalar(p->in[1], &e) && e == 3;
}

/* v == sqrt(2 / pi) (x + 0.044715 x^3), or x times (1 + 0.044715 x^2) inside. */
static bool is_tanh_argument(qn_value *v, const qn_value *x)
{
	qn_value *f[2];
	int n;
	double outer, c, one;
	qn_canon_factors(v, f, 2, &n, &outer);
	if (!qn_canon_near(outer, 0.7978845608))
		return false;
	if (n == 1) {
		const qn_node *add = qn_canon_made_by(f[0], "Add");
		for (int i = 0; add && i < 2; i++)
			if (add->in[i] == x && is_cubic(add->in[1 - i], x, &c) && qn_canon_near(c, 0.044715))
				return true;
		return false;
	}
	for (int i = 0; n == 2 && i < 2; i++) {
		qn_value *rest = f[i] == x ? qn_canon_plus(f[1 - i], &one) : NULL, *sq[2];
		int m;
		if (!rest || !qn_canon_near(one, 1))
			continue;
		qn_canon_factors(rest, sq, 2, &m, &c);
		if (qn_canon_near(c, 0.044715) && ((m == 1 && qn_canon_square_of(sq[0]) == x) || (m == 2 && sq[0] == x && sq[1] == x)))
			return true;
	}
	return false;
}

static void become(qn_graph *g, qn_node *n, const char *op, qn_value *x) { qn_node_become(g, n, qn_op_find("", op), &x, 1); }

/* x (1 + erf(x / sqrt 2)) / 2, x (1 + tanh(...)) / 2 */
static bool gelu(qn_graph *g, qn_node *n, qn_value *x, qn_value *gate, double scale)
{
	double one, inner;
	qn_value *bell = qn_canon_plus(gate, &one);
	if (!bell || !qn_canon_near(one, 1) || !qn_canon_near(scale, 0.5))
		return false;
	const qn_node *erf = qn_canon_made_by(bell, "Erf"), *tanh = qn_canon_made_by(bell, "Tanh");
	if (erf && is_scaled(erf->in[0], x, &inner) && qn_canon_near(inner, 0.7071067812)) {
		become(g, n, "Gelu", x);
		return true;
	}
	if (tanh && is_tanh_argument(tanh->in[0], x)) {
		become(g, n, "Gelu", x);
		qn_node_set_string(g, n, "approximate", "tanh");
		return true;
	}
	return false;
}

static bool swish(qn_graph *g, qn_node *n, qn_value *x, qn_value *gate, double scale)
{
	double alpha;
	const qn_node *sigmoid = qn_canon_made_by(gate, "Sigmoid");
	if (!sigmoid || scale != 1 || !is_scaled(sigmoid->in[0], x, &alpha))
		return false;
	become(g, n, "Swish", x);
	qn_node_set_float(g, n, "alpha", (float)alpha);
	return true;
}

void qn_canon_activation(qn_graph *g, qn_node *n)
{
	if (!qn_canon_made_by(n->out[0], "Mul") && !qn_canon_made_by(n->out[0], "Div"))
		return;
	qn_value *f[2];
	int count;
	double scale;
	qn_canon_factors(n->out[0], f, 2, &count, &scale);
	for (int i = 0; count == 2 && i < 2; i++)
		if (gelu(g, n, f[i], f[1 - i], scale) || swish(g, n, f[i], f[1 - i], scale))
			return;
}
