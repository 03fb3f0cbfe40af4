#include "graph/ops/_gelu.h"

static bool tanh_form(const qn_node *n) { return strcmp(qn_node_string(n, "approximate", "none"), "tanh") == 0; }

static qn_status eval(qn_call *c) { return qn_gelu_map(c, c->x[0], &c->y[0], tanh_form(c->node)); }
static qn_status emit(qn_emit *e) { return qn_gelu_emit(e, qn_emit_ref(e, e->node->in[0]), tanh_form(e->node)); }

static qn_status infer(qn_call *c)
{
	const char *form = qn_node_string(c->node, "approximate", "none");
	if (strcmp(form, "none") != 0 && strcmp(form, "tanh") != 0)
		QN_OP_FAIL(c, QUERN_ERR_FORMAT, "attribute approximate is '%s': 'none' and 'tanh' exist", form);
	return qn_infer_same(c);
}

const qn_op qn_op_gelu = {
	.name = "Gelu",
	.also = "com.microsoft:Gelu",
	.min_in = 1,
	.max_in = 1,
	.traits = QN_ELEMENTWISE,
	.infer = infer,
	.eval = eval,
	.emit = emit,
};
