#include "graph/emit.h"
#include "graph/ops/_gemm.h"
#include <math.h>

enum { MAX_SPATIAL = QN_MAX_RANK - 2 };
typedef enum padding { ZEROS, BORDER, REFLECTION } padding;
typedef struct sampler {
	int taps; /* an axis: 1 nearest, 2 linear, 4 cubic */
	padding pad;
	bool align;
	int n;
	int64_t dim[MAX_SPATIAL];
} sampler;

static const char *read_modes(const qn_node *n, sampler *s)
{
	const char *mode = qn_node_string(n, "mode", n->opset >= 20 ? "linear" : "bilinear"), *pad = qn_node_string(n, "padding_mode", "zeros");
	bool linear = !strcmp(mode, "linear") || !strcmp(mode, "bilinear"), cubic = !strcmp(mode, "cubic") || !strcmp(mode, "bicubic");
	s->taps = linear ? 2 : cubic ? 4 : 1;
	s->pad = !strcmp(pad, "border") ? BORDER : !strcmp(pad, "reflection") ? REFLECTION : ZEROS;
	s->align = qn_node_int(n, "align_corners", 0) != 0;
	if (s->taps == 1 && strcmp(mode, "nearest") != 0)
		return "the mode is unknown";
	return s->pad == ZEROS && strcmp(pad, "zeros") != 0 ? "the padding_mode is unknown" : NULL;
}

static qn_status infer(qn_call *c)
{
	const qn_shape *x = &c->in[0].shape, *g = &c->in[1].shape;
	sampler s;
	const char *why = read_modes(c->node, &s);
	if (why)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%s", why);
	if (x->rank < 3 || g->rank != x->rank)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "input of rank %d and grid of rank %d", x->rank, g->rank);
	if (!qn_dtype_is_float(c->in[0].type) || !qn_dtype_is_float(c->in[1].type))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "input of type %s and grid of type %s", qn_dtype_name(c->in[0].type), qn_dtype_name(c->in[1].type));
	QN_TRY(qn_call_equate(c, g->dim[g->rank - 1], qn_dim_const(x->rank - 2), "the coordinates of the grid and the spatial axes"));
	QN_TRY(qn_call_equate(c, x->dim[0], g->dim[0], "the batches of input and grid"));
	c->out[0].type = c->in[0].type;
	c->out[0].shape = *x;
	for (int i = 2; i < x->rank; i++)
		c->out[0].shape.dim[i] = g->dim[i - 1];
	return QUERN_OK;
}

/* Folds x back between the borders, as often as needed. */
static double reflect(double x, double low, double high)
{
	double range = high - low, past = x < low ? low - x : x > high ? x - high : 0;
	if (past == 0 || range <= 0)
		return past == 0 ? x : low;
	double n = floor(past / range), r = past - n * range;
	bool even = fmod(n, 2) == 0;
	return (x < low) == even ? low + r : high - r;
}

static void borders(const sampler *s, int axis, double *low, double *high)
{
	*low = s->align ? 0 : -0.5;
	*high = (double)s->dim[axis] - (s->align ? 1 : 0.5);
}

