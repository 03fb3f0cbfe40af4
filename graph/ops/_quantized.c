#include "graph/ops/_quantized.h"

qn_status qn_lower_quantized(qn_graph *g, qn_node *n, bool *done)
{
	*done = false;
	return qn_fail(g->ctx, QUERN_ERR_UNSUPPORTED,
		"node '%s' (%s): the model is already quantized, its operators compute on integers; export the float model, or one whose "
		"quantization is written as QuantizeLinear and DequantizeLinear (QDQ), and let quern choose the widths",
		n->name, n->op_type);
}

qn_status qn_lower_quantized_weight(qn_graph *g, qn_node *n, bool *done)
{
	*done = false;
	for (int i = 0; i < n->n_in; i++) {
		const qn_value *v = n->in[i];
		if (v && v->is_const && (v->fact.type == QN_I8 || v->fact.type == QN_U8) && v->fact.shape.rank >= 2)
			return qn_lower_quantized(g, n, done);
	}
	return QUERN_OK;
}
