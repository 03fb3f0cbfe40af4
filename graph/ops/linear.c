#include "graph/ops/_apart.h"
#include "graph/ops/_gemm.h"
#include "graph/ops/_linear.h"

static qn_status infer(qn_call *c)
{
	qn_dtype t = c->in[1].type;
	if (t != QN_F32 && t != QN_F16 && t != QN_Q4_0)
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "a weight of type %s, it can be f32, f16 or q4_0", qn_dtype_name(t));
	return qn_linear_infer(c, 2);
}

static qn_status eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *w = c->x[1];
	qn_gemm g = {.type = QN_F32, .tb = true, .n = w->dim[0], .k = w->dim[1], .batch = 1, .chained = c->ctx->engine_math};
	g.lda = g.ldb = g.k, g.ldc = g.n;
	g.m = 1;
	for (int i = 0; i + 1 < x->rank; i++)
		g.m *= x->dim[i];
	float *y = QN_OUT(c, 0, float);
	qn_gemm_run(&g, c->threads, x->data, qn_tensor_f32(c->scratch, w), y);
	if (c->node->n_in > 2 && c->x[2])
		qn_linear_add_bias(c, y, c->x[2]->data, g.m, g.n);
	return QUERN_OK;
}

extern const qn_op qn_op_concat, qn_op_fake_quant_rows; /* the latter's factors keep the rows and so do not stop a reshape either */

/* Whether the contraction axis of `v` was merged from several (heads x head size) or put together by a Concat, with nothing but views and unary
 * functions since. */
static bool joined_axis(const qn_value *v)
{
	for (const qn_node *p = v->producer; p; p = v->producer) {
		if (p->op == &qn_op_concat)
			return true; /* of another axis: what is between is not worth telling them apart */
		const qn_value *x = p->in[0];
		bool unary = ((p->op->traits & QN_ELEMENTWISE) && p->n_in == 1) || p->op == &qn_op_fake_quant_rows;
		if ((!unary && !(p->op->traits & QN_LAYOUT)) || !x->fact.shape.rank || !v->fact.shape.rank)
			return false;
		if (!qn_dim_equal(x->fact.shape.dim[x->fact.shape.rank - 1], v->fact.shape.dim[v->fact.shape.rank - 1]))
			return true;
		v = x;
	}
	return false;
}

static qn_status emit(qn_emit *e)
{
	const qn_node *n = e->node;
	int rank = n->in[0]->fact.shape.rank;
	const char *x = qn_emit_ranked(e, n->in[0], rank);
	/* The engine folds a reshape that merges axes into the einsum by splitting the weight's axis, which breaks the blocks of Q4_0 (wrong results,
	 * no error), and a concat by slicing it, which ends its process. */
	if ((n->in[1]->fact.type == QN_Q4_0 && joined_axis(n->in[0])) || qn_is_broadcast(n->in[0], rank, true))
		x = qn_emit_apart(e, x);
	const char *y = qn_linear_einsum(e, x, rank, qn_emit_ranked(e, n->in[1], 2), "f32");
	if (qn_node_has_in(n, 2))
		y = qn_arena_printf(e->arena, "%s + %s", qn_emit_temp(e, "product", "%s", y), qn_emit_ranked(e, n->in[2], rank));
	qn_emit_output(e, 0, "%s", y);
	return QUERN_OK;
}

/* x f32 [..., K]; w constant [N, K] of f32, f16 or q4_0; bias f32 [N] or absent. */
const qn_op qn_op_linear = {
	.name = "Linear", .hint = QN_HINT_CONTRACTION, .weight_input = 2, .domain = "quern", .min_in = 2, .max_in = 3,
	.infer = infer, .eval = eval, .emit = emit};
