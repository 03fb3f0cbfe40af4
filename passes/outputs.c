/* outputs.c - graph outputs become what 8-bit codes of their scales hold of them, in f32.
 *
 * needs: scales, weights. Does nothing unless quantizeOutputs is set. gives: a FakeQuant before each float output; where each channel has
 * a scale of its own, that of the channels over their scales, between two products. */
#include "graph/act.h"
#include "passes/config.h"
#include "passes/passes.h"
#include "passes/stats.h"

enum { OUTPUT_BITS = 8 };

/* y by an operator of x and a vector along its last axis. */
static qn_value *with_vector(qn_graph *g, const char *op, qn_value *x, const char *name, const float *v, int64_t n)
{
	qn_tensor *t = qn_tensor_new(g->arena, QN_F32, 1, &n);
	memcpy((void *)(uintptr_t)t->data, v, (size_t)n * sizeof *v);
	qn_value *in[] = {x, qn_graph_const(g, qn_arena_printf(g->arena, "%s.%s", x->name, name), t)};
	qn_value *y = qn_graph_apply(g, NULL, op, qn_arena_printf(g->arena, "%s.by_%s", x->name, name), in, 2);
	y->fact = (qn_fact){QN_F32, x->fact.shape, NULL};
	return y;
}

static qn_value *rounded(qn_graph *g, qn_value *x, float scale, int zero_point)
{
	qn_value *y = qn_graph_apply(g, NULL, "FakeQuant", qn_arena_printf(g->arena, "%s.quantized", x->name), &x, 1);
	qn_act_set(g, y->producer, (qn_act){scale, zero_point, OUTPUT_BITS});
	y->fact = (qn_fact){QN_F32, x->fact.shape, NULL};
	return y;
}

static qn_value *rounded_by_channel(qn_graph *g, qn_value *x, const qn_output_scales *s)
{
	float *inverse = QN_NEW(g->arena, float, s->n), *zero = QN_NEW(g->arena, float, s->n);
	bool has_zero = false;
	for (int64_t i = 0; i < s->n; i++) {
		inverse[i] = 1 / s->scale[i];
		zero[i] = (float)s->zero_point[i];
		has_zero |= s->zero_point[i] != 0;
	}
	qn_value *y = with_vector(g, "Mul", x, "inverse", inverse, s->n);
	if (has_zero)
		y = with_vector(g, "Add", y, "zero", zero, s->n);
	y = rounded(g, y, 1, 0);
	if (has_zero)
		y = with_vector(g, "Sub", y, "zero", zero, s->n);
	return with_vector(g, "Mul", y, "scale", s->scale, s->n);
}

static const qn_output_scales *scales_of(const qn_plan *p, const char *name)
{
	for (size_t i = 0; i < p->n_outputs; i++)
		if (p->outputs[i].name && !strcmp(p->outputs[i].name, name))
			return &p->outputs[i];
	return NULL;
}

/* Whether a scale a channel fits the value's last axis. */
static bool fits(const qn_value *v, const qn_output_scales *s)
{
	const qn_shape *shape = &v->fact.shape;
	return s->n == 1 || (shape->rank && qn_dim_is_const(shape->dim[shape->rank - 1]) && shape->dim[shape->rank - 1].k == s->n);
}

qn_status qn_pass_outputs(qn_graph *g, qn_pass_env *env)
{
	const qn_plan *p = env->plan;
	if (!p->config->calibration.quantize_outputs)
		return QUERN_OK;
	for (int i = 0; i < g->n_outputs; i++) {
		qn_value *v = g->outputs[i];
		const qn_output_scales *s = scales_of(p, g->output_names[i]);
		if (v->fact.type != QN_F32 || v->is_const || !s) {
			qn_log(g->ctx, QUERN_LOG_WARN, "output '%s' is not quantized: %s", g->output_names[i],
				v->fact.type != QN_F32 || v->is_const ? "it is no f32 activation" : "it has no scale");
			continue;
		}
		if (!fits(v, s))
			QN_FAIL(g->ctx, QUERN_ERR_CONFIG, "output '%s' has not the %lld channels that it has scales for", g->output_names[i], (long long)s->n);
		qn_graph_set_output(g, i, s->n == 1 ? rounded(g, v, s->scale[0], s->zero_point[0]) : rounded_by_channel(g, v, s));
	}
	return QUERN_OK;
}
