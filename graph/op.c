/* op.c - finding rows, and what their rules share. */
#include "graph/op.h"

#include <stdio.h>

static bool domain_is(const char *row, const char *domain)
{
	if (!row)
		row = "";
	if (!strcmp(domain, "ai.onnx"))
		domain = "";
	return !strcmp(row, domain);
}

/* Whether "domain:Name" stands in the row's list of other spellings. */
static bool also_named(const qn_op *op, const char *domain, const char *name)
{
	if (!op->also)
		return false;
	char key[256];
	snprintf(key, sizeof key, "%s:%s", !strcmp(domain, "ai.onnx") ? "" : domain, name);
	size_t n = strlen(key);
	for (const char *p = op->also; (p = strstr(p, key)); p += n)
		if ((p == op->also || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
			return true;
	return false;
}

const qn_op *qn_op_find(const char *domain, const char *name)
{
	for (size_t i = 0; i < qn_n_ops; i++)
		if ((!strcmp(qn_ops[i]->name, name) && domain_is(qn_ops[i]->domain, domain)) || also_named(qn_ops[i], domain, name))
			return qn_ops[i];
	return NULL;
}

bool qn_node_is(const qn_node *n, const char *op)
{
	const char *colon = strchr(op, ':');
	size_t len = colon ? (size_t)(colon - op) : 0;
	const char *domain = n->op->domain ? n->op->domain : "";
	return strlen(domain) == len && !strncmp(domain, op, len) && !strcmp(n->op->name, colon ? colon + 1 : op);
}

qn_status qn_op_fail(qn_call *c, qn_status status, const char *fmt, ...)
{
	char text[2048];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	return qn_fail(c->ctx, status, "node '%s' (%s): %s", c->node->name, c->node->op_type, text);
}

qn_status qn_call_axis(qn_call *c, int64_t axis, int rank, int *out)
{
	if (axis < -rank || axis >= rank)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "axis %lld is out of range for rank %d", (long long)axis, rank);
	*out = (int)(axis < 0 ? axis + rank : axis);
	return QUERN_OK;
}

qn_status qn_call_dims(qn_call *c, int i, const qn_dim **v, int *n)
{
	const qn_tensor *t = qn_call_has(c, i) ? c->in[i].value : NULL;
	*n = -1;
	if (!t)
		return QUERN_OK;
	if (t->rank > 1 || (t->type != QN_DIM && !qn_dtype_is_int(t->type) && t->type != QN_BOOL))
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "input %d must be integers of rank 0 or 1, not %s of rank %d", i, qn_dtype_name(t->type), t->rank);
	int64_t count = qn_tensor_count(t);
	if (count > 4096)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "input %d has %lld items, too many for a list of sizes", i, (long long)count);
	qn_dim *d = QN_NEW(c->scratch, qn_dim, count + 1);
	for (int64_t k = 0; k < count; k++)
		d[k] = t->type == QN_DIM ? ((const qn_dim *)t->data)[k] : qn_dim_const(qn_tensor_get_i64(t, k));
	*v = d;
	*n = (int)count;
	return QUERN_OK;
}

qn_status qn_call_ints(qn_call *c, int i, const int64_t **v, int *n)
{
	const qn_dim *d = NULL;
	QN_TRY(qn_call_dims(c, i, &d, n));
	if (*n < 0)
		return qn_call_data_dependent(c, i, "a list of integers");
	int64_t *out = QN_NEW(c->scratch, int64_t, *n + 1);
	for (int k = 0; k < *n; k++) {
		if (!qn_dim_is_const(d[k]))
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "input %d must be constant, but item %d is '%s'; bind the symbol with --set", i, k,
				qn_dim_text(c->scratch, d[k], NULL, NULL));
		out[k] = d[k].k;
	}
	*v = out;
	return QUERN_OK;
}

qn_status qn_call_ints_attr_or_in(qn_call *c, const char *attr, int i, const int64_t **v, int *n)
{
	*n = -1;
	if (qn_call_has(c, i))
		return qn_call_ints(c, i, v, n);
	const qn_attr *a = qn_node_attr(c->node, attr);
	if (a && a->kind == QN_ATTR_INTS) {
		*v = a->ints;
		*n = (int)a->n;
	}
	return QUERN_OK;
}

