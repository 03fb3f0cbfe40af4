#include "graph/op.h"
#include <math.h>

/* inputs, all scalars: num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz */

static qn_status scalar(qn_call *c, int i, int64_t *out)
{
	const int64_t *v;
	int n;
	QN_TRY(qn_call_ints(c, i, &v, &n));
	if (n != 1 || v[0] < 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "input %d must be one positive number", i);
	*out = v[0];
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	static const qn_dtype by_number[] = {[1] = QN_F32, [10] = QN_F16, [11] = QN_F64, [16] = QN_BF16};
	int64_t number = qn_node_int(c->node, "output_datatype", 1), bins, length;
	if (number < 0 || number >= (int64_t)QN_LEN(by_number) || by_number[number] == QN_NONE)
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "output_datatype %lld", (long long)number);
	QN_TRY(scalar(c, 0, &bins));
	QN_TRY(scalar(c, 1, &length));
	c->out[0].type = by_number[number];
	c->out[0].shape = (qn_shape){2, {qn_dim_const(length / 2 + 1), qn_dim_const(bins)}};
	return QUERN_OK;
}

static double to_mel(double hertz) { return 2595 * log10(1 + hertz / 700); }
static double to_hertz(double mel) { return 700 * (pow(10, mel / 2595) - 1); }

static qn_status eval(qn_call *c)
{
	int64_t rows = c->y[0].dim[0], bins = c->y[0].dim[1], length = qn_tensor_get_i64(c->x[1], 0);
	double rate = qn_tensor_get(c->x[2], 0), low = to_mel(qn_tensor_get(c->x[3], 0)), high = to_mel(qn_tensor_get(c->x[4], 0));
	double step = (high - low) / (double)(bins + 2), *edge = QN_NEW(c->scratch, double, bins + 2);
	for (int64_t i = 0; i < bins + 2; i++)
		edge[i] = floor((double)(length + 1) * to_hertz((double)i * step + low) / rate);
	for (int64_t b = 0; b < bins; b++)
		for (int64_t i = 0; i < rows; i++) {
			double left = edge[b], middle = edge[b + 1], right = edge[b + 2], x = (double)i, v = 0;
			if (middle == left && x == middle)
				v = 1;
			else if (x >= left && x <= middle && middle > left)
				v = (x - left) / (middle - left);
			else if (x > middle && x < right)
				v = (right - x) / (right - middle);
			qn_tensor_set(QN_OUT(c, 0, void), c->y[0].type, i * bins + b, v);
		}
	return QUERN_OK;
}

/* Always a constant, so that nothing is emitted. */
const qn_op qn_op_mel_weight_matrix = {.name = "MelWeightMatrix", .since = 17, .min_in = 5, .max_in = 5, .infer = infer, .eval = eval};
