#include "graph/ops/_resize.h"
#include <math.h>

static const char *pick(qn_arena *a, const qn_node *n, const char *name, const char *otherwise, const char *const *names, size_t count,
	int *out)
{
	const char *s = qn_node_string(n, name, otherwise);
	for (size_t i = 0; i < count; i++)
		if (!strcmp(s, names[i])) {
			*out = (int)i;
			return NULL;
		}
	return qn_arena_printf(a, "%s '%s' is unknown", name, s);
}

static const char *read_modes(qn_arena *a, const qn_node *n, bool modern, qn_resize *r)
{
	static const char *const modes[] = {"nearest", "linear", "cubic"};
	static const char *const coordinates[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
		"tf_half_pixel_for_nn", "tf_crop_and_resize"};
	static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
	int mode = 0, coordinate = 0, rounding = 0;
	const char *why = pick(a, n, "mode", "nearest", modes, QN_LEN(modes), &mode);
	if (!why)
		why = pick(a, n, "coordinate_transformation_mode", modern ? "half_pixel" : "asymmetric", coordinates, QN_LEN(coordinates), &coordinate);
	if (!why)
		why = pick(a, n, "nearest_mode", modern ? "round_prefer_floor" : "floor", roundings, QN_LEN(roundings), &rounding);
	if (why)
		return why;
	r->mode = (qn_interpolation)mode, r->coordinates = (qn_coordinates)coordinate, r->rounding = (qn_nearest_rule)rounding;
	r->antialias = qn_node_int(n, "antialias", 0) != 0;
	r->exclude_outside = qn_node_int(n, "exclude_outside", 0) != 0;
	r->cubic_a = (double)qn_node_float(n, "cubic_coeff_a", -0.75f);
	r->extrapolation = (double)qn_node_float(n, "extrapolation_value", 0);
	return NULL;
}

/* floor(d * scale) for a symbol: exact where the scale is a quotient of small integers. */
static const char *scale_dim(qn_arena *a, qn_dims *dims, qn_dim d, double scale, qn_dim *out)
{
	if (qn_dim_is_const(d)) {
		*out = qn_dim_const((int64_t)floor((double)d.k * scale));
		return NULL;
	}
	for (int64_t q = 1; q <= 64; q++) {
		double p = nearbyint(scale * (double)q);
		if (p >= 1 && (float)(p / (double)q) == (float)scale) {
			*out = qn_dim_floordiv(dims, qn_dim_mul(dims, d, qn_dim_const((int64_t)p)), qn_dim_const(q));
			return NULL;
		}
	}
	return qn_arena_printf(a, "a scale of %g is no quotient of small integers, and the size it scales is a symbol: bind it with --set", scale);
}

static const char *apply_scales(qn_arena *a, qn_dims *dims, const qn_tensor *t, const qn_attr *attr, const int *axes, int n, qn_resize *r)
{
	int64_t count = t ? qn_tensor_count(t) : attr ? (int64_t)attr->n : 0;
	if (count != n)
		return qn_arena_printf(a, "%lld scales for %d axes", (long long)count, n);
	for (int i = 0; i < n; i++) {
		int axis = axes[i];
		double s = t ? qn_tensor_get(t, i) : (double)attr->floats[i], extent = s;
		if (!(s > 0) || s > 1e6)
			return qn_arena_printf(a, "the scale %g of axis %d is not a positive number", s, axis);
		if (r->coordinates == QN_TF_CROP_AND_RESIZE)
			extent = s * (r->to[axis] - r->from[axis]);
		const char *why = scale_dim(a, dims, r->in[axis], extent, &r->out[axis]);
		if (why)
			return why;
		r->scale[axis] = s;
	}
	return NULL;
}

