#include "graph/ops/_zip.h"

/* A count past the width shifts everything out: 0, or all sign bits to the right. Loaded elements are 64 bits wide, so the limit is
 * that of the type only for 64 bits; narrower ones lose their high bits when stored. */
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

static qn_status emit(qn_emit *e) { return qn_zip_emit(e, is_left(e->node) ? "tract_shl" : "tract_shr"); }

const qn_op qn_op_bit_shift = {
	.name = "BitShift",
	.min_in = 2,
	.max_in = 2,
	.traits = QN_ELEMENTWISE,
	.infer = infer,
	.eval = eval,
	.emit = emit,
};
