#include "graph/ops/_attention.h"

qn_value *qn_rotary_at(const qn_build *b, const char *label, qn_value *table, qn_value *positions, bool heads_first)
{
	static const int64_t perm[] = {0, 2, 1, 3};
	qn_arena *a = b->g->arena;
	/* the heads' axis is put into the table: a gather of whole rows would pass for an embedding, and get its narrow storage */
	qn_value *x = qn_build_unsqueeze(b, qn_arena_printf(a, "%s.table", label), table, 1);
	x = qn_build_op2(b, "Gather", qn_arena_printf(a, "%s.at", label), x, positions);
	return heads_first ? qn_build_transpose(b, qn_arena_printf(a, "%s.by_head", label), x, perm, 4) : x;
}

/* The last axis in pairs and back. */
static qn_value *pairs(const qn_build *b, const char *label, qn_value *x, int rank, int64_t rotated)
{
	int64_t shape[QN_MAX_RANK] = {0};
	shape[rank - 1] = rotated / 2;
	shape[rank] = 2;
	return qn_build_reshape(b, label, x, shape, rank + 1);
}

static qn_value *flat(const qn_build *b, const char *label, qn_value *x, int rank, int64_t rotated)
{
	int64_t shape[QN_MAX_RANK] = {0};
	shape[rank - 1] = rotated;
	return qn_build_reshape(b, label, x, shape, rank);
}

/* A table entry for each element of the rotated part: c c or, interleaved, c0 c0 c1 c1 ... */
static qn_value *twice(const qn_build *b, const char *label, qn_value *x, const qn_rotary *r)
{
	qn_arena *a = b->g->arena;
	if (!r->interleaved)
		return qn_build_concat(b, label, -1, x, x);
	x = qn_build_unsqueeze(b, qn_arena_printf(a, "%s.apart", label), x, -1);
	x = qn_build_concat(b, qn_arena_printf(a, "%s.pairs", label), -1, x, x);
	return flat(b, label, x, r->rank, r->rotated);
}

qn_value *qn_rotary_apply(const qn_build *b, const char *label, qn_value *x, qn_value *cos, qn_value *sin, const qn_rotary *r)
{
	qn_arena *a = b->g->arena;
#define NAME(part) qn_arena_printf(a, "%s." part, label)
	qn_dim none = qn_dim_const(0), half = qn_dim_const(r->interleaved ? 1 : r->rotated / 2);
	qn_dim whole = qn_dim_const(r->interleaved ? 2 : r->rotated), rotated = qn_dim_const(r->rotated);
	qn_value *part = r->rotated < r->size ? qn_build_slice(b, NAME("part"), x, -1, none, rotated) : x;

	qn_value *y = r->interleaved ? pairs(b, NAME("pairs"), part, r->rank, r->rotated) : part;
	qn_value *second = qn_build_op1(b, "Neg", NAME("minus"), qn_build_slice(b, NAME("second"), y, -1, half, whole));
	y = qn_build_concat(b, NAME("turned"), -1, second, qn_build_slice(b, NAME("first"), y, -1, none, half));
	if (r->interleaved)
		y = flat(b, NAME("flat"), y, r->rank, r->rotated);

	y = qn_build_op2(b, "Add", NAME("rotated"), qn_build_op2(b, "Mul", NAME("by_cos"), part, twice(b, NAME("cos"), cos, r)),
		qn_build_op2(b, "Mul", NAME("by_sin"), y, twice(b, NAME("sin"), sin, r)));
	if (part == x)
		return y;
	return qn_build_concat(b, NAME("whole"), -1, y, qn_build_slice(b, NAME("rest"), x, -1, rotated, qn_dim_const(r->size)));
#undef NAME
}
