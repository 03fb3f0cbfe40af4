/* widths.c - which width each layer is asked to have, and which form it gets.
 *
 * needs: roles. gives: weight_bits, act_bits, origin, form, reason and stored bytes of every layer; the graph is unchanged.
 * Precedence, last wins: defaults, roles, a loaded allocation, pins, 16-bit overrides. A form that cannot hold a weight gives way to the next wider one. */
#include "passes/allocation.h"
#include "passes/config.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/tied.h"

#include <math.h>

enum { FLOAT_BITS = QN_FLOAT_BITS };

static int config_role(qn_role r)
{
	static const int index[QN_ROLE_COUNT] = {
		[QN_ROLE_QUERY] = 1, [QN_ROLE_KEY] = 2, [QN_ROLE_VALUE] = 3, [QN_ROLE_OUTPUT] = 4, [QN_ROLE_FFN] = 5, [QN_ROLE_HEAD] = 6};
	return index[r] - 1;
}

static int role_bits(const quern_config *c, qn_role r, qn_origin *origin)
{
	int i = config_role(r);
	*origin = c->asked_weight_bits[i] || c->mixed_precision ? QN_FROM_ROLE : QN_FROM_DEFAULT;
	return qn_config_weight_bits(c, i);
}

static int role_act_bits(const quern_config *c, qn_role r)
{
	return qn_config_act_bits(c, config_role(r));
}

static void ask_by_role(const quern_config *c, qn_layer *l)
{
	l->act_bits = FLOAT_BITS;
	l->act_scale_min = (float)c->calibration.act_scale_min;
	l->weight_scale_min = (float)c->calibration.weight_scale_min;
	l->min_clip_ratio = (float)c->calibration.min_clip_ratio;
	l->weight_bits = FLOAT_BITS;
	l->origin = QN_FROM_DEFAULT;
	if (l->role == QN_ROLE_EMBEDDING) {
		l->weight_bits = c->embedding_bits;
	} else if (l->role == QN_ROLE_QKV) {
		l->weight_bits = l->act_bits = 0;
		for (int i = 0; i < l->n_parts; i++) {
			l->parts[i].weight_bits = role_bits(c, l->parts[i].role, &l->origin);
			if (l->parts[i].weight_bits > l->weight_bits)
				l->weight_bits = l->parts[i].weight_bits;
			int act = role_act_bits(c, l->parts[i].role); /* they read one tensor: the widest holds for all */
			l->act_bits = act > l->act_bits ? act : l->act_bits;
		}
	} else if (l->role != QN_ROLE_NONE) {
		l->weight_bits = role_bits(c, l->role, &l->origin);
		l->act_bits = role_act_bits(c, l->role);
	} else if (l->stored_type == QN_F16 && l->node->op->domain && !strcmp(l->node->op->domain, "quern")) {
		l->weight_bits = 16; /* as in the file; only these operators have a form for it */
	}
}

static void pin_weight(qn_layer *l, int bits, qn_origin origin)
{
	l->weight_bits = bits;
	l->origin = origin;
	for (int i = 0; i < l->n_parts; i++)
		l->parts[i].weight_bits = bits;
}

static void apply_pin(void *user, qn_layer *l)
{
	const qn_pin *pin = user;
	if (pin->weight_bits)
		pin_weight(l, pin->weight_bits, QN_FROM_PIN);
	if (pin->act_bits)
		l->act_bits = pin->act_bits;
}

static void apply_16(void *user, qn_layer *l)
{
	(void)user;
	pin_weight(l, 16, QN_FROM_OVERRIDE);
}

static void apply_act_16(void *user, qn_layer *l)
{
	(void)user;
	l->act_bits = 16;
	l->origin = QN_FROM_OVERRIDE;
}

static void apply_override(void *user, qn_layer *l)
{
	const qn_layer_override *o = user;
	float *const to[QN_OVERRIDE_COUNT] = {&l->act_scale_min, &l->weight_scale_min, &l->min_clip_ratio};
	for (int i = 0; i < QN_OVERRIDE_COUNT; i++)
		if (!strcmp(o->parameter, qn_override_names[i]))
			*to[i] = (float)o->value;
}

static qn_form form_of_bits(const qn_layer *l, int bits)
{
	if (bits <= 4)
		return QN_FORM_Q4_0;
	if (bits <= 8)
		return l->role == QN_ROLE_EMBEDDING ? QN_FORM_Q8_1 : QN_FORM_I8;
	return bits <= 16 ? QN_FORM_F16 : QN_FORM_F32;
}

