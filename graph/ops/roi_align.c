#include "graph/op.h"
#include <math.h>

/* inputs: x [N, C, H, W], rois [R, 4] as x1 y1 x2 y2, batch_indices [R] */

static qn_status infer(qn_call *c)
{
	const qn_shape *x = &c->in[0].shape, *r = &c->in[1].shape;
	int64_t h = qn_node_int(c->node, "output_height", 1), w = qn_node_int(c->node, "output_width", 1);
	if (!qn_dtype_is_float(c->in[0].type) || x->rank != 4 || r->rank != 2 || c->in[2].shape.rank != 1 || !qn_dtype_is_int(c->in[2].type))
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "inputs of rank %d, %d and %d, they must be 4, 2 and 1", x->rank, r->rank, c->in[2].shape.rank);
	if (h < 1 || w < 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "an output of %lld x %lld", (long long)h, (long long)w);
	QN_TRY(qn_call_equate(c, r->dim[1], qn_dim_const(4), "the corners of a region"));
	QN_TRY(qn_call_equate(c, r->dim[0], c->in[2].shape.dim[0], "the regions and their batch indices"));
	c->out[0].type = c->in[0].type;
	c->out[0].shape = (qn_shape){4, {r->dim[0], x->dim[1], qn_dim_const(h), qn_dim_const(w)}};
	return QUERN_OK;
}

typedef struct tap {
	int64_t at[4];
	double weight[4];
} tap;

/* The four neighbours of a point; all weights 0 outside the image. */
static tap neighbours(double y, double x, int64_t h, int64_t w)
{
	tap t = {{0}, {0}};
	if (y < -1 || y > (double)h || x < -1 || x > (double)w)
		return t;
	y = y > 0 ? y : 0, x = x > 0 ? x : 0;
	int64_t y0 = (int64_t)y < h - 1 ? (int64_t)y : h - 1, x0 = (int64_t)x < w - 1 ? (int64_t)x : w - 1;
	int64_t y1 = y0 + 1 < h ? y0 + 1 : h - 1, x1 = x0 + 1 < w ? x0 + 1 : w - 1;
	double fy = y0 == h - 1 ? 0 : y - (double)y0, fx = x0 == w - 1 ? 0 : x - (double)x0;
	t = (tap){{y0 * w + x0, y0 * w + x1, y1 * w + x0, y1 * w + x1}, {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx}};
	return t;
}

typedef struct region {
	double y, x, bin_h, bin_w;
	int64_t samples_h, samples_w;
} region;

static double bin(const region *r, const float *plane, int64_t ph, int64_t pw, int64_t h, int64_t w, bool max)
{
	double sum = 0, top = -INFINITY;
	for (int64_t iy = 0; iy < r->samples_h; iy++)
		for (int64_t ix = 0; ix < r->samples_w; ix++) {
			double y = r->y + ((double)ph + ((double)iy + 0.5) / (double)r->samples_h) * r->bin_h;
			double x = r->x + ((double)pw + ((double)ix + 0.5) / (double)r->samples_w) * r->bin_w;
			tap t = neighbours(y, x, h, w);
			for (int k = 0; k < 4; k++) {
				double v = t.weight[k] * (double)plane[t.at[k]];
				sum += v;
				top = v > top ? v : top;
			}
		}
	return max ? top : sum / (double)(r->samples_h * r->samples_w > 0 ? r->samples_h * r->samples_w : 1);
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *y = &c->y[0];
	const qn_node *n = c->node;
	int64_t channels = x->dim[1], h = x->dim[2], w = x->dim[3], oh = y->dim[2], ow = y->dim[3];
	int64_t ratio = qn_node_int(n, "sampling_ratio", 0);
	double scale = (double)qn_node_float(n, "spatial_scale", 1);
	const char *usual = n->opset >= 16 ? "half_pixel" : "output_half_pixel";
	bool half = !strcmp(qn_node_string(n, "coordinate_transformation_mode", usual), "half_pixel");
	bool max = !strcmp(qn_node_string(n, "mode", "avg"), "max");
	const float *xf = qn_tensor_f32(c->scratch, x), *rois = qn_tensor_f32(c->scratch, c->x[1]);
	for (int64_t i = 0; i < y->dim[0]; i++) {
		int64_t image = qn_tensor_get_i64(c->x[2], i);
		if (image < 0 || image >= x->dim[0] || h == 0 || w == 0)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "region %lld is of image %lld, there are %lld", (long long)i, (long long)image, (long long)x->dim[0]);
		const float *r = rois + i * 4;
		double shift = half ? 0.5 : 0, height = ((double)r[3] - (double)r[1]) * scale, width = ((double)r[2] - (double)r[0]) * scale;
		if (!half)
			height = height > 1 ? height : 1, width = width > 1 ? width : 1;
		region g = {(double)r[1] * scale - shift, (double)r[0] * scale - shift, height / (double)oh, width / (double)ow, ratio, ratio};
		if (ratio <= 0)
			g.samples_h = (int64_t)ceil(g.bin_h), g.samples_w = (int64_t)ceil(g.bin_w);
		for (int64_t k = 0; k < channels * oh * ow; k++) {
			const float *plane = xf + (image * channels + k / (oh * ow)) * h * w;
			qn_tensor_set(QN_OUT(c, 0, void), y->type, i * channels * oh * ow + k, bin(&g, plane, k / ow % oh, k % ow, h, w, max));
		}
	}
	return QUERN_OK;
}

/* Not expressible in NNEF. */
const qn_op qn_op_roi_align = {.name = "RoiAlign", .since = 10, .min_in = 3, .max_in = 3, .infer = infer, .eval = eval};