static const char *apply_sizes(qn_arena *a, const qn_node *n, const qn_tensor *t, const int *axes, int count, qn_resize *r)
{
	const char *policy = qn_node_string(n, "keep_aspect_ratio_policy", "stretch");
	bool larger = !strcmp(policy, "not_smaller"), keep = larger || !strcmp(policy, "not_larger");
	double common = 0;
	if (qn_tensor_count(t) != count)
		return qn_arena_printf(a, "%lld sizes for %d axes", (long long)qn_tensor_count(t), count);
	for (int i = 0; i < count; i++) {
		int axis = axes[i];
		r->out[axis] = t->type == QN_DIM ? ((const qn_dim *)t->data)[i] : qn_dim_const(qn_tensor_get_i64(t, i));
		if (qn_dim_is_const(r->out[axis]) && r->out[axis].k < 0)
			return qn_arena_printf(a, "the size %lld of axis %d is negative", (long long)r->out[axis].k, axis);
		bool known = qn_dim_is_const(r->out[axis]) && qn_dim_is_const(r->in[axis]) && r->in[axis].k > 0;
		r->scale[axis] = known ? (double)r->out[axis].k / (double)r->in[axis].k : qn_dim_equal(r->out[axis], r->in[axis]) ? 1 : 0;
		if (keep && !known)
			return "keep_aspect_ratio_policy needs sizes that are known: bind the symbols with --set";
		if (i == 0 || (larger ? r->scale[axis] > common : r->scale[axis] < common))
			common = r->scale[axis];
	}
	for (int i = 0; keep && i < count; i++) {
		r->scale[axes[i]] = common;
		r->out[axes[i]] = qn_dim_const((int64_t)floor(common * (double)r->in[axes[i]].k + 0.5));
	}
	return NULL;
}

const char *qn_resize_read(qn_arena *a, qn_dims *dims, const qn_node *n, const qn_fact *in, int scales, int sizes, int roi, qn_resize *r)
{
	memset(r, 0, sizeof *r);
	r->rank = in[0].shape.rank;
	const char *why = read_modes(a, n, sizes >= 0, r);
	if (why)
		return why;
	int axes[QN_MAX_RANK], count = r->rank;
	for (int i = 0; i < r->rank; i++) {
		axes[i] = i;
		r->in[i] = r->out[i] = in[0].shape.dim[i];
		r->scale[i] = r->to[i] = 1;
	}
	const qn_attr *attr = qn_node_attr(n, "axes");
	if (attr) {
		count = (int)attr->n;
		for (int i = 0; i < count; i++) {
			if (count > r->rank || attr->ints[i] < -r->rank || attr->ints[i] >= r->rank)
				return qn_arena_printf(a, "axes do not fit rank %d", r->rank);
			axes[i] = (int)(attr->ints[i] < 0 ? attr->ints[i] + r->rank : attr->ints[i]);
		}
	}
	const qn_tensor *region = roi >= 0 && roi < n->n_in ? in[roi].value : NULL;
	if (r->coordinates == QN_TF_CROP_AND_RESIZE) {
		if (!region || qn_tensor_count(region) != 2 * count)
			return qn_arena_printf(a, "tf_crop_and_resize needs a known roi of %d numbers", 2 * count);
		for (int i = 0; i < count; i++)
			r->from[axes[i]] = qn_tensor_get(region, i), r->to[axes[i]] = qn_tensor_get(region, count + i);
	}
	const qn_tensor *s = scales >= 0 && scales < n->n_in ? in[scales].value : NULL;
	const qn_tensor *want = sizes >= 0 && sizes < n->n_in ? in[sizes].value : NULL;
	if (want && qn_tensor_count(want))
		return apply_sizes(a, n, want, axes, count, r);
	return apply_scales(a, dims, s, qn_node_attr(n, "scales"), axes, count, r);
}

bool qn_resize_active(const qn_resize *r, int axis)
{
	if (r->coordinates == QN_TF_CROP_AND_RESIZE && (r->from[axis] != 0 || r->to[axis] != 1))
		return true;
	return r->scale[axis] != 1 || !qn_dim_equal(r->in[axis], r->out[axis]);
}

