/* Operators that compute on integers: whoever wrote them has quantized the model already, with scales that cannot be undone into the widths
 * asked for here. One row for all of them, since the answer is the same. */
#include "graph/op.h"

static qn_status lower(qn_graph *g, qn_node *n, bool *done)
{
	*done = false;
	return qn_fail(g->ctx, QUERN_ERR_UNSUPPORTED,
		"node '%s' (%s): the model is already quantized, its operators compute on integers; export the float model, or one whose "
		"quantization is written as QuantizeLinear and DequantizeLinear (QDQ), and let quern choose the widths",
		n->name, n->op_type);
}

const qn_op qn_op_already_quantized = {
	.name = "QLinearAdd",
	.domain = "com.microsoft",
	.also = "com.microsoft:QLinearMul com.microsoft:QLinearAveragePool "
		"com.microsoft:QLinearGlobalAveragePool com.microsoft:QLinearConcat com.microsoft:QLinearConv "
		"com.microsoft:QLinearLeakyRelu "
		"com.microsoft:QLinearReduceMean com.microsoft:QLinearSigmoid com.microsoft:QLinearSoftmax com.microsoft:QLinearWhere "
		"com.microsoft:QAttention com.microsoft:QGemm com.microsoft:QEmbedLayerNormalization com.microsoft:QMoE "
		"com.microsoft:QOrderedAttention com.microsoft:QOrderedGelu com.microsoft:QOrderedLayerNormalization "
		"com.microsoft:QOrderedLongformerAttention com.microsoft:QOrderedMatMul com.microsoft:QuantizeWithOrder "
		"com.microsoft:DequantizeWithOrder com.microsoft:DynamicQuantizeMatMul com.microsoft:DynamicQuantizeLSTM "
		"com.microsoft:MatMulIntegerToFloat com.microsoft:MatMulInteger16 com.microsoft:MulInteger com.microsoft:ReduceSumInteger",
	.min_in = 1,
	.max_in = -1,
	.max_out = -1,
	.lower = lower,
};
