#include "graph/emit.h"

static qn_status infer(qn_call *c)
{
	qn_dtype t = c->in[0].type;
	if (t != QN_F32 && t != QN_F16 && t != QN_Q4_0 && t != QN_Q8_1)
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "a table of type %s, it can be f32, f16, q4_0 or q8_1", qn_dtype_name(t));
	if (c->in[1].type != QN_I64 && c->in[1].type != QN_I32)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "ids of type %s, they must be i64 or i32", qn_dtype_name(c->in[1].type));
	if (c->in[0].shape.rank != 2)
		QN_OP_FAIL(c, QUERN_ERR_SHAPE, "the table has rank %d, it must have rank 2", c->in[0].shape.rank);
	if (c->in[1].shape.rank >= QN_MAX_RANK)
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "ids of rank %d", c->in[1].shape.rank);
	c->out[0].type = QN_F32;
	c->out[0].shape = c->in[1].shape;
	c->out[0].shape.dim[c->out[0].shape.rank++] = c->in[0].shape.dim[1];
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *table = c->x[0], *ids = c->x[1];
	int64_t rows = table->dim[0], d = table->dim[1], n = qn_tensor_count(ids);
	const char *t = table->data;
	float *y = QN_OUT(c, 0, float);
	size_t bytes = n && rows ? qn_tensor_bytes(table) / (size_t)rows : 0; /* of a row: blocks do not straddle rows */
	for (int64_t i = 0; i < n; i++) {
		int64_t id = qn_tensor_get_i64(ids, i);
		if (id < -rows || id >= rows)
			QN_OP_FAIL(c, QUERN_ERR_SHAPE, "id %lld is out of range for a table of %lld rows", (long long)id, (long long)rows);
		qn_convert(t + (size_t)(id < 0 ? id + rows : id) * bytes, table->type, y + i * d, QN_F32, d);
	}
	return QUERN_OK;
}

static bool may_be_negative(const qn_fact *ids)
{
	if (!ids->value || ids->value->type == QN_DIM)
		return true;
	for (int64_t i = 0; i < qn_tensor_count(ids->value); i++)
		if (qn_tensor_get_i64(ids->value, i) < 0)
			return true;
	return false;
}

static qn_status emit(qn_emit *e)
{
	const qn_fact *table = &e->node->in[0]->fact, *fact = &e->node->in[1]->fact;
	const char *w = qn_emit_ranked(e, e->node->in[0], 2), *ids = qn_emit_ranked(e, e->node->in[1], fact->shape.rank);
	if (table->type == QN_F32 || table->type == QN_F16) { /* these gathers wrap negative ids themselves */
		if (table->type == QN_F32)
			qn_emit_output(e, 0, "tract_core_gather(%s, %s, axis=0)", w, ids);
		else
			qn_emit_output(e, 0, "tract_core_cast(%s, to='f32')",
				qn_emit_temp(e, "rows", "tract_core_gather(%s, %s, axis=0)", w, ids));
		return QUERN_OK;
	}
	if (may_be_negative(fact)) { /* the engine aborts on a negative id into blocks */
		int64_t one[QN_MAX_RANK];
		for (int i = 0; i < fact->shape.rank; i++)
			one[i] = 1;
		qn_tensor *rows = qn_tensor_new(e->arena, fact->type, fact->shape.rank, one);
		qn_tensor_set((void *)(uintptr_t)rows->data, fact->type, 0, (double)table->shape.dim[0].k);
		const char *wrapped = qn_emit_temp(e, "wrapped", "%s + %s", ids, qn_emit_constant(e, "rows", rows));
		ids = qn_emit_temp(e, "ids", "select(lt(%s, 0), %s, %s)", ids, wrapped, ids);
	}
	qn_emit_output(e, 0, "tract_core_gather(%s, %s, axis=0, datum_type='f32')", w, ids);
	return QUERN_OK;
}

/* table constant [V, D] of f32, f16, q4_0 or q8_1; ids i64 or i32 of any rank, negative ones count from the end; y f32
 * ids.shape + [D]. */
const qn_op qn_op_embedding = {
	.name = "Embedding", .weight_input = 1, .domain = "quern", .min_in = 2, .max_in = 2, .infer = infer, .eval = eval, .emit = emit};
