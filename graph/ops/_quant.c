#include "graph/ops/_quant.h"
#include <math.h>

bool qn_quant_range(qn_dtype t, int64_t *low, int64_t *high)
{
	switch (t) {
	case QN_I8: *low = INT8_MIN, *high = INT8_MAX; return true;
	case QN_U8: *low = 0, *high = UINT8_MAX; return true;
	case QN_I16: *low = INT16_MIN, *high = INT16_MAX; return true;
	case QN_U16: *low = 0, *high = UINT16_MAX; return true;
	case QN_I4: *low = -8, *high = 7; return true;
	case QN_U4: *low = 0, *high = 15; return true;
	case QN_I2: *low = -2, *high = 1; return true;
	case QN_U2: *low = 0, *high = 3; return true;
	case QN_I32: *low = INT32_MIN, *high = INT32_MAX; return true;
	default: return false;
	}
}

const float *qn_quant_centered(qn_call *c, const qn_tensor *t, const qn_tensor *zero, int axis, int *bound)
{
	int64_t n = qn_tensor_count(t), inner = 1;
	for (int i = axis + 1; i < t->rank; i++)
		inner *= t->dim[i];
	float *out = QN_NEW(c->scratch, float, n);
	int64_t zeros = zero ? qn_tensor_count(zero) : 0;
	for (int64_t i = 0; i < n; i++) {
		int64_t z = zeros == 0 ? 0 : qn_tensor_get_i64(zero, zeros == 1 ? 0 : i / inner % zeros);
		out[i] = (float)(qn_tensor_get_i64(t, i) - z);
	}
	*bound = 255;
	if (!zeros || (zeros == 1 && qn_tensor_get_i64(zero, 0) == 0))
		*bound = t->type == QN_I8 ? 128 : 255;
	return out;
}

int64_t qn_quantize(float v, float scale, int64_t zero, int64_t low, int64_t high)
{
	double q = nearbyint((double)(v / scale)) + (double)zero; /* the default rounding mode is half to even */
	return q >= (double)high ? high : q > (double)low ? (int64_t)q : low;
}

bool qn_is_single(const qn_shape *s)
{
	for (int i = 0; i < s->rank; i++)
		if (!qn_dim_is(s->dim[i], 1))
			return false;
	return true;
}

qn_status qn_call_quant_check(qn_call *c, int i, const qn_dim *dim)
{
	if (!qn_call_has(c, i) || qn_is_single(&c->in[i].shape))
		return QUERN_OK;
	if (!dim || c->in[i].shape.rank != 1)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "input %d has the shape %s, a scalar%s is needed", i, qn_shape_text(c->scratch, &c->in[i].shape),
			dim ? " or a vector" : "");
	return qn_call_equate(c, c->in[i].shape.dim[0], *dim, "the quantization parameters and their axis");
}

qn_dtype qn_quant_output_type(int64_t onnx_type)
{
	static const qn_dtype types[] = {[2] = QN_U8, [3] = QN_I8, [4] = QN_U16, [5] = QN_I16, [17] = QN_F8E4M3FN, [18] = QN_F8E4M3FNUZ,
		[19] = QN_F8E5M2, [20] = QN_F8E5M2FNUZ, [21] = QN_U4, [22] = QN_I4, [23] = QN_F4E2M1, [25] = QN_U2, [26] = QN_I2};
	return onnx_type > 0 && onnx_type < (int64_t)QN_LEN(types) ? types[onnx_type] : QN_NONE;
}

bool qn_quant_is_float(qn_dtype t)
{
	return qn_dtype_is_small_float(t) && t != QN_F8E8M0;
}

qn_status qn_blocks_infer(qn_call *c)
{
	const qn_shape *x = &c->in[0].shape, *s = &c->in[1].shape;
	int64_t block = qn_node_int(c->node, "block_size", 0);
	if (qn_call_has(c, 2) && !qn_is_single(s) && c->in[2].shape.rank != s->rank)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the scale has rank %d and the zero point rank %d", s->rank, c->in[2].shape.rank);
	if (block < 0)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "block_size is %lld", (long long)block);
	if (qn_is_single(s) && s->rank <= 1)
		return QUERN_OK;
	int axis;
	QN_TRY(qn_call_axis(c, qn_node_int(c->node, "axis", 1), x->rank, &axis));
	if (block == 0)
		return qn_call_quant_check(c, 1, &x->dim[axis]);
	if (s->rank != x->rank)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "scales of blocks have rank %d and the input rank %d", s->rank, x->rank);
	for (int i = 0; i < x->rank; i++) {
		qn_dim want = i == axis ? qn_dim_ceildiv(c->dims, x->dim[i], qn_dim_const(block)) : x->dim[i];
		QN_TRY(qn_call_equate(c, s->dim[i], want, "the scales and their blocks"));
	}
	return QUERN_OK;
}

