/* pad.c - adds elements around a tensor: a constant, its mirror image, its edge, or itself once more. */
#include "graph/ops/_pad.h"

static qn_status read_mode(qn_call *c, qn_pad_mode *mode)
{
	static const char *const names[] = {"constant", "reflect", "edge", "wrap"};
	const char *s = qn_node_string(c->node, "mode", "constant");
	for (size_t i = 0; i < QN_LEN(names); i++)
		if (!strcmp(s, names[i])) {
			*mode = (qn_pad_mode)i;
			return QUERN_OK;
		}
	QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "mode '%s' is not known", s);
}

qn_status qn_pad_read(qn_call *c, qn_pad *p)
{
	QN_TRY(qn_move_need_rank(c, 0));
	QN_TRY(read_mode(c, &p->mode));
	int rank = c->in[0].shape.rank, n_axes = rank, n = 0;
	const int64_t *axes = NULL;
	const qn_dim *d = NULL;
	const qn_attr *a = qn_node_attr(c->node, "pads");
	if (a)
		n = (int)a->n;
	else
		QN_TRY(qn_call_dims(c, 1, &d, &n));
	if (n < 0)
		return qn_call_data_dependent(c, 1, "the list of pads");
	if (qn_call_has(c, 3))
		QN_TRY(qn_call_ints(c, 3, &axes, &n_axes));
	if (n != 2 * n_axes)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%d pads for %d axes", n, n_axes);
	for (int i = 0; i < rank; i++)
		p->low[i] = p->high[i] = qn_dim_const(0);
	for (int i = 0; i < n_axes; i++) {
		int k;
		QN_TRY(qn_call_axis(c, axes ? axes[i] : i, rank, &k));
		p->low[k] = a ? qn_dim_const(a->ints[i]) : d[i];
		p->high[k] = a ? qn_dim_const(a->ints[i + n_axes]) : d[i + n_axes];
	}
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	qn_pad p;
	QN_TRY(qn_pad_read(c, &p));
	const qn_shape *x = &c->in[0].shape;
	c->out[0].type = c->in[0].type;
	c->out[0].shape.rank = x->rank;
	for (int i = 0; i < x->rank; i++) {
		qn_dim d = qn_dim_add(c->dims, x->dim[i], qn_dim_add(c->dims, p.low[i], p.high[i]));
		if (qn_dim_is_const(d) && d.k < 0)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "more than the whole of axis %d would be removed", i);
		if (p.mode != QN_PAD_CONSTANT && qn_dim_is(x->dim[i], 0) && !qn_dim_is(d, 0))
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "axis %d is empty: there is nothing to repeat", i);
		c->out[0].shape.dim[i] = d;
	}
	return QUERN_OK;
}

/* What part of the input stays, moved to its place. */
static void copy_middle(qn_call *c, const qn_pad *p)
{
	const qn_tensor *x = c->x[0], *y = &c->y[0];
	size_t elem = qn_dtype_size(x->type);
	int64_t ss[QN_MAX_RANK], ds[QN_MAX_RANK], dim[QN_MAX_RANK], from = 0, to = 0;
	qn_move_strides(x->rank, x->dim, ss);
	qn_move_strides(x->rank, y->dim, ds);
	for (int i = 0; i < x->rank; i++) {
		int64_t low = p->low[i].k, first = low < 0 ? -low : 0, last = x->dim[i] + (p->high[i].k < 0 ? p->high[i].k : 0);
		dim[i] = last > first ? last - first : 0;
		from += first * ss[i];
		to += (low > 0 ? low : 0) * ds[i];
	}
	if (qn_tensor_count(x) && qn_tensor_count(y))
		qn_move_box(x->rank, dim, (const char *)x->data + (size_t)from * elem, ss, QN_OUT(c, 0, char) + (size_t)to * elem, ds, elem,
			c->threads);
}

static void fill_constant(qn_call *c)
{
	size_t elem = qn_dtype_size(c->y[0].type);
	int64_t n = qn_tensor_count(&c->y[0]);
	if (c->node->n_in > 2 && c->x[2] && qn_tensor_count(c->x[2]) == 1) {
		qn_move_fill(QN_OUT(c, 0, void), c->x[2]->data, elem, n);
	} else if (qn_node_float(c->node, "value", 0) != 0 && n) {
		qn_tensor_set(QN_OUT(c, 0, void), c->y[0].type, 0, qn_node_float(c->node, "value", 0));
		qn_move_fill(QN_OUT(c, 0, char) + elem, QN_OUT(c, 0, char), elem, n - 1);
	}
}

/* Where element i of a padded axis comes from. */
static int64_t source(qn_pad_mode mode, int64_t i, int64_t size)
{
	if (mode == QN_PAD_EDGE)
		return i < 0 ? 0 : i >= size ? size - 1 : i;
	int64_t period = mode == QN_PAD_WRAP ? size : 2 * (size - 1);
	if (period <= 0)
		return 0;
	i %= period;
	i += i < 0 ? period : 0;
	return i < size ? i : period - i;
}

static void copy_mapped(qn_call *c, const qn_pad *p)
{
	const qn_tensor *x = c->x[0], *y = &c->y[0];
	int64_t *map[QN_MAX_RANK], stride[QN_MAX_RANK], at[QN_MAX_RANK] = {0}, n = qn_tensor_count(y);
	size_t elem = qn_dtype_size(x->type);
	qn_move_strides(x->rank, x->dim, stride);
	for (int k = 0; k < x->rank; k++) {
		map[k] = QN_NEW(c->scratch, int64_t, y->dim[k] + 1);
		for (int64_t i = 0; i < y->dim[k]; i++)
			map[k][i] = source(p->mode, i - p->low[k].k, x->dim[k]) * stride[k];
	}
	for (int64_t i = 0; i < n; i++) {
		int64_t from = 0;
		for (int k = 0; k < x->rank; k++)
			from += map[k][at[k]];
		memcpy(QN_OUT(c, 0, char) + (size_t)i * elem, (const char *)x->data + (size_t)from * elem, elem);
		for (int k = x->rank - 1; k >= 0 && ++at[k] == y->dim[k]; k--)
			at[k] = 0;
	}
}

static qn_status eval(qn_call *c)
{
	qn_pad p;
	QN_TRY(qn_pad_read(c, &p));
	if (p.mode == QN_PAD_CONSTANT) {
		fill_constant(c);
		copy_middle(c, &p);
	} else {
		copy_mapped(c, &p);
	}
	return QUERN_OK;
}

const qn_op qn_op_pad = {.name = "Pad",
	.also = "com.microsoft:Pad",
	.since = 2,
	.min_in = 1,
	.max_in = 4,
	.dims_in = 5,
	.infer = infer,
	.eval = eval,
	.emit = qn_pad_emit};
