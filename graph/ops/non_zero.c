/* non_zero.c - the index tuples of all elements that are not zero, one a column. The engine has no such operator: what can be folded is, lists of
 * rows chosen by a mask become dense (passes/dense.c), the rest is refused. */
#include "graph/ops/_move.h"
#include "graph/ops/_positions.h"

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

/* A tensor filled with one number that is not zero, of whatever size: an older exporter's way to count. */
static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	const qn_value *x = n->in[0];
	const qn_node *fill = x->producer;
	const qn_attr *value = fill ? qn_node_attr(fill, "value") : NULL;
	if (!fill || fill->op != qn_op_find("", "ConstantOfShape") || !value || !value->t || qn_tensor_get(value->t, 0) == 0 || x->fact.shape.rank < 1 ||
		qn_shape_is_const(&x->fact.shape))
		return QUERN_OK;
	int order[QN_MAX_RANK];
	for (int i = 0; i < x->fact.shape.rank; i++)
		order[i] = i;
	qn_build build = {g, n};
	qn_build_give(&build, 0, qn_build_positions(&build, x->fact.shape.dim, order, x->fact.shape.rank));
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_non_zero = {.name = "NonZero",
	.hint = QN_HINT_SELECTION,
	.since = 9,
	.min_in = 1,
	.max_in = 1,
	.traits = QN_DYNAMIC_OUTPUT,
	.infer = infer,
	.eval = eval,
	.lower = lower};
