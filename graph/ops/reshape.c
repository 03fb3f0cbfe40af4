/* reshape.c - the same elements under another shape.
 *
 * Factors that the old and the new shape share are cancelled before anything is divided: so -1 is an exact quotient wherever a
 * person would see one, also beside an axis of size 0. */
#include "graph/ops/_move.h"

/* Both lists without what they share. */
static void cancel(qn_dim *a, int *na, qn_dim *b, int *nb)
{
	for (int i = 0; i < *na; i++)
		for (int j = 0; j < *nb; j++)
			if (qn_dim_equal(a[i], b[j])) {
				a[i--] = a[--*na];
				b[j] = b[--*nb];
				break;
			}
}

static qn_dim product(qn_dims *t, const qn_dim *d, int n)
{
	qn_dim p = qn_dim_const(1);
	for (int i = 0; i < n; i++)
		p = qn_dim_mul(t, p, d[i]);
	return p;
}

/* [a, b] to [c, -1] with three unrelated symbols: nobody divides a * b by c, so a is c under another name. Exporters name the same size
 * anew for each input. Not so where nothing would be left to divide: [n] to [c, -1] may be any split. */
static bool pair_symbols(qn_call *c, const qn_shape *to, int minus)
{
	const qn_shape *from = &c->in[0].shape;
	if (from->rank != to->rank || minus <= 0 || qn_dim_is_const(from->dim[minus]))
		return false;
	bool paired = false;
	for (int i = 0; i < minus; i++) {
		qn_dim a = from->dim[i], b = to->dim[i];
		if (qn_dim_is_const(a) || qn_dim_is_const(b) || qn_dim_equal(a, b) || qn_dim_eq(c->dims, a, b) != QN_UNDECIDED)
			continue;
		paired |= qn_dim_equate(c->dims, a, b);
	}
	return paired;
}

static qn_status find_rest(qn_call *c, qn_dim have, qn_dim want, qn_dim *q)
{
	const char *h = qn_dim_text(c->scratch, have, NULL, NULL), *w = qn_dim_text(c->scratch, want, NULL, NULL);
	if (qn_dim_is(want, 0)) {
		if (!qn_dim_is(have, 0))
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "-1 stands beside a size of 0, but there are %s elements", h);
		*q = qn_dim_const(0);
		return QUERN_OK;
	}
	if (qn_dim_exact_div(c->dims, have, want, q))
		return QUERN_OK;
	if (qn_dim_is_const(have) && qn_dim_is_const(want))
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%s elements cannot be split into rows of %s", h, w);
	*q = qn_dim_floordiv(c->dims, have, want);
	qn_log(c->ctx, QUERN_LOG_DEBUG, "node '%s' (%s): -1 is taken to be %s / %s, which must be exact", c->node->name, c->node->op_type,
		h, w);
	return QUERN_OK;
}

static qn_status check_count(qn_call *c, qn_dim have, qn_dim want)
{
	qn_tristate same = qn_dim_eq(c->dims, have, want);
	if (same == QN_FALSE)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "%s cannot become %s: the element counts differ", qn_shape_text(c->scratch, &c->in[0].shape),
			qn_shape_text(c->scratch, &c->out[0].shape));
	if (same == QN_UNDECIDED && !qn_dim_is(have, 0) && !qn_dim_is(want, 0) && !qn_dim_equate(c->dims, have, want))
		qn_log(c->ctx, QUERN_LOG_DEBUG, "node '%s' (%s): %s and %s must be equal", c->node->name, c->node->op_type,
			qn_dim_text(c->scratch, have, NULL, NULL), qn_dim_text(c->scratch, want, NULL, NULL));
	return QUERN_OK;
}

/* Fills in zeros; *minus is the axis of -1, or -1. */
static qn_status read_target(qn_call *c, const qn_dim *target, int n, qn_shape *out, int *minus)
{
	const qn_shape *in = &c->in[0].shape;
	bool allow_zero = qn_node_int(c->node, "allowzero", 0) != 0;
	*minus = -1;
	out->rank = n;
	for (int i = 0; i < n; i++) {
		out->dim[i] = target[i];
		if (qn_dim_is(target[i], 0) && !allow_zero) {
			if (i >= in->rank)
				QN_OP_FAIL(c, QUERN_ERR_SHAPE, "target %d copies an axis that the input of rank %d does not have", i,
					in->rank);
			out->dim[i] = in->dim[i];
		} else if (qn_dim_is(target[i], -1)) {
			if (*minus >= 0)
				QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the target has more than one -1");
			*minus = i;
		} else if (qn_dim_is_const(target[i]) && target[i].k < 0) {
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the target has a size of %lld", (long long)target[i].k);
		}
	}
	return QUERN_OK;
}

/* The products of the factors that the shapes do not share, -1 left out. */
static void quotient(qn_call *c, const qn_shape *to, int minus, qn_dim *have, qn_dim *want)
{
	qn_dim h[QN_MAX_RANK], w[QN_MAX_RANK];
	int n_have = c->in[0].shape.rank, n_want = 0;
	for (int i = 0; i < n_have; i++)
		h[i] = qn_dim_resolve(c->dims, c->in[0].shape.dim[i]);
	for (int i = 0; i < to->rank; i++)
		if (i != minus)
			w[n_want++] = qn_dim_resolve(c->dims, to->dim[i]);
	cancel(h, &n_have, w, &n_want);
	*have = product(c->dims, h, n_have);
	*want = product(c->dims, w, n_want);
}

static qn_status infer(qn_call *c)
{
	QN_TRY(qn_move_need_rank(c, 0));
	const qn_dim *target = NULL;
	int n = -1;
	QN_TRY(qn_call_dims(c, 1, &target, &n));
	if (n < 0)
		return qn_call_data_dependent(c, 1, "the target shape");
	if (n > QN_MAX_RANK)
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "the target has rank %d, more than %d", n, QN_MAX_RANK);
	qn_fact *y = &c->out[0];
	y->type = c->in[0].type;
	int minus;
	qn_dim have, want, exact;
	QN_TRY(read_target(c, target, n, &y->shape, &minus));
	quotient(c, &y->shape, minus, &have, &want);
	if (minus < 0) {
		QN_TRY(check_count(c, have, want));
	} else {
		if (!qn_dim_is(want, 0) && !qn_dim_exact_div(c->dims, have, want, &exact) && pair_symbols(c, &y->shape, minus))
			quotient(c, &y->shape, minus, &have, &want);
		QN_TRY(find_rest(c, have, want, &y->shape.dim[minus]));
	}
	qn_move_know_empty(c, 0);
	return QUERN_OK;
}

const qn_op qn_op_reshape = {.name = "Reshape",
	.since = 5,
	.min_in = 2,
	.max_in = 2,
	.traits = QN_LAYOUT | QN_KEEPS_WEIGHT | QN_SMALL,
	.dims_in = 1,
	.infer = infer,
	.eval = qn_move_copy_eval,
	.emit = qn_move_emit_reshape};
