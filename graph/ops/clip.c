#include "graph/ops/_zip.h"

/* The bounds are inputs since opset 11 and were attributes before; an absent one does not bound. When they cross, the upper one wins. */
QN_ZIP_KERNEL(low_f32, float, float, a < b ? b : a)
QN_ZIP_KERNEL(low_f64, double, double, a < b ? b : a)
QN_ZIP_KERNEL(low_i64, int64_t, int64_t, qn_int_less(a, b, u) ? b : a)
QN_ZIP_KERNEL(high_f32, float, float, a > b ? b : a)
QN_ZIP_KERNEL(high_f64, double, double, a > b ? b : a)
QN_ZIP_KERNEL(high_i64, int64_t, int64_t, qn_int_less(b, a, u) ? b : a)

static bool dim_low(qn_call *c, qn_dim a, qn_dim b, qn_dim *y)
{
	*y = qn_dim_max(c->dims, a, b);
	return true;
}

static bool dim_high(qn_call *c, qn_dim a, qn_dim b, qn_dim *y)
{
	*y = qn_dim_min(c->dims, a, b);
	return true;
}

static const qn_zip bounds[] = {
	{.kernel = {low_f32, low_f64, low_i64}, .dim = dim_low},
	{.kernel = {high_f32, high_f64, high_i64}, .dim = dim_high},
};
static const char *const names[] = {"min", "max"};

/* Bound i (0 lower, 1 upper) as a tensor, or NULL. */
static const qn_tensor *bound(qn_call *c, int i)
{
	if (qn_call_has(c, i + 1))
		return c->x[i + 1];
	if (!qn_node_attr(c->node, names[i]))
		return NULL;
	qn_tensor *t = qn_tensor_new(c->scratch, c->x[0]->type, 0, NULL);
	qn_tensor_set((void *)(uintptr_t)t->data, t->type, 0, (double)qn_node_float(c->node, names[i], 0.0f));
	return t;
}

static qn_status dims_eval(qn_call *c)
{
	int64_t n = qn_tensor_count(c->x[0]);
	qn_dim *y = QN_OUT(c, 0, qn_dim);
	for (int64_t i = 0; i < n; i++)
		if (!qn_tensor_dim(c->x[0], i, &y[i]))
			c->undecided = true;
	for (int k = 0; k < 2; k++) {
		qn_dim b;
		if (!qn_call_has(c, k + 1))
			continue;
		if (!qn_tensor_dim(c->x[k + 1], 0, &b))
			c->undecided = true;
		for (int64_t i = 0; i < n && !c->undecided; i++)
			bounds[k].dim(c, y[i], b, &y[i]);
	}
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	if (c->y[0].type == QN_DIM)
		return dims_eval(c);
	const qn_tensor *x = c->x[0];
	for (int i = 0; i < 2; i++) {
		const qn_tensor *b = bound(c, i);
		if (b && qn_tensor_count(b) != 1)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the bound '%s' must be one number", names[i]);
		if (!b)
			continue;
		qn_tensor scalar = *b;
		scalar.rank = 0;
		QN_TRY(qn_zip_tensors(c, &bounds[i], x, &scalar, &c->y[0]));
		x = &c->y[0];
	}
	size_t bytes = qn_tensor_bytes(x);
	if (x == c->x[0] && bytes)
		memcpy(QN_OUT(c, 0, void), x->data, bytes);
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	static const char *const verbs[] = {"max", "min"};
	const char *x = qn_emit_ref(e, e->node->in[0]);
	for (int i = 0; i < 2; i++) {
		const qn_attr *a = qn_node_attr(e->node, names[i]);
		const char *b = NULL;
		if (qn_node_has_in(e->node, i + 1))
			b = qn_emit_ranked(e, e->node->in[i + 1], e->node->out[0]->fact.shape.rank);
		else if (a)
			b = qn_emit_float(e, (double)a->f);
		if (b)
			x = qn_arena_printf(e->arena, "%s(%s, %s)", verbs[i], x, b);
	}
	if (strchr(x, '('))
		qn_emit_output(e, 0, "%s", x);
	else
		qn_emit_output(e, 0, "copy(%s)", x);
	return QUERN_OK;
}

const qn_op qn_op_clip = {
	.name = "Clip",
	.min_in = 1,
	.max_in = 3,
	.traits = QN_ELEMENTWISE,
	.dims_in = 7,
	.infer = qn_infer_same,
	.eval = eval,
	.emit = emit,
};
