#include "graph/ops/_build.h"
#include <stdio.h>

qn_status qn_build_fail(const qn_build *b, qn_status status, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	const char *text = qn_arena_vprintf(b->g->arena, fmt, args);
	va_end(args);
	return qn_fail(b->g->ctx, status, "node '%s' (%s): %s", b->n->name, b->n->op_type, text);
}

void qn_build_note(const qn_build *b, const char *text)
{
	for (const qn_node *n = b->n->next; n; n = n->next)
		if (n->op == b->n->op)
			return;
	qn_log(b->g->ctx, QUERN_LOG_INFO, "%s: %s", b->n->op_type, text);
}

/* The text of one crossed limit, or NULL. */
static const char *crossed(const qn_build *b, const qn_limit *l)
{
	switch (l->kind) {
	case QN_LIMIT_ATTR: {
		const qn_attr *a = qn_node_attr(b->n, l->name);
		if (!a)
			return NULL;
		if (a->kind == QN_ATTR_STRING)
			return strcmp(a->s, "NONE") == 0 ? NULL : qn_arena_printf(b->g->arena, "attribute '%s' = '%s'", l->name, a->s);
		double v = a->kind == QN_ATTR_FLOAT ? (double)a->f : (double)a->i;
		return v == l->allowed ? NULL : qn_arena_printf(b->g->arena, "attribute '%s' = %g", l->name, v);
	}
	case QN_LIMIT_INPUT:
		return qn_build_in(b, l->index) ? qn_arena_printf(b->g->arena, "input '%s'", l->name) : NULL;
	case QN_LIMIT_OUTPUT:
		return qn_build_wants(b, l->index) ? qn_arena_printf(b->g->arena, "output '%s'", l->name) : NULL;
	}
	return NULL;
}

qn_status qn_build_refuse(const qn_build *b, const qn_limit *limits, size_t n)
{
	qn_text list = {.arena = b->g->arena};
	for (size_t i = 0; i < n; i++) {
		const char *what = crossed(b, &limits[i]);
		if (what)
			qn_text_add(&list, "%s%s", list.len ? ", " : "", what);
	}
	if (!list.len)
		return QUERN_OK;
	return qn_build_fail(b, QUERN_ERR_UNSUPPORTED, "not supported here: %s; export the model without", list.s);
}

bool qn_build_wants(const qn_build *b, int i)
{
	return qn_node_has_out(b->n, i) && (b->n->out[i]->n_uses > 0 || b->n->out[i]->is_output);
}

void qn_build_give(const qn_build *b, int i, qn_value *v)
{
	if (qn_node_has_out(b->n, i))
		qn_value_replace(b->g, b->n->out[i], v);
}

qn_status qn_build_rank(const qn_build *b, int i, const char *what, int low, int high)
{
	qn_value *v = qn_build_in(b, i);
	if (!v)
		return qn_build_fail(b, QUERN_ERR_FORMAT, "input '%s' is missing", what);
	int rank = v->fact.shape.rank;
	if (rank < low || rank > high)
		return qn_build_fail(b, QUERN_ERR_SHAPE, "input '%s' ('%s') has rank %d, expected %d%s", what, v->name, rank, low,
			low == high ? "" : qn_arena_printf(b->g->arena, " to %d", high));
	return QUERN_OK;
}

qn_status qn_build_need(const qn_build *b, int n)
{
	for (int i = 0; i < n; i++)
		if (!qn_build_in(b, i))
			return qn_build_fail(b, QUERN_ERR_FORMAT, "input %d is missing", i);
	return QUERN_OK;
}

qn_status qn_build_attr(const qn_build *b, const char *name, int64_t otherwise, int64_t low, int64_t high, int64_t *out)
{
	*out = qn_node_int(b->n, name, otherwise);
	if (*out >= low && *out <= high)
		return QUERN_OK;
	return qn_build_fail(b, QUERN_ERR_FORMAT, "attribute '%s' is %lld, expected %lld to %lld", name, (long long)*out, (long long)low,
		(long long)high);
}

qn_status qn_build_known(const qn_build *b, qn_dim d, const char *what, int64_t *out)
{
	if (!qn_dim_is_const(d))
		return qn_build_fail(b, QUERN_ERR_SHAPE, "%s is '%s', which is not fixed; bind it with --set", what,
			qn_dim_text(b->g->arena, d, NULL, NULL));
	if (d.k > QN_BUILD_MOST)
		return qn_build_fail(b, QUERN_ERR_SHAPE, "%s is %lld, too large to be true", what, (long long)d.k);
	*out = d.k;
	return QUERN_OK;
}

/* --- constants ------------------------------------------------------------------------------------------ */

static const char *name_of(const qn_build *b, const char *label)
{
	return qn_arena_printf(b->g->arena, "%s/%s", b->n->name, label);
}

