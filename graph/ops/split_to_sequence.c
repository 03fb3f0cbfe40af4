/* SplitToSequence: Split into parts of one size (the last may be smaller), of given sizes, or of size 1. */
#include "graph/ops/_sequence.h"

/* The sizes of the parts as dims; *count of them. */
static qn_status find_sizes(const qn_build *b, qn_dim total, qn_dim **size, int64_t *count)
{
	const qn_value *split = qn_build_in(b, 1);
	const qn_tensor *t = split ? split->fact.value : NULL;
	int64_t length = 0, part = 1;
	if (split && !t)
		return qn_build_fail(b, QUERN_ERR_UNSUPPORTED, "the sizes '%s' are not known before it runs", split->name);
	if (t && t->rank == 1) {
		*count = t->dim[0];
		*size = QN_NEW(b->g->arena, qn_dim, *count);
		for (int64_t i = 0; i < *count; i++)
			(*size)[i] = t->type == QN_DIM ? ((const qn_dim *)t->data)[i] : qn_dim_const(qn_tensor_get_i64(t, i));
		return QUERN_OK;
	}
	QN_TRY(qn_build_known(b, total, "the axis to split into equal parts", &length));
	if (t)
		QN_TRY(qn_build_known(b, t->type == QN_DIM ? *(const qn_dim *)t->data : qn_dim_const(qn_tensor_get_i64(t, 0)),
			"the size of the parts", &part));
	if (part < 1)
		return qn_build_fail(b, QUERN_ERR_SHAPE, "parts of size %lld", (long long)part);
	*count = (length + part - 1) / part;
	*size = QN_NEW(b->g->arena, qn_dim, *count);
	for (int64_t i = 0; i < *count; i++)
		(*size)[i] = qn_dim_const(i + 1 < *count ? part : length - i * part);
	return QUERN_OK;
}

enum { MOST_PARTS = 4096 };

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	qn_build build = {g, n}, *b = &build;
	const qn_shape *s = &n->in[0]->fact.shape;
	int64_t axis = qn_node_int(n, "axis", 0), count;
	qn_dim *size;
	if (axis < -s->rank || axis >= s->rank)
		return qn_build_fail(b, QUERN_ERR_SHAPE, "axis %lld is out of range for rank %d", (long long)axis, s->rank);
	axis += axis < 0 ? s->rank : 0;
	QN_TRY(find_sizes(b, s->dim[axis], &size, &count));
	if (count < 1 || count > MOST_PARTS)
		return qn_build_fail(b, QUERN_ERR_UNSUPPORTED, "%lld parts, 1 to %d are possible", (long long)count, MOST_PARTS);
	qn_value *in[] = {n->in[0], qn_build_dims(b, "sizes", size, (int)count)};
	qn_node *split = qn_graph_node(g, n, qn_op_find("", "Split"), qn_arena_printf(g->arena, "%s/split", n->name), in, 2, (int)count);
	qn_node_set_int(g, split, "axis", axis);
	qn_value **parts = QN_NEW(g->arena, qn_value *, count);
	for (int64_t i = 0; i < count; i++)
		parts[i] = !qn_build_in(b, 1) && !qn_node_int(n, "keepdims", 1) ? qn_build_squeeze(b, "part", split->out[i], axis)
										: split->out[i];
	qn_build_give(b, 0, qn_graph_apply(g, n, "SequenceConstruct", qn_arena_printf(g->arena, "%s/parts", n->name), parts, (int)count));
	*done = true;
	return QUERN_OK;
}

const qn_op qn_op_split_to_sequence = {.name = "SplitToSequence", .since = 11, .min_in = 1, .max_in = 2, .lower = lower};