/* What the values of a weight allow. */
typedef struct range {
	float largest;
	int64_t bad; /* flat index of the first NaN or infinity in the stored order, -1 */
} range;

/* Magnitudes are ordered as their bits are, which compares many at once; only what is not finite is looked for one by one. */
static bool all_finite(const float *v, int64_t n, float *largest)
{
	int32_t top = 0;
	for (int64_t i = 0; i < n; i++) {
		int32_t bits;
		memcpy(&bits, &v[i], sizeof bits);
		bits &= 0x7fffffff;
		top = bits > top ? bits : top;
	}
	memcpy(largest, &top, sizeof top);
	return top < 0x7f800000;
}

static range range_of(const float *v, int64_t n)
{
	range r = {0, -1};
	if (all_finite(v, n, &r.largest))
		return r;
	r.largest = 0;
	for (int64_t i = 0; i < n; i++) {
		float a = fabsf(v[i]);
		if (!(a <= 3.4028234663852886e38f)) {
			if (r.bad < 0)
				r.bad = i;
		} else if (a > r.largest) {
			r.largest = a;
		}
	}
	return r;
}

/* Below it f16 has fewer significant bits, down to none. */
static const float LEAST_F16 = 6.103515625e-5f;

static const char *f16_scale(const range *r, float codes)
{
	if (r->largest > codes * 65504.0f)
		return "a block scale is too large for f16";
	return r->largest > 0 && r->largest < codes * LEAST_F16 ? "its block scales are too small for f16" : NULL;
}

static const char *cannot_hold(qn_arena *a, const qn_layer *l, qn_form f, const range *r)
{
	bool linear = qn_node_is(l->node, "quern:Linear"), table = qn_node_is(l->node, "quern:Embedding");
	if (f == QN_FORM_F32)
		return NULL;
	if (r->bad >= 0)
		return qn_arena_printf(a, "its value for output %lld, input %lld is NaN or infinite", (long long)(l->k ? r->bad / l->k : 0),
			(long long)(l->k ? r->bad % l->k : r->bad));
	if (f == QN_FORM_Q4_0) {
		if (l->not_q4)
			return l->not_q4;
		return f16_scale(r, 8);
	}
	if (f == QN_FORM_Q8_1) {
		if (!table || l->k % 32)
			return l->not_q4;
		return f16_scale(r, 127);
	}
	if (f == QN_FORM_I8 && linear)
		return r->largest > 0 && r->largest / 127 < l->weight_scale_min ? "its scales would be below weightScaleMin" : NULL;
	if (f == QN_FORM_I8)
		return "the engine has no int8 form of this operator";
	if (!linear && !table)
		return "the engine does not take f16 weights for this operator";
	if (r->largest > 65504.0f || (r->largest > 0 && r->largest < LEAST_F16))
		return qn_arena_printf(a, "its largest value %g is too %s for f16", (double)r->largest, r->largest > 1 ? "large" : "small");
	return NULL;
}

static uint64_t stored_bytes(const qn_layer *l, qn_form f, int64_t rows)
{
	uint64_t n = (uint64_t)rows * (uint64_t)l->k;
	switch (f) {
	case QN_FORM_Q4_0:
		return n / 32 * 18;
	case QN_FORM_Q8_1:
		return n / 32 * 36;
	case QN_FORM_I8:
		return n + 4 * (uint64_t)rows;
	case QN_FORM_F16:
		return n * 2;
	case QN_FORM_F32:
		return n * 4;
	}
	return 0;
}

static qn_form settle_form(qn_arena *a, const qn_layer *l, int bits, const range *r, const char **reason)
{
	qn_form f = form_of_bits(l, bits);
	const char *why;
	while ((why = cannot_hold(a, l, f, r))) {
		if (!*reason)
			*reason = why;
		f = f == QN_FORM_Q4_0 && l->role == QN_ROLE_EMBEDDING ? QN_FORM_Q8_1 : f == QN_FORM_Q4_0 ? QN_FORM_I8 :
			f <= QN_FORM_I8 ? QN_FORM_F16 : QN_FORM_F32;
	}
	return f;
}

