/* widen.c - graphs of half floats are computed in f32.
 *
 * needs: types of all values (shapes). gives: no f16 or bf16 value but the graph's f16 inputs and outputs, which keep their type behind a
 * Cast; half constants are recipes that cast their weight, so that nothing is copied. spoils: facts (infer again). */
#include "passes/passes.h"

enum { ONNX_F32 = 1, ONNX_F16 = 10, ONNX_BF16 = 16 };

static bool is_half(qn_dtype t)
{
	return t == QN_F16 || t == QN_BF16;
}

/* Before the first node, so that every reader comes after it. */
static qn_value *widened(qn_graph *g, qn_value *v)
{
	qn_value *y = qn_graph_apply(g, g->first, "Cast", qn_arena_printf(g->arena, "%s.f32", v->name), &v, 1);
	qn_node_set_int(g, y->producer, "to", ONNX_F32);
	y->fact = (qn_fact){QN_F32, v->fact.shape, NULL};
	y->is_const = v->is_const;
	y->weight = v->weight;
	return y;
}

static void widen_source(qn_graph *g, qn_value *v)
{
	if (v->is_input && v->fact.type == QN_BF16) {
		qn_log(g->ctx, QUERN_LOG_WARN, "input '%s' is bf16 in the model and f32 in the archive: the engine has no bf16", v->name);
		v->fact.type = QN_F32;
		return;
	}
	if (!v->n_uses && !v->is_output)
		return;
	qn_value *y = widened(g, v);
	qn_value_replace_except(g, v, y, y->producer);
}

/* An attribute that names an element type, or holds a number of one. */
static void widen_attributes(qn_graph *g, qn_node *n)
{
	static const char *const types[] = {"to", "dtype", "output_datatype", "output_dtype"};
	for (size_t i = 0; i < QN_LEN(types); i++) {
		int64_t to = qn_node_int(n, types[i], 0);
		if (to == ONNX_F16 || to == ONNX_BF16)
			qn_node_set_int(g, n, types[i], ONNX_F32);
	}
	const qn_attr *value = qn_node_attr(n, "value");
	if (!value || value->kind != QN_ATTR_TENSOR || !value->t || !is_half(value->t->type))
		return;
	qn_tensor *t = qn_tensor_new(g->arena, QN_F32, value->t->rank, value->t->dim);
	qn_convert(value->t->data, value->t->type, (void *)(uintptr_t)t->data, QN_F32, qn_tensor_count(t));
	qn_node_set_tensor(g, n, "value", t);
}

static void narrow_output(qn_graph *g, int i)
{
	qn_value *v = g->outputs[i];
	qn_value *y = qn_graph_apply(g, NULL, "Cast", g->output_names[i], &v, 1);
	qn_node_set_int(g, y->producer, "to", ONNX_F16);
	y->fact = (qn_fact){QN_F16, v->fact.shape, NULL};
	qn_graph_set_output(g, i, y);
}

qn_status qn_pass_widen(qn_graph *g, qn_pass_env *env)
{
	size_t n_values = g->n_values;
	qn_dtype *wanted = QN_NEW(env->scratch, qn_dtype, g->n_outputs);
	for (int i = 0; i < g->n_outputs; i++)
		wanted[i] = g->outputs[i]->fact.type;
	for (qn_node *n = g->first; n; n = n->next)
		widen_attributes(g, n);
	for (size_t i = 0; i < n_values; i++) {
		qn_value *v = g->values[i];
		if (v && !v->producer && is_half(v->fact.type))
			widen_source(g, v);
	}
	for (int i = 0; i < g->n_outputs; i++) {
		if (wanted[i] == QN_F16)
			narrow_output(g, i);
		else if (wanted[i] == QN_BF16)
			qn_log(g->ctx, QUERN_LOG_WARN, "output '%s' is bf16 in the model and f32 in the archive: the engine has no bf16",
				g->output_names[i]);
	}
	return QUERN_OK;
}
