/* Operators of com.microsoft that compute on integers. One row for all of them, since the answer is the same. */
#include "graph/ops/_quantized.h"

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
	.lower = qn_lower_quantized,
};
