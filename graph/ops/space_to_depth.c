/* space_to_depth.c - [N, C, H, W] to [N, C b^2, H / b, W / b], the block axes before (DCR) or behind (CRD)
 * the channels. */
#include "graph/ops/_space.h"

static qn_status plan(qn_call *c, qn_space *s)
{
	int64_t b;
	qn_dim rows, cols;
	QN_TRY(qn_space_block(c, &b));
	const qn_dim *x = c->in[0].shape.dim, block = qn_dim_const(b);
	QN_TRY(qn_space_divide(c, x[2], b, "the height", &rows));
	QN_TRY(qn_space_divide(c, x[3], b, "the width", &cols));
	const char *mode = qn_node_string(c->node, "mode", "DCR");
	bool crd = !strcmp(mode, "CRD");
	if (!crd && strcmp(mode, "DCR"))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "mode '%s' is not known", mode);
	*s = (qn_space){{6, {x[0], x[1], rows, block, cols, block}}, {0, 3, 5, 1, 2, 4}, {.rank = 4}};
	if (crd)
		memcpy(s->perm, (const int64_t[]){0, 1, 3, 5, 2, 4}, sizeof s->perm);
	s->out.dim[0] = x[0];
	s->out.dim[1] = qn_dim_mul(c->dims, x[1], qn_dim_mul(c->dims, block, block));
	s->out.dim[2] = rows;
	s->out.dim[3] = cols;
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

const qn_op qn_op_space_to_depth = {.name = "SpaceToDepth", .min_in = 1, .max_in = 1, .infer = infer, .eval = eval, .emit = emit};