qn_value *qn_build_ints(const qn_build *b, const char *label, const int64_t *v, int n)
{
	return qn_graph_const(b->g, name_of(b, label), qn_tensor_i64s(b->g->arena, v, n));
}

static qn_value *dims_const(const qn_build *b, const char *label, const qn_dim *v, int n, int rank)
{
	bool fixed = true;
	for (int i = 0; i < n; i++)
		fixed = fixed && qn_dim_is_const(v[i]);
	int64_t count = n;
	qn_tensor *t = qn_tensor_new(b->g->arena, fixed ? QN_I64 : QN_DIM, rank, &count);
	for (int i = 0; i < n; i++) {
		if (fixed)
			((int64_t *)(uintptr_t)t->data)[i] = v[i].k;
		else
			((qn_dim *)(uintptr_t)t->data)[i] = v[i];
	}
	return qn_graph_const(b->g, name_of(b, label), t);
}

qn_value *qn_build_dims(const qn_build *b, const char *label, const qn_dim *v, int n)
{
	return dims_const(b, label, v, n, 1);
}

qn_value *qn_build_dim(const qn_build *b, const char *label, qn_dim v)
{
	return dims_const(b, label, &v, 1, 0);
}

qn_value *qn_build_number(const qn_build *b, const char *label, qn_dtype type, double v)
{
	qn_tensor *t = qn_tensor_new(b->g->arena, type, 0, NULL);
	qn_tensor_set((void *)(uintptr_t)t->data, type, 0, v);
	return qn_graph_const(b->g, name_of(b, label), t);
}

/* --- operators ------------------------------------------------------------------------------------------- */

qn_value *qn_build_op1(const qn_build *b, const char *op, const char *label, qn_value *x)
{
	return qn_graph_apply(b->g, b->n, op, name_of(b, label), &x, 1);
}

qn_value *qn_build_op2(const qn_build *b, const char *op, const char *label, qn_value *x, qn_value *y)
{
	qn_value *in[] = {x, y};
	return qn_graph_apply(b->g, b->n, op, name_of(b, label), in, 2);
}

qn_value *qn_build_op3(const qn_build *b, const char *op, const char *label, qn_value *x, qn_value *y, qn_value *z)
{
	qn_value *in[] = {x, y, z};
	return qn_graph_apply(b->g, b->n, op, name_of(b, label), in, 3);
}

qn_value *qn_build_with(const qn_build *b, const char *op, const char *label, qn_value *x, qn_dtype type, double v)
{
	const char *number = qn_arena_printf(b->g->arena, "%s.by", label);
	return qn_build_op2(b, op, label, x, qn_build_number(b, number, type, v));
}

qn_value *qn_build_reshape(const qn_build *b, const char *label, qn_value *x, const int64_t *dim, int rank)
{
	return qn_build_op2(b, "Reshape", label, x, qn_build_ints(b, qn_arena_printf(b->g->arena, "%s.shape", label), dim, rank));
}

qn_value *qn_build_transpose(const qn_build *b, const char *label, qn_value *x, const int64_t *perm, int rank)
{
	qn_value *y = qn_build_op1(b, "Transpose", label, x);
	qn_node_set_ints(b->g, y->producer, "perm", perm, (size_t)rank);
	return y;
}

qn_value *qn_build_unsqueeze(const qn_build *b, const char *label, qn_value *x, int64_t axis)
{
	return qn_build_op2(b, "Unsqueeze", label, x, qn_build_ints(b, qn_arena_printf(b->g->arena, "%s.axes", label), &axis, 1));
}

qn_value *qn_build_squeeze(const qn_build *b, const char *label, qn_value *x, int64_t axis)
{
	return qn_build_op2(b, "Squeeze", label, x, qn_build_ints(b, qn_arena_printf(b->g->arena, "%s.axes", label), &axis, 1));
}

qn_value *qn_build_slice(const qn_build *b, const char *label, qn_value *x, int64_t axis, qn_dim start, qn_dim end)
{
	qn_arena *a = b->g->arena;
	qn_value *in[] = {x, qn_build_dims(b, qn_arena_printf(a, "%s.from", label), &start, 1),
		qn_build_dims(b, qn_arena_printf(a, "%s.to", label), &end, 1),
		qn_build_ints(b, qn_arena_printf(a, "%s.axes", label), &axis, 1)};
	return qn_graph_apply(b->g, b->n, "Slice", name_of(b, label), in, 4);
}

qn_value *qn_build_concat(const qn_build *b, const char *label, int64_t axis, qn_value *x, qn_value *y)
{
	qn_value *out = qn_build_op2(b, "Concat", label, x, y);
	qn_node_set_int(b->g, out->producer, "axis", axis);
	return out;
}