static double source(const qn_resize *r, int axis, int64_t x, double scale, int64_t in, int64_t out)
{
	double middle = ((double)x + 0.5) / scale - 0.5, width = scale * (double)in, from = r->from[axis], to = r->to[axis];
	switch (r->coordinates) {
	case QN_HALF_PIXEL: return middle;
	case QN_HALF_PIXEL_SYMMETRIC: return (double)in / 2 * (1 - (double)out / width) + middle;
	case QN_PYTORCH_HALF_PIXEL: return out > 1 ? middle : 0;
	case QN_ALIGN_CORNERS: return width == 1 || out == 1 ? 0 : (double)x * (double)(in - 1) / (width - 1);
	case QN_ASYMMETRIC: return (double)x / scale;
	case QN_TF_HALF_PIXEL_FOR_NN: return ((double)x + 0.5) / scale;
	default: break;
	}
	if (out <= 1)
		return 0.5 * (from + to) * (double)(in - 1);
	return from * (double)(in - 1) + (double)x * (to - from) * (double)(in - 1) / (double)(out - 1);
}

static double nearest(const qn_resize *r, double x)
{
	switch (r->rounding) {
	case QN_ROUND_FLOOR: return floor(x);
	case QN_ROUND_CEIL: return ceil(x);
	case QN_ROUND_PREFER_CEIL: return floor(x + 0.5);
	default: return ceil(x - 0.5);
	}
}

/* The interpolation kernel at a distance in (possibly stretched) input elements. */
static double kernel(const qn_resize *r, double d)
{
	double a = r->cubic_a;
	d = fabs(d);
	if (r->mode == QN_LINEAR)
		return d < 1 ? 1 - d : 0;
	if (d <= 1)
		return ((a + 2) * d - (a + 3)) * d * d + 1;
	return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

static void interpolate(const qn_resize *r, double x, double squeeze, int64_t in, int64_t first, int64_t width, int64_t *index,
	float *weight)
{
	double cell = floor(x), sum = 0;
	for (int pass = 0; pass < 2; pass++) /* the sum first, then the weights */
		for (int64_t k = 0; k < width; k++) {
			double at = cell + (double)(first + k);
			bool outside = at < 0 || at > (double)(in - 1);
			double w = r->exclude_outside && outside ? 0 : kernel(r, (at - x) * squeeze);
			if (pass == 0) {
				sum += w;
				continue;
			}
			weight[k] = (float)(squeeze != 1 || r->exclude_outside ? (sum != 0 ? w / sum : 0) : w);
			index[k] = at < 0 ? 0 : outside ? in - 1 : (int64_t)at;
		}
}

void qn_resize_taps(qn_arena *a, const qn_resize *r, int axis, int64_t in, int64_t out, qn_taps *t)
{
	double scale = r->scale[axis] > 0 ? r->scale[axis] : in ? (double)out / (double)in : 1, support = r->mode == QN_LINEAR ? 1 : 2;
	double squeeze = r->antialias && r->mode != QN_NEAREST && scale < 1 ? scale : 1;
	int64_t first = (int64_t)floor(-support / squeeze) + 1;
	t->out = out;
	t->width = r->mode == QN_NEAREST ? 1 : 2 - 2 * first;
	t->index = QN_NEW(a, int64_t, out * t->width);
	t->weight = QN_NEW(a, float, out * t->width);
	t->outside = QN_NEW(a, bool, out);
	t->any_outside = false;
	for (int64_t i = 0; i < out; i++) {
		double x = source(r, axis, i, scale, in, out);
		int64_t *index = t->index + i * t->width;
		if (r->coordinates == QN_TF_CROP_AND_RESIZE && (x < 0 || x > (double)(in - 1)))
			t->outside[i] = t->any_outside = true;
		if (r->mode == QN_NEAREST) {
			double at = nearest(r, x);
			*index = at < 0 ? 0 : at > (double)(in - 1) ? in - 1 : (int64_t)at;
			t->weight[i] = 1;
		} else {
			interpolate(r, x, squeeze, in, first, t->width, index, t->weight + i * t->width);
		}
	}
}
