/* dim_text.c - expressions as text and as numbers, and the shapes made of them. */
#include "graph/dim_expr.h"

#include <inttypes.h>

typedef struct printer {
	qn_text text;
	qn_symbol_name_fn name;
	void *user;
} printer;

static void print_dim(printer *p, qn_dim d);

/* An operand of a quotient: in parentheses unless it is one word. */
static void print_operand(printer *p, qn_dim d)
{
	const qn_atom *atom = qn_dim_lone(d);
	if (atom ? atom->kind != QN_ATOM_DIV : !d.expr && d.k >= 0) {
		print_dim(p, d);
		return;
	}
	qn_text_add(&p->text, "(");
	print_dim(p, d);
	qn_text_add(&p->text, ")");
}

static void print_atom(printer *p, const qn_atom *atom, bool alone)
{
	if (atom->kind == QN_ATOM_SYMBOL) {
		const char *s = p->name ? p->name(p->user, atom->text) : NULL;
		if (!s)
			s = atom->text;
		qn_text_bytes(&p->text, s, strlen(s));
	} else if (atom->kind == QN_ATOM_DIV) {
		qn_text_add(&p->text, alone ? "" : "(");
		print_operand(p, atom->a);
		qn_text_add(&p->text, "/");
		print_operand(p, atom->b);
		qn_text_add(&p->text, alone ? "" : ")");
	} else {
		qn_text_add(&p->text, atom->kind == QN_ATOM_MIN ? "min(" : "max(");
		print_dim(p, atom->a);
		qn_text_add(&p->text, ",");
		print_dim(p, atom->b);
		qn_text_add(&p->text, ")");
	}
}

static void print_term(printer *p, const qn_term *x, bool first)
{
	bool minus = x->k < 0;
	uint64_t k = minus ? -(uint64_t)x->k : (uint64_t)x->k;
	qn_text_add(&p->text, "%s", first ? minus ? "-" : "" : minus ? " - " : " + ");
	if (k != 1 || x->n == 0)
		qn_text_add(&p->text, "%" PRIu64 "%s", k, x->n ? "*" : "");
	for (int i = 0; i < x->n; i++) {
		qn_text_add(&p->text, "%s", i ? "*" : "");
		print_atom(p, x->atom[i], x->n == 1 && k == 1 && !(first && minus));
	}
}

static void print_dim(printer *p, qn_dim d)
{
	if (!d.expr) {
		qn_text_add(&p->text, "%" PRId64, d.k);
		return;
	}
	/* a positive term leads where there is one: "4 - s" */
	int lead = 0;
	while (lead < d.expr->n && d.expr->term[lead].k < 0)
		lead++;
	if (lead == d.expr->n)
		lead = 0;
	print_term(p, &d.expr->term[lead], true);
	for (int i = 0; i < d.expr->n; i++)
		if (i != lead)
			print_term(p, &d.expr->term[i], false);
}

const char *qn_dim_text(qn_arena *a, qn_dim d, qn_symbol_name_fn name, void *user)
{
	printer p = {.text = {.arena = a}, .name = name, .user = user};
	print_dim(&p, d);
	return p.text.s ? p.text.s : ""; /* a symbol may be named by the empty text */
}

void qn_dim_each_symbol(qn_dim d, void (*fn)(void *user, const char *text), void *user)
{
	for (int i = 0; d.expr && i < d.expr->n; i++) {
		for (int j = 0; j < d.expr->term[i].n; j++) {
			const qn_atom *x = d.expr->term[i].atom[j];
			if (x->kind == QN_ATOM_SYMBOL) {
				fn(user, x->text);
			} else {
				qn_dim_each_symbol(x->a, fn, user);
				qn_dim_each_symbol(x->b, fn, user);
			}
		}
	}
}

/* --- value ------------------------------------------------------------------------------------------------- */
typedef int64_t (*value_fn)(void *user, const char *text);

static bool eval_atom(const qn_atom *x, value_fn value, void *user, int64_t *out)
{
	if (x->kind == QN_ATOM_SYMBOL) {
		*out = value(user, x->text);
		return true;
	}
	int64_t a, b;
	if (!qn_dim_eval(x->a, value, user, &a) || !qn_dim_eval(x->b, value, user, &b))
		return false;
	if (x->kind == QN_ATOM_DIV) {
		if (b == 0 || (a == INT64_MIN && b == -1))
			return false;
		*out = qn_floor_div(a, b);
	} else {
		*out = (a < b) == (x->kind == QN_ATOM_MIN) ? a : b;
	}
	return true;
}

bool qn_dim_eval(qn_dim d, value_fn value, void *user, int64_t *out)
{
	int64_t sum = d.k;
	for (int i = 0; d.expr && i < d.expr->n; i++) {
		int64_t product = d.expr->term[i].k, v;
		for (int j = 0; j < d.expr->term[i].n; j++)
			if (!eval_atom(d.expr->term[i].atom[j], value, user, &v) || __builtin_mul_overflow(product, v, &product))
				return false;
		if (__builtin_add_overflow(sum, product, &sum))
			return false;
	}
	*out = sum;
	return true;
}

/* --- shapes ------------------------------------------------------------------------------------------------ */
bool qn_shape_is_const(const qn_shape *s)
{
	for (int i = 0; i < s->rank; i++)
		if (!qn_dim_is_const(s->dim[i]))
			return false;
	return s->rank >= 0;
}

bool qn_shape_equal(const qn_shape *a, const qn_shape *b)
{
	if (a->rank != b->rank)
		return false;
	for (int i = 0; i < a->rank; i++)
		if (!qn_dim_equal(a->dim[i], b->dim[i]))
			return false;
	return true;
}

const char *qn_shape_text(qn_arena *a, const qn_shape *s)
{
	if (s->rank < 0)
		return "[?]";
	printer p = {.text = {.arena = a}};
	qn_text_add(&p.text, "[");
	for (int i = 0; i < s->rank; i++) {
		qn_text_add(&p.text, "%s", i ? ", " : "");
		print_dim(&p, s->dim[i]);
	}
	qn_text_add(&p.text, "]");
	return p.text.s;
}

qn_shape qn_shape_of(const qn_tensor *t)
{
	qn_shape s = {.rank = t->rank};
	for (int i = 0; i < t->rank; i++)
		s.dim[i] = qn_dim_const(t->dim[i]);
	return s;
}