void qn_build_split(const qn_build *b, const char *label, qn_value *x, int64_t axis, const int64_t *sizes, int n, qn_value **out)
{
	qn_value *in[] = {x, qn_build_ints(b, qn_arena_printf(b->g->arena, "%s.sizes", label), sizes, n)};
	qn_node *split = qn_graph_node(b->g, b->n, qn_op_find("", "Split"), name_of(b, label), in, 2, n);
	qn_node_set_int(b->g, split, "axis", axis);
	for (int i = 0; i < n; i++)
		out[i] = split->out[i];
}

/* ONNX's number of an element type. */
static int64_t onnx_code(qn_dtype t)
{
	static const int8_t codes[QN_DTYPE_COUNT] = {[QN_F32] = 1, [QN_U8] = 2, [QN_I8] = 3, [QN_U16] = 4, [QN_I16] = 5, [QN_I32] = 6,
		[QN_I64] = 7, [QN_BOOL] = 9, [QN_F16] = 10, [QN_F64] = 11, [QN_U32] = 12, [QN_U64] = 13, [QN_BF16] = 16,
		[QN_F8E4M3FN] = 17, [QN_F8E4M3FNUZ] = 18, [QN_F8E5M2] = 19, [QN_F8E5M2FNUZ] = 20, [QN_U4] = 21, [QN_I4] = 22, [QN_F4E2M1] = 23,
		[QN_F8E8M0] = 24, [QN_U2] = 25, [QN_I2] = 26};
	return codes[t];
}

qn_value *qn_build_cast(const qn_build *b, const char *label, qn_value *x, qn_dtype to)
{
	qn_value *y = qn_build_op1(b, "Cast", label, x);
	qn_node_set_int(b->g, y->producer, "to", onnx_code(to));
	return y;
}

qn_value *qn_build_softmax(const qn_build *b, const char *label, qn_value *x)
{
	qn_value *y = qn_build_op1(b, "Softmax", label, x);
	qn_node_set_int(b->g, y->producer, "axis", -1);
	return y;
}

qn_value *qn_build_range(const qn_build *b, const char *label, qn_dim start, qn_dim end)
{
	qn_arena *a = b->g->arena;
	return qn_build_op3(b, "Range", label, qn_build_dim(b, qn_arena_printf(a, "%s.from", label), start),
		qn_build_dim(b, qn_arena_printf(a, "%s.to", label), end),
		qn_build_dim(b, qn_arena_printf(a, "%s.step", label), qn_dim_const(1)));
}

qn_value *qn_build_full(const qn_build *b, const char *label, qn_dtype type, double v, const qn_dim *dim, int rank)
{
	qn_arena *a = b->g->arena;
	qn_value *number = qn_build_number(b, qn_arena_printf(a, "%s.value", label), type, v);
	return qn_build_op2(b, "Expand", label, number, qn_build_dims(b, qn_arena_printf(a, "%s.shape", label), dim, rank));
}

qn_value *qn_build_norm(const qn_build *b, const char *label, qn_value *x, qn_value *gamma, qn_value *beta, bool rms, float epsilon)
{
	qn_value *y = !rms && beta ? qn_build_op3(b, "LayerNormalization", label, x, gamma, beta)
				   : qn_build_op2(b, rms ? "RMSNormalization" : "LayerNormalization", label, x, gamma);
	qn_node_set_int(b->g, y->producer, "axis", -1);
	qn_node_set_float(b->g, y->producer, "epsilon", epsilon);
	return y;
}

qn_status qn_build_activation(const qn_build *b, qn_value *x, qn_value **out)
{
	/* the attributes of each by ONNX, in the order of activation_alpha, activation_beta, activation_gamma */
	static const struct {
		const char *name, *attr[2];
	} known[] = {
		{"Relu", {NULL}},
		{"Sigmoid", {NULL}},
		{"Tanh", {NULL}},
		{"Softplus", {NULL}},
		{"Softsign", {NULL}},
		{"HardSwish", {NULL}},
		{"LeakyRelu", {"alpha"}},
		{"Elu", {"alpha"}},
		{"ThresholdedRelu", {"alpha"}},
		{"HardSigmoid", {"alpha", "beta"}},
	};
	const char *name = qn_node_string(b->n, "activation", "");
	*out = x;
	if (!*name)
		return QUERN_OK;
	for (size_t i = 0; i < QN_LEN(known); i++) {
		if (strcmp(known[i].name, name) != 0 || !qn_op_find("", name))
			continue;
		*out = qn_build_op1(b, name, "activation", x);
		for (int k = 0; k < 2 && known[i].attr[k]; k++) {
			const qn_attr *a = qn_node_attr(b->n, k ? "activation_beta" : "activation_alpha");
			if (a)
				qn_node_set_float(b->g, (*out)->producer, known[i].attr[k], a->f);
		}
		return QUERN_OK;
	}
	return qn_build_fail(b, QUERN_ERR_UNSUPPORTED, "attribute 'activation' = '%s' is not supported", name);
}
