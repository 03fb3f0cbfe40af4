/* linear_conv.c - a convolution with a kernel of one position, unit strides and no padding is a Linear over the channels. */
#include "graph/ops/_window.h"
#include "passes/linear.h"

static bool looks_at_one_position(qn_graph *g, const qn_node *n, int spatial)
{
	qn_window w;
	if (qn_node_int(n, "group", 1) != 1 || qn_window_read(g->arena, n, spatial, &w))
		return false;
	for (int i = 0; i < spatial; i++)
		if (!qn_dim_is(n->in[1]->fact.shape.dim[i + 2], 1) || w.stride[i] != 1 || w.before[i] || w.after[i])
			return false;
	return true;
}

void qn_linear_from_conv(qn_graph *g, qn_node *n)
{
	qn_value *x = n->in[0], *w = n->in[1], *bias = qn_node_has_in(n, 2) ? n->in[2] : NULL;
	int rank = x->fact.shape.rank;
	if (x->is_const || !w->is_const || x->fact.type != QN_F32 || w->fact.type != QN_F32 || rank < 3 || (bias && !bias->is_const) ||
		!qn_shape_is_const(&w->fact.shape) || !looks_at_one_position(g, n, rank - 2))
		return;
	int64_t last[QN_MAX_RANK], back[QN_MAX_RANK];
	for (int i = 0; i < rank; i++) {
		last[i] = i == 0 ? 0 : i + 1 < rank ? i + 1 : 1;
		back[i] = i == 0 ? 0 : i == 1 ? rank - 1 : i - 1;
	}
	qn_shape two = {2, {w->fact.shape.dim[0], w->fact.shape.dim[1]}};
	qn_value *in[] = {qn_linear_transpose(g, n, qn_arena_printf(g->arena, "%s.rows", n->name), x, last),
		qn_linear_reshape(g, n, qn_arena_printf(g->arena, "%s.2d", w->name), w, &two), bias};
	qn_shape y = in[0]->fact.shape;
	y.dim[rank - 1] = two.dim[0];
	qn_node_become(g, n, qn_op_find("quern", "Linear"), in, bias ? 3 : 2);
	n->out[0]->fact.shape = y;
	qn_linear_continue(g, n, &y, back);
}
