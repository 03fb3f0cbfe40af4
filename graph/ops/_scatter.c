/* _scatter.c - the reductions of the scatter operators. */
#include "graph/ops/_scatter.h"

static const char *const names[] = {"none", "add", "mul", "min", "max"};

const char *qn_scatter_name(qn_scatter r)
{
	return names[r];
}

qn_status qn_scatter_of(qn_call *c, qn_scatter *out)
{
	const char *s = qn_node_string(c->node, "reduction", "none");
	qn_dtype t = c->in[0].type;
	for (size_t i = 0; i < QN_LEN(names); i++) {
		if (strcmp(s, names[i]))
			continue;
		*out = (qn_scatter)i;
		if (i && !qn_dtype_is_float(t) && !qn_dtype_is_int(t) && !(t == QN_BOOL && i >= QN_SCATTER_MIN))
			QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "there is no reduction '%s' of %s", s, qn_dtype_name(t));
		return QUERN_OK;
	}
	QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "reduction '%s' is not known", s);
}

/* NaN wins, as in numpy. */
static double combine(qn_scatter r, double a, double b)
{
	switch (r) {
	case QN_SCATTER_ADD:
		return a + b;
	case QN_SCATTER_MUL:
		return a * b;
	case QN_SCATTER_MIN:
		return a != a || a < b ? a : b;
	case QN_SCATTER_MAX:
		return a != a || a > b ? a : b;
	default:
		return b;
	}
}

/* Integers wrap around. */
static int64_t combine_i64(qn_scatter r, int64_t a, int64_t b)
{
	switch (r) {
	case QN_SCATTER_ADD:
		return (int64_t)((uint64_t)a + (uint64_t)b);
	case QN_SCATTER_MUL:
		return (int64_t)((uint64_t)a * (uint64_t)b);
	case QN_SCATTER_MIN:
		return a < b ? a : b;
	case QN_SCATTER_MAX:
		return a > b ? a : b;
	default:
		return b;
	}
}

static void apply_f32(qn_scatter r, float *d, const float *s, int64_t n)
{
	if (r == QN_SCATTER_ADD)
		for (int64_t i = 0; i < n; i++)
			d[i] += s[i];
	else
		for (int64_t i = 0; i < n; i++)
			d[i] = (float)combine(r, d[i], s[i]);
}

void qn_scatter_apply(qn_scatter r, qn_dtype type, void *dst, const void *src, int64_t n)
{
	if (r == QN_SCATTER_NONE) {
		memcpy(dst, src, (size_t)n * qn_dtype_size(type));
		return;
	}
	if (type == QN_F32) {
		apply_f32(r, dst, src, n);
		return;
	}
	const qn_tensor a = {type, 1, {n}, dst}, b = {type, 1, {n}, src};
	if (type == QN_I64) {
		for (int64_t i = 0; i < n; i++)
			((int64_t *)dst)[i] = combine_i64(r, ((const int64_t *)dst)[i], ((const int64_t *)src)[i]);
	} else {
		for (int64_t i = 0; i < n; i++)
			qn_tensor_set(dst, type, i, combine(r, qn_tensor_get(&a, i), qn_tensor_get(&b, i)));
	}
}
