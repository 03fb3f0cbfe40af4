#include "graph/ops/_cumulate.h"
#include "graph/ops/_move.h"

qn_status qn_cumulate_axis(qn_call *c, int *axis)
{
	const int64_t *v;
	int n;
	QN_TRY(qn_call_ints(c, 1, &v, &n));
	if (n != 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the axis must be one number, not %d", n);
	return qn_call_axis(c, v[0], c->in[0].shape.rank, axis);
}

qn_status qn_cumulate_infer(qn_call *c)
{
	int axis;
	QN_TRY(qn_move_need_rank(c, 0));
	if (c->in[1].value)
		QN_TRY(qn_cumulate_axis(c, &axis));
	return qn_infer_same(c);
}

typedef struct how {
	bool product, reverse, exclusive;
} how;

#define CUMULATE(name, type, sum, times)                                                                               \
	static void name(type *x, int64_t n, const void *user)                                                         \
	{                                                                                                              \
		const how *h = user;                                                                                   \
		type a = h->product ? 1 : 0;                                                                           \
		for (int64_t k = 0; k < n; k++) {                                                                      \
			int64_t i = h->reverse ? n - 1 - k : k;                                                        \
			type b = x[i], next = h->product ? (times) : (sum);                                            \
			x[i] = h->exclusive ? a : next;                                                                \
			a = next;                                                                                      \
		}                                                                                                      \
	}
CUMULATE(reals, double, a + b, a *b)
CUMULATE(ints, int64_t, (int64_t)((uint64_t)a + (uint64_t)b), (int64_t)((uint64_t)a * (uint64_t)b))

qn_status qn_cumulate_eval(qn_call *c, bool product)
{
	int axis;
	QN_TRY(qn_cumulate_axis(c, &axis));
	how h = {product, qn_node_int(c->node, "reverse", 0) != 0, qn_node_int(c->node, "exclusive", 0) != 0};
	return qn_lines_run(c, c->x[0], &c->y[0], qn_lines_of(c->x[0], axis, axis), reals, ints, &h);
}
