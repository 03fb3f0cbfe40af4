/* depth_to_space.c - [N, C, H, W] to [N, C / b^2, H b, W b]; the block axes come first (DCR) or last (CRD) within the channels. */
#include "graph/ops/_space.h"

static qn_status plan(qn_call *c, qn_space *s)
{
	int64_t b;
	qn_dim depth;
	QN_TRY(qn_space_block(c, &b));
	const qn_dim *x = c->in[0].shape.dim, block = qn_dim_const(b);
	QN_TRY(qn_space_divide(c, x[1], b * b, "the number of channels", &depth));
	const char *mode = qn_node_string(c->node, "mode", "DCR");
	bool crd = !strcmp(mode, "CRD");
	if (!crd && strcmp(mode, "DCR"))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "mode '%s' is not known", mode);
	if (crd)
		*s = (qn_space){{6, {x[0], depth, block, block, x[2], x[3]}}, {0, 1, 4, 2, 5, 3}, {.rank = 4}};
	else
		*s = (qn_space){{6, {x[0], block, block, depth, x[2], x[3]}}, {0, 3, 4, 1, 5, 2}, {.rank = 4}};
	s->out.dim[0] = x[0];
	s->out.dim[1] = depth;
	s->out.dim[2] = qn_dim_mul(c->dims, x[2], block);
	s->out.dim[3] = qn_dim_mul(c->dims, x[3], block);
	return QUERN_OK;
}

static qn_status infer(qn_call *c)
{
	qn_space s;
	QN_TRY(plan(c, &s));
	c->out[0].type = c->in[0].type;
	c->out[0].shape = s.out;
	return QUERN_OK;
}

static qn_status eval(qn_call *c)
{
	qn_space s;
	QN_TRY(plan(c, &s));
	return qn_space_eval(c, &s);
}

static qn_status emit(qn_emit *e)
{
	qn_call c = qn_move_call(e);
	qn_space s;
	QN_TRY(plan(&c, &s));
	return qn_space_emit(e, &s);
}

const qn_op qn_op_depth_to_space = {.name = "DepthToSpace", .min_in = 1, .max_in = 1, .infer = infer, .eval = eval, .emit = emit};
