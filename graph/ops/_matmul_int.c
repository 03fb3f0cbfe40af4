#include "graph/ops/_matmul_int.h"
#include "graph/ops/_matmul.h"
#include "graph/ops/_quant.h"

qn_status qn_matmul_int_infer(qn_call *c, int a, int b, int a_zero, int b_zero)
{
	const int operand[2] = {a, b};
	for (int i = 0; i < 2; i++)
		if (c->in[operand[i]].type != QN_I8 && c->in[operand[i]].type != QN_U8)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "input %d is of type %s, it must be i8 or u8", operand[i], qn_dtype_name(c->in[operand[i]].type));
	const qn_shape *sa = &c->in[a].shape, *sb = &c->in[b].shape;
	QN_TRY(qn_matmul_shape(c, sa, sb, &c->out[0].shape));
	QN_TRY(qn_call_quant_check(c, a_zero, sa->rank > 1 ? &sa->dim[sa->rank - 2] : NULL));
	return qn_call_quant_check(c, b_zero, sb->rank > 1 ? &sb->dim[sb->rank - 1] : NULL);
}

void qn_matmul_int_run(qn_call *c, const qn_tensor *a, const qn_tensor *a_zero, const qn_tensor *b, const qn_tensor *b_zero, int32_t *y)
{
	int a_max, b_max;
	qn_gemm g = {.type = QN_F32};
	qn_matmul_plan(c, a, b, &g);
	const float *af = qn_quant_centered(c, a, a_zero, a->rank > 1 ? a->rank - 2 : 0, &a_max);
	const float *bf = qn_quant_centered(c, b, b_zero, b->rank - 1, &b_max);
	float *part = QN_NEW(c->scratch, float, g.batch * g.m * g.n);
	qn_gemm_small_ints(&g, c->threads, af, a_max, bf, b_max, part, y);
}

static bool is_zero(qn_emit *e, qn_value *v)
{
	if (!v)
		return true;
	const qn_tensor *t;
	if (!v->is_const || qn_graph_load(e->graph, v, e->arena, &t) != QUERN_OK)
		return false;
	for (int64_t i = 0; i < qn_tensor_count(t); i++)
		if (qn_tensor_get_i64(t, i) != 0)
			return false;
	return true;
}

/* v - zero in i32, where there is a zero point; `axis` is where a vector of zero points lies. */
static const char *centered(qn_emit *e, qn_value *v, qn_value *zero, int axis)
{
	int rank = v->fact.shape.rank;
	const char *x = qn_emit_temp(e, "wide", "tract_core_cast(%s, to='i32')", qn_emit_ranked(e, v, rank));
	if (is_zero(e, zero))
		return x;
	int64_t dim[QN_MAX_RANK];
	for (int i = 0; i < rank; i++)
		dim[i] = i == axis && !qn_is_single(&zero->fact.shape) ? zero->fact.shape.dim[0].k : 1;
	const char *z = qn_emit_temp(e, "zero", "tract_core_cast(%s, to='i32')", qn_emit_ref(e, zero));
	z = qn_emit_temp(e, "zeros", "reshape(%s, shape=%s)", z, qn_emit_ints(e, dim, rank));
	return qn_emit_temp(e, "centered", "%s - %s", x, z);
}

const char *qn_matmul_int_emit(qn_emit *e, qn_value *a, qn_value *a_zero, qn_value *b, qn_value *b_zero)
{
	const qn_shape *sa = &a->fact.shape, *sb = &b->fact.shape;
	if (a->fact.type == QN_I8 && b->fact.type == QN_I8 && is_zero(e, a_zero) && is_zero(e, b_zero))
		return qn_matmul_emit(e, qn_emit_ranked(e, a, sa->rank), sa, qn_emit_ranked(e, b, sb->rank), sb, "i32");
	const char *x = centered(e, a, a_zero, sa->rank - 2), *w = centered(e, b, b_zero, sb->rank - 1);
	return qn_matmul_emit(e, x, sa, w, sb, "i32");
}