static qn_status give_form(qn_graph *g, qn_pass_env *env, qn_layer *l)
{
	const qn_value *w = l->node->in[l->weight_in];
	int64_t count = 1;
	for (int i = 0; i < w->fact.shape.rank; i++)
		count *= w->fact.shape.dim[i].k;
	range r = {0, -1};
	qn_arena scratch;
	qn_arena_init(&scratch, g->ctx);
	const qn_tensor *t;
	qn_status status = qn_graph_load(g, l->node->in[l->weight_in], &scratch, &t);
	if (status == QUERN_OK)
		r = range_of(qn_tensor_f32(&scratch, t), count);
	qn_arena_release(&scratch);
	QN_TRY(status);
	if (r.bad >= 0)
		qn_log(g->ctx, QUERN_LOG_WARN, "weight '%s' holds NaN or infinity", l->weight);
	if (!l->n || !l->k) {
		l->n = w->fact.shape.rank ? w->fact.shape.dim[0].k : 1;
		l->k = l->n ? count / l->n : 0;
	}
	l->form = settle_form(env->plan->arena, l, l->weight_bits, &r, &l->reason);
	l->bytes = stored_bytes(l, l->form, l->n);
	if (l->n_parts) {
		l->bytes = 0;
		for (int i = 0; i < l->n_parts; i++) {
			l->parts[i].form = settle_form(env->plan->arena, l, l->parts[i].weight_bits, &r, &l->reason);
			l->bytes += stored_bytes(l, l->parts[i].form, l->parts[i].n);
		}
	}
	if (!l->reason)
		return QUERN_OK;
	l->origin = QN_FROM_FALLBACK;
	if (env->plan->config->strict)
		QN_FAIL(g->ctx, QUERN_ERR_UNSUPPORTED, "layer '%s' (weight '%s') cannot have %d bits: %s; --strict forbids the next wider form, %s", l->name,
			l->weight, l->weight_bits, l->reason, qn_form_name(l->form));
	return QUERN_OK;
}

/* Only linear layers have a form with quantized activations. */
static qn_status settle_activation(qn_graph *g, qn_pass_env *env, qn_layer *l)
{
	if (l->act_bits > QN_MOST_ACT_BITS || l->node->op == qn_op_find("quern", "Linear"))
		return QUERN_OK;
	if (env->plan->config->strict)
		QN_FAIL(g->ctx, QUERN_ERR_UNSUPPORTED, "layer '%s' (weight '%s') cannot have activations of %d bits: the engine has no such form of %s; "
			"--strict forbids float activations", l->name, l->weight, l->act_bits, l->node->op->name);
	l->act_bits = FLOAT_BITS;
	l->act_reason = "the engine has no form of this operator with quantized activations";
	return QUERN_OK;
}

qn_status qn_pass_widths(qn_graph *g, qn_pass_env *env)
{
	qn_plan *p = env->plan;
	const quern_config *c = p->config;
	for (size_t i = 0; i < p->n; i++)
		ask_by_role(c, &p->layers[i]);
	if (p->loaded)
		QN_TRY(qn_allocation_apply(g->ctx, p, p->loaded));
	for (size_t i = 0; i < c->n_pins; i++)
		QN_TRY(qn_match_layers(g->ctx, p, "layer", c->pins[i].name, apply_pin, &c->pins[i]));
	for (size_t i = 0; i < c->weight_16.n; i++)
		QN_TRY(qn_match_layers(g->ctx, p, "weight-16bits", c->weight_16.v[i], apply_16, NULL));
	QN_TRY(qn_tie_tables(g, p));
	for (size_t i = 0; i < c->act_16.n; i++)
		QN_TRY(qn_match_layers(g->ctx, p, "activation-16bits", c->act_16.v[i], apply_act_16, NULL));
	for (size_t i = 0; i < c->calibration.n_overrides; i++) {
		qn_layer_override *o = &c->calibration.overrides[i];
		for (size_t k = 0; k < o->layers.n; k++)
			QN_TRY(qn_match_layers(g->ctx, p, o->parameter, o->layers.v[k], apply_override, o));
	}
	for (size_t i = 0; i < p->n; i++) {
		QN_TRY(give_form(g, env, &p->layers[i]));
		QN_TRY(settle_activation(g, env, &p->layers[i]));
	}
	if (p->loaded)
		qn_allocation_settle(g->ctx, p, p->loaded);
	return QUERN_OK;
}
