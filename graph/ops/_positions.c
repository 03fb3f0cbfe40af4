#include "graph/ops/_positions.h"

static qn_value *shaped(const qn_build *b, const char *op, const char *label, qn_value *v, const qn_dim *dim, int rank)
{
	return qn_build_op2(b, op, label, v, qn_build_dims(b, qn_arena_printf(b->g->arena, "%s.shape", label), dim, rank));
}

qn_value *qn_build_positions(const qn_build *b, const qn_dim *dim, const int *order, int rank)
{
	qn_shape all = {.rank = rank};
	for (int i = 0; i < rank; i++)
		all.dim[i] = dim[order[i]];
	qn_dim line[] = {qn_dim_const(1), qn_shape_count(b->g->dims, &all)};
	qn_value *rows[QN_MAX_RANK];
	for (int i = 0; i < rank; i++) {
		qn_dim one[QN_MAX_RANK];
		for (int k = 0; k < rank; k++)
			one[k] = k == i ? all.dim[i] : qn_dim_const(1);
		qn_value *v = shaped(b, "Reshape", "places.apart", qn_build_range(b, "places", qn_dim_const(0), all.dim[i]), one, rank);
		if (rank > 1)
			v = shaped(b, "Expand", "grid", v, all.dim, rank);
		rows[order[i]] = shaped(b, "Reshape", "line", v, line, 2);
	}
	if (rank == 1)
		return rows[0];
	qn_value *y = qn_graph_apply(b->g, b->n, "Concat", qn_arena_printf(b->g->arena, "%s/positions", b->n->name), rows, rank);
	qn_node_set_int(b->g, y->producer, "axis", 0);
	return y;
}
