#include "graph/ops/_gemm.h"
#include "graph/ops/_resize.h"
#include <math.h>

static qn_status read_call(qn_call *c, int scales, int sizes, int roi, qn_resize *r)
{
	bool has_sizes = sizes >= 0 && qn_call_has(c, sizes), known = !has_sizes || c->in[sizes].value;
	if (!known)
		return qn_call_data_dependent(c, sizes, "the size to resize to");
	if (!has_sizes && scales >= 0 && qn_call_has(c, scales) && !c->in[scales].value)
		return qn_call_data_dependent(c, scales, "the scale to resize by");
	const char *why = qn_resize_read(c->scratch, c->dims, c->node, c->in, scales, sizes, roi, r);
	if (why)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%s", why);
	return QUERN_OK;
}

qn_status qn_resize_infer(qn_call *c, int scales, int sizes, int roi)
{
	qn_resize r;
	QN_TRY(read_call(c, scales, sizes, roi, &r));
	c->out[0].type = c->in[0].type;
	c->out[0].shape.rank = r.rank;
	for (int i = 0; i < r.rank; i++) {
		c->out[0].shape.dim[i] = r.out[i];
		if (qn_dim_is(r.in[i], 0) && !qn_dim_is(r.out[i], 0))
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "axis %d has no elements to resize", i);
	}
	return QUERN_OK;
}

/* One axis: [outer, in, inner] -> [outer, out, inner], elements of any type moved. */
static char *move(qn_call *c, const qn_taps *t, const char *x, int64_t outer, int64_t in, size_t inner)
{
	char *y = qn_arena_array(c->scratch, (size_t)(outer * t->out), inner);
	for (int64_t i = 0; i < outer * t->out; i++)
		memcpy(y + (size_t)i * inner, x + (size_t)(i / t->out * in + t->index[i % t->out]) * inner, inner);
	return y;
}

/* The same, interpolated. */
static float *resample(qn_call *c, const qn_taps *t, const float *x, int64_t outer, int64_t in, int64_t inner)
{
	float *y = QN_NEW(c->scratch, float, outer * t->out * inner);
	int threads = qn_threads_for(c->threads, (double)(outer * t->out * inner * t->width));
#pragma omp parallel for num_threads(threads) if (threads > 1)
	for (int64_t i = 0; i < outer * t->out; i++) {
		const int64_t *index = t->index + i % t->out * t->width;
		const float *weight = t->weight + i % t->out * t->width, *from = x + i / t->out * in * inner;
		float *to = y + i * inner;
		for (int64_t k = 0; k < t->width; k++)
			for (int64_t j = 0; weight[k] != 0 && j < inner; j++)
				to[j] += weight[k] * from[index[k] * inner + j];
	}
	return y;
}

/* Elements that any axis maps outside the region get the extrapolation value. */
static void fill_outside(const qn_tensor *t, int axis, const qn_taps *taps, double value)
{
	int64_t inner = 1, outer = 1;
	for (int i = 0; i < t->rank; i++)
		*(i < axis ? &outer : &inner) *= i == axis ? 1 : t->dim[i];
	for (int64_t i = 0; i < outer * taps->out; i++)
		for (int64_t j = 0; taps->outside[i % taps->out] && j < inner; j++)
			qn_tensor_set((void *)(uintptr_t)t->data, t->type, i * inner + j, value);
}

qn_status qn_resize_eval(qn_call *c, int scales, int sizes, int roi)
{
	qn_resize r;
	QN_TRY(read_call(c, scales, sizes, roi, &r));
	const qn_tensor *x = c->x[0], *y = &c->y[0];
	int64_t dim[QN_MAX_RANK], count = qn_tensor_count(y);
	qn_taps taps[QN_MAX_RANK];
	bool nearest = r.mode == QN_NEAREST;
	size_t size = nearest ? qn_dtype_size(x->type) : sizeof(float);
	const void *at = nearest ? x->data : qn_tensor_f32(c->scratch, x);
	memcpy(dim, x->dim, sizeof dim);
	for (int axis = 0; axis < r.rank && count; axis++) {
		if (!qn_resize_active(&r, axis))
			continue;
		int64_t outer = 1, inner = 1;
		for (int i = 0; i < r.rank; i++)
			*(i < axis ? &outer : &inner) *= i == axis ? 1 : dim[i];
		qn_resize_taps(c->scratch, &r, axis, x->dim[axis], y->dim[axis], &taps[axis]);
		if (nearest)
			at = move(c, &taps[axis], at, outer, dim[axis], (size_t)inner * size);
		else
			at = resample(c, &taps[axis], at, outer, dim[axis], inner);
		dim[axis] = y->dim[axis];
	}
	void *out = QN_OUT(c, 0, void);
	if (nearest || y->type == QN_F32)
		memcpy(out, at, (size_t)count * size);
	else if (qn_dtype_is_int(y->type)) /* interpolated integers are rounded */
		for (int64_t i = 0; i < count; i++)
			qn_tensor_set(out, y->type, i, (double)nearbyintf(((const float *)at)[i]));
	else
		qn_convert(at, QN_F32, out, y->type, count);
	for (int axis = 0; axis < r.rank && count; axis++)
		if (qn_resize_active(&r, axis) && taps[axis].any_outside)
			fill_outside(y, axis, &taps[axis], r.extrapolation);
	return QUERN_OK;
}