qn_status qn_call_data_dependent(qn_call *c, int i, const char *what)
{
	const char *from = i < c->node->n_in && c->node->in[i] ? c->node->in[i]->name : "";
	QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED,
		"%s comes from '%s', whose content depends on the data; export with fixed sizes there or bind a symbol with --set", what, from);
}

qn_status qn_call_equate(qn_call *c, qn_dim a, qn_dim b, const char *what)
{
	if (qn_dim_equate(c->dims, a, b))
		return QUERN_OK;
	const char *try = a.expr || b.expr ? "; where they are equal for the sizes in use, bind those with --set" : "";
	QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%s: %s and %s cannot be equal%s", what, qn_dim_text(c->scratch, a, NULL, NULL),
		qn_dim_text(c->scratch, b, NULL, NULL), try);
}

static qn_status broadcast_axis(qn_call *c, qn_dim a, qn_dim b, int axis, qn_dim *out)
{
	if (qn_dim_equal(a, b) || qn_dim_is(b, 1)) {
		*out = a;
		return QUERN_OK;
	}
	*out = b;
	if (qn_dim_is(a, 1))
		return QUERN_OK;
	char what[64];
	snprintf(what, sizeof what, "operands do not broadcast at axis %d", axis);
	QN_TRY(qn_call_equate(c, a, b, what));
	*out = qn_dim_resolve(c->dims, a);
	return QUERN_OK;
}

qn_status qn_call_broadcast(qn_call *c, const qn_shape *a, const qn_shape *b, qn_shape *out)
{
	qn_shape r = {.rank = a->rank > b->rank ? a->rank : b->rank};
	for (int i = 0; i < r.rank; i++) {
		int ia = i - (r.rank - a->rank), ib = i - (r.rank - b->rank);
		if (ia < 0 || ib < 0)
			r.dim[i] = ia < 0 ? b->dim[ib] : a->dim[ia];
		else
			QN_TRY(broadcast_axis(c, a->dim[ia], b->dim[ib], i, &r.dim[i]));
	}
	*out = r;
	return QUERN_OK;
}

qn_status qn_call_infer(qn_call *c)
{
	for (int i = 0; i < c->node->n_in && !(c->node->op->traits & QN_SMALL); i++)
		if (qn_call_has(c, i) && qn_dtype_is_small(c->in[i].type))
			QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED,
				"input %d is of type %s, which this operator does not take: Cast or DequantizeLinear first", i,
				qn_dtype_name(c->in[i].type));
	return c->node->op->infer(c);
}

qn_status qn_infer_same(qn_call *c)
{
	c->out[0].type = c->in[0].type;
	c->out[0].shape = c->in[0].shape;
	return QUERN_OK;
}

qn_status qn_infer_broadcast(qn_call *c)
{
	c->out[0].type = c->in[0].type;
	c->out[0].shape = c->in[0].shape;
	for (int i = 1; i < c->node->n_in; i++)
		if (qn_call_has(c, i))
			QN_TRY(qn_call_broadcast(c, &c->out[0].shape, &c->in[i].shape, &c->out[0].shape));
	return QUERN_OK;
}

void qn_call_resize(qn_call *c, int i, int rank, const int64_t *dim)
{
	qn_tensor *y = &c->y[i];
	y->rank = rank;
	for (int k = 0; k < rank; k++)
		y->dim[k] = dim[k];
	size_t bytes = qn_tensor_bytes(y);
	y->data = qn_arena_alloc(c->scratch, bytes ? bytes : 1);
}

void qn_broadcast_strides(const qn_tensor *t, int rank, const int64_t *out_dim, int64_t *stride)
{
	int64_t step = 1;
	for (int i = rank - 1; i >= 0; i--) {
		int k = i - (rank - t->rank);
		stride[i] = k < 0 || (t->dim[k] == 1 && out_dim[i] != 1) ? 0 : step;
		if (k >= 0)
			step *= t->dim[k];
	}
}
