#include "graph/ops/_move.h"
#include "graph/ops/_zip.h"

/* A count below 0 or past the width shifts everything out: 0, or all sign bits to the right. Elements are 64 bits wide here; what a
 * narrower type shifts out at its top is lost when the result is stored. */
static inline int64_t shift_left(int64_t a, int64_t b) { return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b); }
static inline int64_t shift_right(int64_t a, int64_t b, bool u)
{
	if (b < 0 || b > 63)
		return !u && a < 0 ? -1 : 0;
	return u ? (int64_t)((uint64_t)a >> b) : a >> b;
}

QN_ZIP_KERNEL(left, int64_t, int64_t, shift_left(a, b))
QN_ZIP_KERNEL(right, int64_t, int64_t, shift_right(a, b, u))

static bool is_left(const qn_node *n) { return strcmp(qn_node_string(n, "direction", ""), "LEFT") == 0; }

static qn_status infer(qn_call *c)
{
	const char *direction = qn_node_string(c->node, "direction", "");
	if (strcmp(direction, "LEFT") != 0 && strcmp(direction, "RIGHT") != 0)
		QN_OP_FAIL(c, QUERN_ERR_FORMAT, "attribute direction is '%s': LEFT or RIGHT is required", direction);
	return qn_zip_infer(c);
}

static qn_status eval(qn_call *c)
{
	return qn_zip_eval(c, &(qn_zip){.kernel = {NULL, NULL, is_left(c->node) ? left : right}});
}

static qn_status counts_fit(qn_emit *e, int64_t width, bool *fit)
{
	const qn_tensor *t;
	QN_TRY(qn_move_const(e, 1, &t));
	int64_t n = t ? qn_tensor_count(t) : 0;
	*fit = n > 0;
	for (int64_t i = 0; i < n; i++) {
		double v = qn_tensor_get(t, i);
		*fit &= v >= 0.0 && v < (double)width;
	}
	return QUERN_OK;
}

/* The engine takes a count modulo the width, so those that are not constants are looked at first. */
static qn_status emit(qn_emit *e)
{
	qn_dtype type = e->node->out[0]->fact.type;
	const char *verb = is_left(e->node) ? "tract_shl" : "tract_shr";
	int64_t width = 8 * (int64_t)qn_dtype_size(type);
	bool fit, u = qn_dtype_is_unsigned(type);
	QN_TRY(counts_fit(e, width, &fit));
	if (fit)
		return qn_zip_emit(e, verb);
	const char *a = qn_zip_operand(e, 0), *b = qn_zip_operand(e, 1);
	const char *valid = qn_emit_temp(e, "valid", "lt(%s, %s)", b, qn_emit_float(e, (double)width));
	if (!u)
		valid = qn_emit_temp(e, "valid", "and(%s, ge(%s, 0.0))", valid, b);
	const char *out = u || is_left(e->node) ? qn_arena_printf(e->arena, "sub(%s, %s)", a, a)
						: qn_arena_printf(e->arena, "tract_shr(%s, %s)", a, qn_emit_float(e, (double)(width - 1)));
	qn_emit_output(e, 0, "select(%s, %s(%s, %s), %s)", valid, verb, a, b, out);
	return QUERN_OK;
}

const qn_op qn_op_bit_shift = {
	.name = "BitShift",
	.min_in = 2,
	.max_in = 2,
	.traits = QN_ELEMENTWISE,
	.infer = infer,
	.eval = eval,
	.emit = emit,
};
