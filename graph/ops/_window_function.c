#include "graph/ops/_window_function.h"
#include <math.h>

qn_status qn_window_function_infer(qn_call *c)
{
	static const qn_dtype by_number[] = {[1] = QN_F32, [2] = QN_U8, [3] = QN_I8, [4] = QN_U16, [5] = QN_I16, [6] = QN_I32, [7] = QN_I64,
		[10] = QN_F16, [11] = QN_F64, [12] = QN_U32, [13] = QN_U64, [16] = QN_BF16};
	int64_t number = qn_node_int(c->node, "output_datatype", 1);
	if (number < 0 || number >= (int64_t)QN_LEN(by_number) || by_number[number] == QN_NONE)
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "output_datatype %lld", (long long)number);
	const qn_dim *size;
	int n;
	QN_TRY(qn_call_dims(c, 0, &size, &n));
	if (n < 0)
		return qn_call_data_dependent(c, 0, "the size of the window");
	if (n != 1 || (qn_dim_is_const(size[0]) && size[0].k < 0))
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the size of the window must be one number that is not negative");
	c->out[0].type = by_number[number];
	c->out[0].shape = (qn_shape){1, {size[0]}};
	return QUERN_OK;
}

qn_status qn_window_function_eval(qn_call *c, double a0, double a1, double a2)
{
	const double pi = 3.14159265358979323846;
	int64_t n = c->y[0].dim[0], period = qn_node_int(c->node, "periodic", 1) ? n : n - 1;
	for (int64_t i = 0; i < n; i++) {
		double t = period > 0 ? 2 * pi * (double)i / (double)period : 0;
		qn_tensor_set(QN_OUT(c, 0, void), c->y[0].type, i, n == 1 ? 1 : a0 - a1 * cos(t) + a2 * cos(2 * t));
	}
	return QUERN_OK;
}
