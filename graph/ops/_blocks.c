#include "graph/ops/_blocks.h"

qn_status qn_blocks_apply(const qn_build *b, const qn_blocks *k, qn_value **out)
{
	qn_value *in[] = {k->data, k->scales, k->zeros};
	int n_in = k->zeros ? 3 : 2;
	for (int i = 0; i < n_in; i++)
		if (!in[i]->is_const)
			return qn_build_fail(b, QUERN_ERR_UNSUPPORTED, "its quantized weight must be constant, '%s' is not", in[i]->name);
	qn_build_note(b, "weights of few bits are widened, then stored in the widths asked for");
	*out = qn_graph_apply(b->g, b->n, "DequantizeBlocks", qn_arena_printf(b->g->arena, "%s/weight", b->n->name), in, n_in);
	qn_node *n = (*out)->producer;
	qn_node_set_int(b->g, n, "bits", k->bits);
	qn_node_set_int(b->g, n, "zero_bits", k->zero_bits);
	qn_node_set_int(b->g, n, "zero", k->zero);
	qn_node_set_int(b->g, n, "block_size", k->block);
	qn_node_set_int(b->g, n, "axis", k->axis);
	qn_node_set_ints(b->g, n, "dims", k->dim, (size_t)k->rank);
	return QUERN_OK;
}