static double cubic(double d)
{
	const double a = -0.75;
	d = fabs(d);
	if (d <= 1)
		return ((a + 2) * d - (a + 3)) * d * d + 1;
	return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/* Taps of one axis for a normalized coordinate; index -1 reads zero. */
static void axis_taps(const sampler *s, int axis, double g, int64_t *index, double *weight)
{
	double low, high, last = (double)s->dim[axis] - 1;
	double x = s->align ? (g + 1) / 2 * last : ((g + 1) * (double)s->dim[axis] - 1) / 2;
	borders(s, axis, &low, &high);
	if (s->taps == 1)
		x = nearbyint(x);
	if (!(x >= low && x <= high)) { /* NaN too */
		if (s->pad == BORDER || x != x)
			x = x > 0 ? (x < last ? x : last) : 0;
		else if (s->pad == REFLECTION)
			x = reflect(x, low, high);
	}
	double cell = s->taps == 1 ? x : floor(x) - (s->taps == 4);
	for (int k = 0; k < s->taps; k++) {
		double at = cell + k;
		weight[k] = s->taps == 1 ? 1 : s->taps == 2 ? 1 - fabs(at - x) : cubic(at - x);
		if (at < 0 || at > last) {
			if (s->pad == ZEROS) {
				index[k] = -1;
				continue;
			}
			at = s->pad == BORDER ? (at < 0 ? 0 : last) : reflect(at, low, high);
		}
		index[k] = (int64_t)at < 0 ? 0 : (int64_t)at > s->dim[axis] - 1 ? s->dim[axis] - 1 : (int64_t)at;
	}
}

/* One output position for all channels of an image. */
static void sample(const sampler *s, const float *x, const float *grid, int64_t channels, int64_t plane, int64_t step, float *y)
{
	int64_t index[MAX_SPATIAL][4];
	double weight[MAX_SPATIAL][4];
	int total = 1;
	for (int d = 0; d < s->n; d++) {
		axis_taps(s, d, (double)grid[s->n - 1 - d], index[d], weight[d]); /* the grid names the last axis first */
		total *= s->taps;
	}
	for (int64_t c = 0; c < channels; c++) {
		double sum = 0;
		for (int k = 0; k < total; k++) {
			int64_t at = 0;
			double w = 1;
			for (int d = 0, rest = k; d < s->n; d++, rest /= s->taps) {
				int tap = rest % s->taps;
				w = index[d][tap] < 0 ? 0 : w * weight[d][tap];
				at = at * s->dim[d] + (index[d][tap] < 0 ? 0 : index[d][tap]);
			}
			sum += w != 0 ? w * (double)x[c * plane + at] : 0;
		}
		y[c * step] = (float)sum;
	}
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *y = &c->y[0];
	sampler s = {.n = x->rank - 2};
	read_modes(c->node, &s); /* checked by infer */
	int64_t plane = 1, out = 1, channels = x->dim[1];
	for (int i = 0; i < s.n; i++) {
		s.dim[i] = x->dim[i + 2];
		plane *= x->dim[i + 2], out *= y->dim[i + 2];
	}
	if (plane == 0 && out > 0)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the input has no elements to sample");
	const float *xf = qn_tensor_f32(c->scratch, x), *g = qn_tensor_f32(c->scratch, c->x[1]);
	float *yf = y->type == QN_F32 ? QN_OUT(c, 0, float) : QN_NEW(c->scratch, float, qn_tensor_count(y));
	int threads = qn_threads_for(c->threads, (double)(x->dim[0] * out * channels * 16));
#pragma omp parallel for num_threads(threads) if (threads > 1)
	for (int64_t i = 0; i < x->dim[0] * out; i++)
		sample(&s, xf + i / out * channels * plane, g + i * s.n, channels, plane, out, yf + i / out * channels * out + i % out);
	if (y->type != QN_F32)
		qn_convert(yf, QN_F32, QN_OUT(c, 0, void), y->type, qn_tensor_count(y));
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	static const char *const modes[] = {[1] = "nearest", [2] = "bilinear", [4] = "bicubic"}, *const pads[] = {"zeros", "border", "reflection"};
	const qn_node *n = e->node;
	sampler s;
	read_modes(n, &s);
	if (n->in[0]->fact.shape.rank != 4)
		return qn_emit_fail(e, "the engine samples images of rank 4, not rank %d", n->in[0]->fact.shape.rank);
	if (s.taps == 4 && s.pad == BORDER)
		return qn_emit_fail(e, "the engine's cubic sampling with a border is not that of ONNX");
	qn_emit_output(e, 0, "tract_core_grid_sample(%s, %s, mode='%s', padding_mode='%s', align_corners=%s)", qn_emit_ranked(e, n->in[0], 4),
		qn_emit_ranked(e, n->in[1], 4), modes[s.taps], pads[s.pad], s.align ? "true" : "false");
	return QUERN_OK;
}

const qn_op qn_op_grid_sample = {
	.name = "GridSample", .since = 16, .min_in = 2, .max_in = 2, .infer = infer, .eval = eval, .emit = emit};