void qn_blocks_of(const qn_node *n, const qn_tensor *x, const qn_tensor *scale, qn_blocks *b)
{
	*b = (qn_blocks){.inner = 1, .dim = 1};
	if (qn_tensor_count(scale) == 1 && scale->rank <= 1)
		return;
	int64_t axis = qn_node_int(n, "axis", 1), block = qn_node_int(n, "block_size", 0);
	axis += axis < 0 ? x->rank : 0;
	for (int i = (int)axis + 1; i < x->rank; i++)
		b->inner *= x->dim[i];
	b->dim = x->dim[axis];
	b->block = block;
	b->per_index = block == 0;
	b->count = block ? scale->dim[axis] : b->dim;
}

const char *qn_quant_param(qn_emit *e, qn_value *v, const char *label, int rank, int axis)
{
	int64_t dim[QN_MAX_RANK + 1];
	bool single = qn_is_single(&v->fact.shape);
	for (int i = 0; i < rank; i++)
		dim[i] = i == axis && !single ? v->fact.shape.dim[0].k : 1;
	if (v->is_const) {
		const qn_tensor *t;
		if (qn_graph_load(e->graph, v, e->arena, &t) == QUERN_OK) {
			qn_tensor *f = qn_tensor_new(e->arena, QN_F32, rank, dim);
			memcpy((void *)(uintptr_t)f->data, qn_tensor_f32(e->arena, t), qn_tensor_bytes(f));
			return qn_emit_constant(e, label, f);
		}
	}
	const char *x = qn_emit_ref(e, v);
	if (v->fact.type != QN_F32)
		x = qn_emit_temp(e, label, "tract_core_cast(%s, to='f32')", x);
	return qn_emit_temp(e, label, "reshape(%s, shape=%s)", x, qn_emit_ints(e, dim, rank));
}

/* Scales of blocks: the axis of the input becomes two, [blocks, block]. */
static qn_status emit_blocks(qn_emit *e, int axis, int64_t block, qn_quant_parts *p)
{
	const qn_node *n = e->node;
	qn_shape cut = n->in[0]->fact.shape;
	if (cut.rank == QN_MAX_RANK || !qn_dim_is_const(cut.dim[axis]) || cut.dim[axis].k % block)
		return qn_emit_fail(e, "blocks of %lld do not divide axis %d of %s", (long long)block, axis, qn_shape_text(e->arena, &cut));
	memmove(cut.dim + axis + 1, cut.dim + axis, sizeof cut.dim[0] * (size_t)(cut.rank - axis));
	cut.rank++;
	cut.dim[axis] = qn_dim_const(cut.dim[axis].k / block);
	cut.dim[axis + 1] = qn_dim_const(block);
	p->x = qn_emit_temp(e, "blocks", "reshape(%s, shape=%s)", p->x, qn_emit_shape(e, &cut));
	for (int i = 1; i < 3; i++) {
		if (!qn_node_has_in(n, i))
			continue;
		const char *s = qn_emit_ranked(e, n->in[i], n->in[i]->fact.shape.rank);
		if (n->in[i]->fact.type != QN_F32)
			s = qn_emit_temp(e, "wide", "tract_core_cast(%s, to='f32')", s);
		s = qn_emit_temp(e, i == 1 ? "scale" : "zero", "unsqueeze(%s, axes=[%d])", s, axis + 1);
		*(i == 1 ? &p->scale : &p->zero) = s;
	}
	p->blocked = true;
	return QUERN_OK;
}

qn_status qn_quant_emit(qn_emit *e, qn_quant_parts *p)
{
	const qn_node *n = e->node;
	int rank = n->in[0]->fact.shape.rank;
	int64_t axis = qn_node_int(n, "axis", 1), block = qn_node_int(n, "block_size", 0);
	axis += axis < 0 ? rank : 0;
	*p = (qn_quant_parts){.x = qn_emit_ranked(e, n->in[0], rank)};
	if (n->in[0]->fact.type != QN_F32)
		p->x = qn_emit_temp(e, "wide", "tract_core_cast(%s, to='f32')", p->x);
	if (block && n->in[1]->fact.shape.rank == rank)
		return emit_blocks(e, (int)axis, block, p);
	p->scale = qn_quant_param(e, n->in[1], "scale", rank, (int)axis);
	if (qn_node_has_in(n, 2))
		p->zero = qn_quant_param(e, n->in[2], "zero", rank, (int)axis);
	return QUERN_OK;
}
