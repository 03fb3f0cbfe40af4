/* widths.c - which width each layer is asked to have, and which form it gets.
 *
 * needs: roles. gives: weight_bits, act_bits, origin, form, reason and stored bytes of every layer; the graph is unchanged.
 * Precedence, last wins: defaults, roles, a loaded allocation, pins, 16-bit overrides. A form that cannot hold a weight gives way to the next wider one. */
#include "passes/allocation.h"
#include "passes/config.h"
#include "passes/forms.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/tied.h"

enum { FLOAT_BITS = QN_FLOAT_BITS };

static int config_role(qn_role r)
{
	static const int index[QN_ROLE_COUNT] = {
		[QN_ROLE_QUERY] = 1, [QN_ROLE_KEY] = 2, [QN_ROLE_VALUE] = 3, [QN_ROLE_OUTPUT] = 4, [QN_ROLE_FFN] = 5, [QN_ROLE_HEAD] = 6};
	return index[r] - 1;
}

bool qn_role_is_asked(const quern_config *c, qn_role r)
{
	int i = config_role(r);
	return i >= 0 && c->asked_weight_bits[i];
}

bool qn_role_act_is_asked(const quern_config *c, qn_role r)
{
	int i = config_role(r);
	return i >= 0 && c->asked_act_bits[i];
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
		l->weight_bits = qn_config_embedding_bits(c);
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
	l->weight_pinned = true;
	l->origin = origin;
	for (int i = 0; i < l->n_parts; i++)
		l->parts[i].weight_bits = bits;
}

static void apply_pin(void *user, qn_layer *l)
{
	const qn_pin *pin = user;
	if (pin->weight_bits)
		pin_weight(l, pin->weight_bits, QN_FROM_PIN);
	if (pin->act_bits) {
		l->act_bits = pin->act_bits;
		l->act_pinned = true;
	}
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
	l->act_pinned = true;
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

static qn_status give_form(qn_graph *g, qn_pass_env *env, qn_layer *l)
{
	QN_TRY(qn_layer_give_form(g, env->plan->arena, l));
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

static bool has_role(const qn_plan *p, int role)
{
	bool has = false;
	for (size_t i = 0; i < p->n; i++) {
		has |= config_role(p->layers[i].role) == role;
		for (int k = 0; k < p->layers[i].n_parts; k++)
			has |= config_role(p->layers[i].parts[k].role) == role;
	}
	return has;
}

/* Widths that an option gives to a role which the model does not have. */
static void note_absent_roles(qn_graph *g, const qn_plan *p, qn_arena *scratch)
{
	qn_text absent = {.arena = scratch};
	for (int i = 0; i < QN_ROLE_COUNT; i++) {
		int role = config_role((qn_role)i);
		if (role >= 0 && p->config->named_role[role] && !has_role(p, role))
			qn_text_add(&absent, "%s%s", absent.len ? ", " : "", qn_role_name((qn_role)i));
	}
	if (absent.len)
		qn_log(g->ctx, QUERN_LOG_INFO, "the model has no layer of the role %s: the widths given to it change nothing", absent.s);
}

qn_status qn_pass_widths(qn_graph *g, qn_pass_env *env)
{
	qn_plan *p = env->plan;
	const quern_config *c = p->config;
	note_absent_roles(g, p, env->scratch);
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
