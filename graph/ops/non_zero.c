/* non_zero.c - the index tuples of all elements that are not zero, one a column. The engine has no such operator: what can be folded is,
 * the rest is refused. */
#include "graph/ops/_move.h"

static int64_t count_of(const qn_tensor *t)
{
	int64_t n = qn_tensor_count(t), found = 0;
	for (int64_t i = 0; i < n; i++)
		found += qn_tensor_get(t, i) != 0;
	return found;
}

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	const qn_tensor *t = c->in[0].value;
	int rank = c->in[0].shape.rank ? c->in[0].shape.rank : 1;
	qn_dim n;
	if (t && t->type != QN_DIM)
		n = qn_dim_const(count_of(t));
	else
		n = qn_dim_symbol(c->dims, qn_arena_printf(c->scratch, "?elements of '%s' that are not zero", c->node->in[0]->name));
	c->out[0].type = QN_I64;
	c->out[0].shape = (qn_shape){2, {qn_dim_const(rank), n}};
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0];
	int64_t found = count_of(x), n = qn_tensor_count(x), at = 0;
	int rank = x->rank ? x->rank : 1;
	qn_call_resize(c, 0, 2, (const int64_t[]){rank, found});
	for (int64_t i = 0; i < n; i++) {
		if (qn_tensor_get(x, i) == 0)
			continue;
		int64_t rest = i;
		for (int k = rank - 1; k >= 0; k--) {
			int64_t size = x->rank ? x->dim[k] : 1;
			QN_OUT(c, 0, int64_t)[k * found + at] = rest % size;
			rest /= size;
		}
		at++;
	}
	return QUERN_OK;
}

const qn_op qn_op_non_zero = {.name = "NonZero",
	.hint = QN_HINT_SELECTION,
	.since = 9,
	.min_in = 1,
	.max_in = 1,
	.traits = QN_DYNAMIC_OUTPUT,
	.infer = infer,
	.eval = eval};
