#include "graph/ops/_matmul.h"
#include "graph/ops/_matmul_int.h"
#include "graph/ops/_quantized.h"

static qn_status infer(qn_call *c)
{
	c->out[0].type = QN_I32;
	return qn_matmul_int_infer(c, 0, 1, 2, 3);
}

static qn_status eval(qn_call *c)
{
	const qn_node *n = c->node;
	qn_matmul_int_run(c, c->x[0], n->n_in > 2 ? c->x[2] : NULL, c->x[1], n->n_in > 3 ? c->x[3] : NULL, QN_OUT(c, 0, int32_t));
	return QUERN_OK;
}

static qn_status emit(qn_emit *e)
{
	const qn_node *n = e->node;
	qn_emit_output(e, 0, "%s",
		qn_matmul_int_emit(e, n->in[0], qn_node_has_in(n, 2) ? n->in[2] : NULL, n->in[1], qn_node_has_in(n, 3) ? n->in[3] : NULL));
	return QUERN_OK;
}

const qn_op qn_op_mat_mul_integer = {.name = "MatMulInteger",
	.since = 10,
	.min_in = 2,
	.max_in = 4,
	.infer = infer,
	.lower = qn_lower_quantized_weight,
	.eval = eval,
	.emit = emit};
