/* Masks of fused attention. Positions meet as differences of floats, never as two ranges compared with each other: the engine gets the
 * latter wrong when both have symbolic lengths. */
#include "graph/ops/_attention.h"

qn_value *qn_attention_both(const qn_build *b, qn_value *x, qn_value *y)
{
	if (!x || !y)
		return x ? x : y;
	return qn_build_op2(b, "And", "allow", x, y);
}

qn_value *qn_attention_sum(const qn_build *b, const char *label, qn_value *x, qn_value *y)
{
	if (!x || !y)
		return x ? x : y;
	return qn_build_op2(b, "Add", label, x, y);
}

static qn_value *band_edge(const qn_build *b, const char *label, qn_value *x, qn_dim k, bool upper)
{
	x = qn_build_op2(b, "Trilu", label, x, qn_build_dim(b, qn_arena_printf(b->g->arena, "%s.k", label), k));
	qn_node_set_int(b->g, x->producer, "upper", upper);
	return x;
}

qn_value *qn_attention_band(const qn_build *b, qn_dim queries, qn_dim keys, qn_dim past, int64_t left, int64_t right)
{
	if (left < 0 && right < 0)
		return NULL;
	const qn_dim shape[] = {queries, keys};
	qn_value *x = qn_build_full(b, "band.ones", QN_F32, 1, shape, 2);
	if (right >= 0)
		x = band_edge(b, "band.right", x, qn_dim_add(b->g->dims, past, qn_dim_const(right)), false);
	if (left >= 0)
		x = band_edge(b, "band.left", x, qn_dim_sub(b->g->dims, past, qn_dim_const(left)), true);
	return qn_build_with(b, "Greater", "band", x, QN_F32, 0.5);
}

/* 0, 1, ... as floats, [n]. */
static qn_value *count(const qn_build *b, const char *label, qn_dim n)
{
	return qn_build_cast(b, label, qn_build_range(b, qn_arena_printf(b->g->arena, "%s.range", label), qn_dim_const(0), n), QN_F32);
}

/* An integer vector [B] as floats [B, 1, 1, 1]. */
static qn_value *column(const qn_build *b, const char *label, qn_value *x)
{
	const int64_t shape[] = {-1, 1, 1, 1};
	return qn_build_reshape(b, label, qn_build_cast(b, qn_arena_printf(b->g->arena, "%s.float", label), x, QN_F32), shape, 4);
}

qn_value *qn_attention_between(const qn_build *b, qn_value *from, qn_value *to, qn_dim keys)
{
	qn_value *j = count(b, "keys", keys);
	qn_value *left = qn_build_op2(b, "Sub", "keys.left", column(b, "ends", to), j);
	qn_value *allow = qn_build_with(b, "Greater", "keys.before", left, QN_F32, 0.5);
	if (!from)
		return allow;
	qn_value *gone = qn_build_op2(b, "Sub", "keys.gone", j, column(b, "starts", from));
	return qn_attention_both(b, allow, qn_build_with(b, "Greater", "keys.after", gone, QN_F32, -0.5));
}

qn_value *qn_attention_band_by_length(const qn_build *b, qn_value *lengths, qn_dim queries, qn_dim keys, int64_t left, int64_t right)
{
	qn_value *allow = right == 0 ? NULL : qn_attention_between(b, NULL, lengths, keys);
	if (left < 0 && right < 0)
		return allow;
	/* how far a query stands behind its batch's last key, then where it stands, then how far a key is to its left */
	qn_value *i = qn_build_unsqueeze(b, "queries", count(b, "queries.count", queries), 1);
	qn_value *s = qn_build_cast(b, "queries.n", qn_build_dim(b, "queries.dim", queries), QN_F32);
	qn_value *at = qn_build_op2(b, "Add", "position", qn_build_op2(b, "Sub", "queries.back", i, s), column(b, "lengths", lengths));
	qn_value *d = qn_build_op2(b, "Sub", "distance", at, count(b, "keys.count", keys));
	if (right >= 0)
		allow = qn_attention_both(b, allow, qn_build_with(b, "Greater", "near.right", d, QN_F32, -(double)right - 0.5));
	if (left >= 0)
		allow = qn_attention_both(b, allow, qn_build_with(b, "Less", "near.left", d, QN_F32, (double)left + 0.5));
	return allow;
}

qn_status qn_attention_mask_index(
	const qn_build *b, qn_value *mask, qn_dtype type, qn_dim batch, qn_dim keys, double filter, qn_value **bias)
{
	const qn_shape *s = &mask->fact.shape;
	qn_dims *dims = b->g->dims;
	qn_value *allow;
	if (s->rank == 1) {
		qn_dim twice = qn_dim_mul(dims, batch, qn_dim_const(2));
		qn_dim packed = qn_dim_add(dims, qn_dim_mul(dims, batch, qn_dim_const(3)), qn_dim_const(2));
		if (qn_dim_eq(dims, s->dim[0], packed) == QN_TRUE)
			return qn_build_fail(b, QUERN_ERR_UNSUPPORTED,
				"a mask of packed lengths ('%s', 3 * batch + 2 numbers) is not supported; "
				"export with a mask of shape [batch, keys]",
				mask->name);
		if (qn_dim_eq(dims, s->dim[0], twice) == QN_TRUE && qn_dim_eq(dims, s->dim[0], batch) != QN_TRUE)
			allow = qn_attention_between(b, qn_build_slice(b, "mask.starts", mask, 0, batch, twice),
				qn_build_slice(b, "mask.ends", mask, 0, qn_dim_const(0), batch), keys);
		else
			allow = qn_attention_between(b, NULL, mask, keys);
	} else if (s->rank == 2 || s->rank == 3) {
		qn_value *x = qn_build_cast(b, "mask.float", mask, QN_F32);
		x = qn_build_unsqueeze(b, "mask.by_head", x, 1);
		if (s->rank == 2)
			x = qn_build_unsqueeze(b, "mask.by_row", x, 1);
		allow = qn_build_with(b, "Greater", "mask.open", x, QN_F32, 0.5);
	} else {
		return qn_build_fail(b, QUERN_ERR_UNSUPPORTED,
			"a mask of rank %d ('%s') is not supported; export with [batch, keys] or "
			"[batch, queries, keys]",
			s->rank, mask->name);
	}
	qn_value *open = qn_build_number(b, "mask.zero", type, 0), *hidden = qn_build_number(b, "mask.filter", type, filter);
	*bias = qn_build_op3(b, "Where", "mask.bias", allow, open, hidden);
	return QUERN_OK;
}
