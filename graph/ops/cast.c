#include "graph/ops/_cast.h"

/* Element type codes of the ONNX format. */
static const qn_dtype types[] = {
	[1] = QN_F32, [2] = QN_U8, [3] = QN_I8, [4] = QN_U16, [5] = QN_I16, [6] = QN_I32, [7] = QN_I64, [9] = QN_BOOL,
	[10] = QN_F16, [11] = QN_F64, [12] = QN_U32, [13] = QN_U64, [16] = QN_BF16,
	[17] = QN_F8E4M3FN, [18] = QN_F8E4M3FNUZ, [19] = QN_F8E5M2, [20] = QN_F8E5M2FNUZ, [21] = QN_U4, [22] = QN_I4, [23] = QN_F4E2M1,
	[24] = QN_F8E8M0, [25] = QN_U2, [26] = QN_I2,
};

static qn_status infer(qn_call *c)
{
	int64_t to = qn_node_int(c->node, "to", 0);
	if (to < 1 || to >= (int64_t)QN_LEN(types) || types[to] == QN_NONE)
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "attribute to is %lld, an element type that is not supported (8 is string, 14 and 15 complex, "
			"27 and up floats of 6 bits)", (long long)to);
	QN_TRY(qn_infer_same(c));
	c->out[0].type = types[to];
	return QUERN_OK;
}

const qn_op qn_op_cast = {
	.name = "Cast",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_ELEMENTWISE | QN_KEEPS_WEIGHT | QN_SMALL,
	.dims_in = 1,
	.infer = infer,
	.eval = qn_cast_eval,
	.emit = qn_cast_emit,
};
