#include "graph/ops/_matmul.h"
#include <stdio.h>

qn_status qn_matmul_shape(qn_call *c, const qn_shape *a, const qn_shape *b, qn_shape *out)
{
	const qn_shape *operand[2] = {a, b};
	for (int i = 0; i < 2; i++)
		if (operand[i]->rank == 0)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "operand %d has rank 0, a matrix product needs at least rank 1", i);
	qn_dim ka = a->dim[a->rank - 1], kb = b->dim[b->rank > 1 ? b->rank - 2 : 0];
	QN_TRY(qn_call_equate(c, ka, kb, "the contraction dims of the two operands"));
	qn_shape ba = *a, bb = *b, lead;
	ba.rank = a->rank > 2 ? a->rank - 2 : 0;
	bb.rank = b->rank > 2 ? b->rank - 2 : 0;
	QN_TRY(qn_call_broadcast(c, &ba, &bb, &lead));
	*out = lead;
	if (a->rank > 1)
		out->dim[out->rank++] = a->dim[a->rank - 2];
	if (b->rank > 1)
		out->dim[out->rank++] = b->dim[b->rank - 1];
	return QUERN_OK;
}

void qn_matmul_plan(qn_call *c, const qn_tensor *a, const qn_tensor *b, qn_gemm *g)
{
	g->ta = g->tb = false;
	g->k = a->dim[a->rank - 1];
	g->m = a->rank > 1 ? a->dim[a->rank - 2] : 1;
	g->n = b->rank > 1 ? b->dim[b->rank - 1] : 1;
	g->lda = g->k ? g->k : 1;
	g->ldb = g->ldc = g->n ? g->n : 1;
	qn_tensor la = *a, lb = *b;
	la.rank = a->rank > 2 ? a->rank - 2 : 0;
	lb.rank = b->rank > 2 ? b->rank - 2 : 0;
	int rank = la.rank > lb.rank ? la.rank : lb.rank;
	int64_t dim[QN_MAX_RANK] = {0}, sa[QN_MAX_RANK] = {0}, sb[QN_MAX_RANK] = {0};
	g->batch = 1;
	for (int i = 0; i < rank; i++) {
		int64_t da = i >= rank - la.rank ? la.dim[i - rank + la.rank] : 1, db = i >= rank - lb.rank ? lb.dim[i - rank + lb.rank] : 1;
		dim[i] = da == 1 ? db : da;
		g->batch *= dim[i];
	}
	if (qn_tensor_count(&lb) == 1) { /* one right operand: the left one is a single tall matrix */
		g->m *= g->batch;
		g->batch = 1;
		g->a_at = g->b_at = NULL;
		g->c_step = 0;
		return;
	}
	qn_broadcast_strides(&la, rank, dim, sa);
	qn_broadcast_strides(&lb, rank, dim, sb);
	int64_t *pa = QN_NEW(c->scratch, int64_t, g->batch), *pb = QN_NEW(c->scratch, int64_t, g->batch);
	int64_t at[QN_MAX_RANK] = {0}, oa = 0, ob = 0;
	for (int64_t i = 0; i < g->batch; i++) {
		pa[i] = oa * g->m * g->k;
		pb[i] = ob * g->k * g->n;
		for (int d = rank - 1; d >= 0; d--) {
			oa += sa[d], ob += sb[d];
			if (++at[d] < dim[d])
				break;
			oa -= sa[d] * dim[d], ob -= sb[d] * dim[d];
			at[d] = 0;
		}
	}
	g->a_at = pa, g->b_at = pb;
	g->c_step = g->m * g->n;
}

/* Drops the leading axes on which `s` is 1 and the other operand is not, so that the einsum has nothing to repeat. */
static const char *drop_units(qn_emit *e, const char *x, const qn_shape *s, const qn_shape *other, bool *dropped)
{
	int64_t axes[QN_MAX_RANK];
	int n = 0;
	for (int i = 0; i + 2 < s->rank; i++) {
		int j = i - s->rank + other->rank; /* the same axis of the other operand */
		dropped[i] = j >= 0 && j + 2 < other->rank && qn_dim_is(s->dim[i], 1) && !qn_dim_is(other->dim[j], 1);
		if (dropped[i])
			axes[n++] = i;
	}
	return n ? qn_emit_temp(e, "flat", "squeeze(%s, axes=%s)", x, qn_emit_ints(e, axes, n)) : x;
}

static void letters(char *to, const qn_shape *s, const bool *dropped, const char *core)
{
	int n = 0, lead = s->rank > 2 ? s->rank - 2 : 0;
	for (int i = 0; i < lead; i++)
		if (!dropped[i])
			to[n++] = (char)('a' + lead - 1 - i); /* the same letter for the same distance from the core */
	strcpy(to + n, core);
}

const char *qn_matmul_emit(qn_emit *e, const char *a, const qn_shape *sa, const char *b, const qn_shape *sb, const char *acc)
{
	bool da[QN_MAX_RANK] = {false}, db[QN_MAX_RANK] = {false};
	char ea[QN_MAX_RANK + 3], eb[QN_MAX_RANK + 3], ey[QN_MAX_RANK + 3];
	a = drop_units(e, a, sa, sb, da);
	b = drop_units(e, b, sb, sa, db);
	letters(ea, sa, da, sa->rank > 1 ? "mk" : "k");
	letters(eb, sb, db, sb->rank > 1 ? "kn" : "k");
	int lead = 0, la = sa->rank - 2, lb = sb->rank - 2;
	for (int i = (la > lb ? la : lb) - 1; i >= 0; i--)
		ey[lead++] = (char)('a' + i);
	snprintf(ey + lead, sizeof ey - (size_t)lead, "%s%s", sa->rank > 1 ? "m" : "", sb->rank > 1 ? "n" : "");
	return qn_arena_printf(e->arena, "tract_core_einsum([%s, %s], expr='%s,%s->%s', acc='%s', output='')", a, b, ea, eb, ey, acc);
}
