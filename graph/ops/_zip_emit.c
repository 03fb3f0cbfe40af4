#include "graph/ops/_zip.h"

const char *qn_zip_operand(qn_emit *e, int i)
{
	return qn_emit_ranked(e, e->node->in[i], e->node->out[0]->fact.shape.rank);
}

qn_status qn_zip_emit(qn_emit *e, const char *nnef)
{
	int n = e->node->n_in;
	const char *text = qn_zip_operand(e, 0);
	if (n == 1) {
		qn_emit_output(e, 0, "copy(%s)", text);
		return QUERN_OK;
	}
	for (int i = 1; i < n - 1; i++)
		text = qn_emit_temp(e, nnef, "%s(%s, %s)", nnef, text, qn_zip_operand(e, i));
	qn_emit_output(e, 0, "%s(%s, %s)", nnef, text, qn_zip_operand(e, n - 1));
	return QUERN_OK;
}

qn_status qn_zip_emit_compare(qn_emit *e, const char *nnef)
{
	const qn_value *a = e->node->in[0], *b = e->node->in[1];
	qn_dtype type = a->fact.type;
	const char *ta = qn_zip_operand(e, 0), *tb = qn_zip_operand(e, 1);
	bool fixed = a->is_const || b->is_const;
	if (type == QN_BOOL) {
		if (strcmp(nnef, "eq") != 0)
			return qn_emit_fail(e, "no emission for an order of booleans");
		qn_emit_output(e, 0, "not(tract_core_xor(%s, %s))", ta, tb);
		return QUERN_OK;
	}
	if (qn_dtype_is_float(type) || fixed || e->target != QN_TARGET_TRACT) {
		qn_emit_output(e, 0, "%s(%s, %s)", nnef, ta, tb);
		return QUERN_OK;
	}
	if (type != QN_I64 && type != QN_I32) {
		ta = qn_arena_printf(e->arena, "tract_core_cast(%s, to='i64')", ta);
		tb = qn_arena_printf(e->arena, "tract_core_cast(%s, to='i64')", tb);
	}
	qn_emit_output(e, 0, "%s(tract_core_cast(sub(%s, %s), to='f32'), 0.0)", nnef, ta, tb);
	return QUERN_OK;
}
