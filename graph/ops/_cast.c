#include "graph/ops/_cast.h"

static qn_status on_dims(qn_call *c)
{
	const qn_tensor *x = c->x[0], *y = &c->y[0];
	int64_t n = qn_tensor_count(x);
	for (int64_t i = 0; i < n; i++) {
		qn_dim d = ((const qn_dim *)x->data)[i];
		qn_tristate zero = y->type == QN_BOOL ? qn_dim_eq(c->dims, d, qn_dim_const(0)) : QN_UNDECIDED;
		if (qn_dtype_is_small(c->out[0].type))
			c->undecided = true; /* a size would be rounded or cut, which a dim cannot express */
		else if (y->type == QN_DIM)
			QN_OUT(c, 0, qn_dim)[i] = d;
		else if (zero != QN_UNDECIDED)
			QN_OUT(c, 0, uint8_t)[i] = zero == QN_FALSE;
		else
			c->undecided = true;
	}
	return QUERN_OK;
}

void qn_cast_copy_rules(qn_graph *g, const qn_node *from, qn_node *to)
{
	qn_node_set_int(g, to, "saturate", qn_node_int(from, "saturate", 1));
	qn_node_set_string(g, to, "round_mode", qn_node_string(from, "round_mode", "up"));
}

static qn_status round_mode(qn_call *c, qn_small_round *out)
{
	static const char *const names[] = {[QN_ROUND_UP] = "up", [QN_ROUND_DOWN] = "down", [QN_ROUND_NEAREST] = "nearest"};
	const char *name = qn_node_string(c->node, "round_mode", "up");
	for (size_t i = 0; i < QN_LEN(names); i++)
		if (!strcmp(name, names[i])) {
			*out = (qn_small_round)i;
			return QUERN_OK;
		}
	QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "attribute round_mode is '%s', it may be up, down or nearest", name);
}

static bool is_castable(qn_dtype t) { return qn_dtype_is_numeric(t) || qn_dtype_is_small(t); }

qn_status qn_cast_eval(qn_call *c)
{
	const qn_tensor *x = c->x[0], *y = &c->y[0];
	if (x->type == QN_DIM)
		return on_dims(c);
	if (!is_castable(x->type) || !is_castable(y->type))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "no conversion from %s to %s", qn_dtype_name(x->type), qn_dtype_name(y->type));
	bool saturate = qn_node_int(c->node, "saturate", 1) != 0;
	qn_small_round round;
	QN_TRY(round_mode(c, &round));
	int64_t n = qn_tensor_count(x), tasks = (n + QN_SPAN_TASK - 1) / QN_SPAN_TASK;
	size_t from = qn_dtype_size(x->type), to = qn_dtype_size(y->type);
	char *out = QN_OUT(c, 0, char);
	int threads = qn_span_threads(c, n);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
	for (int64_t t = 0; t < tasks; t++) {
		int64_t at = t * QN_SPAN_TASK, m = n - at < QN_SPAN_TASK ? n - at : QN_SPAN_TASK;
		const char *src = (const char *)x->data + (size_t)at * from;
		if (qn_dtype_is_small_float(y->type))
			qn_convert_rounded(src, x->type, out + (size_t)at * to, y->type, m, saturate, round);
		else
			qn_convert(src, x->type, out + (size_t)at * to, y->type, m);
	}
	return QUERN_OK;
}

qn_status qn_cast_emit(qn_emit *e)
{
	qn_dtype from = e->node->in[0]->fact.type, to = e->node->out[0]->fact.type;
	const char *x = qn_emit_ref(e, e->node->in[0]);
	if (qn_dtype_is_small(to) && from != to)
		return qn_emit_fail(e, "the engine has no conversion to %s", qn_dtype_name(to));
	if (to == QN_BF16)
		return qn_emit_fail(e, "the engine has no bf16 activations: leave the cast out or use f16");
	if (from == to || (e->target != QN_TARGET_TRACT && qn_dtype_is_float(from) && qn_dtype_is_float(to)))
		qn_emit_output(e, 0, "copy(%s)", x);
	else if (e->target == QN_TARGET_TRACT)
		qn_emit_output(e, 0, "tract_core_cast(%s, to='%s')", x, qn_emit_dtype(to));
	else if (from == QN_BOOL && qn_dtype_is_float(to))
		qn_emit_output(e, 0, "select(%s, 1.0, 0.0)", x);
	else
		return qn_emit_fail(e, "standard NNEF has no conversion from %s to %s", qn_dtype_name(from), qn_dtype_name(to));
	return QUERN_OK;
}
