/* config.c - defaults and the checked setters of a configuration. */
#include "passes/config.h"

#include "passes/config_fields.h"
#include "passes/context.h"
#include "passes/plan.h"
#include "passes/preset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

const char *const qn_override_names[QN_OVERRIDE_COUNT] = {"actScaleMin", "weightScaleMin", "minclipRatio"};

quern_config *quern_config_new(quern_context *context)
{
	qn_ctx *ctx = &context->ctx;
	jmp_buf buf, *saved = ctx->on_memory;
	if (setjmp(buf)) {
		ctx->on_memory = saved;
		return NULL;
	}
	ctx->on_memory = &buf;
	quern_config *c = qn_heap(ctx, NULL, 0, sizeof *c);
	*c = (quern_config){.context = context,
		.ctx = ctx,
		.rounding = QN_ROUND_MSE,
		.percentile = 1};
	qn_arena_init(&c->arena, ctx);
	qn_config_defaults(c);
	ctx->on_memory = saved;
	return c;
}

void quern_config_free(quern_config *c)
{
	if (!c)
		return;
	qn_arena_release(&c->arena);
	qn_heap(c->ctx, c, sizeof *c, 0);
}

/* A whole decimal number in [low, high]. */
static qn_status number(quern_config *c, const char *what, const char *text, int64_t low, int64_t high, int64_t *out)
{
	char *end;
	errno = 0;
	long long v = strtoll(text, &end, 10);
	if (!*text || *end || errno || v < low || v > high)
		QN_FAIL(c->ctx, QUERN_ERR_CONFIG, "%s: '%s' is no whole number from %lld to %lld", what, text, (long long)low, (long long)high);
	*out = v;
	return QUERN_OK;
}

int qn_config_weight_bits(const quern_config *c, int role)
{
	return c->asked_weight_bits[role] ? c->asked_weight_bits[role] : c->mixed_precision ? c->weight_bits[role] :
		qn_preset_weight_bits(c->preset, role);
}

int qn_config_embedding_bits(const quern_config *c) { return c->embedding_asked ? c->embedding_bits : qn_preset_embedding_bits(c->preset); }

const quern_config *qn_config_settled(qn_arena *a, const quern_config *c)
{
	if (!c || !c->preset || c->rounding_asked)
		return c;
	quern_config *own = QN_NEW(a, quern_config, 1);
	*own = *c;
	own->rounding = c->calib_path ? QN_ROUND_GPTQ : QN_ROUND_MSE;
	return own;
}

int qn_config_act_bits(const quern_config *c, int role)
{
	return c->asked_act_bits[role] ? c->asked_act_bits[role] : c->mixed_precision ? c->act_bits[role] : QN_FLOAT_BITS;
}

static int role_index(const char *name)
{
	for (int i = 0; i < QN_CONFIG_ROLES; i++) {
		static const qn_role order[] = {QN_ROLE_QUERY, QN_ROLE_KEY, QN_ROLE_VALUE, QN_ROLE_OUTPUT, QN_ROLE_FFN, QN_ROLE_HEAD};
		if (!strcmp(qn_role_name(order[i]), name))
			return i;
	}
	return -1;
}

static qn_status by_role(quern_config *c, const char *what, const char *spec, int *bits)
{
	qn_arena a;
	qn_arena_init(&a, c->ctx);
	int64_t v;
	qn_status status = QUERN_OK;
	if (!strchr(spec, '=')) {
		status = number(c, what, spec, 1, 32, &v);
		for (int i = 0; i < QN_CONFIG_ROLES && status == QUERN_OK; i++)
			bits[i] = (int)v;
		return status;
	}
	char *rest = qn_arena_strdup(&a, spec), *item;
	while (status == QUERN_OK && (item = strsep(&rest, ","))) {
		char *value = strchr(item, '=');
		if (value)
			*value++ = '\0';
		int role = role_index(item);
		if (!value || role < 0)
			status = qn_fail(c->ctx, QUERN_ERR_CONFIG,
				"%s: '%s' is no ROLE=BITS; roles are query, key, value, output, ffn and head", what, item);
		else if ((status = number(c, what, value, 1, 32, &v)) == QUERN_OK) {
			bits[role] = (int)v;
			c->named_role[role] = true;
		}
	}
	qn_arena_release(&a);
	return status;
}

quern_status quern_config_bits(quern_config *c, const char *spec) { return by_role(c, "bits", spec, c->asked_weight_bits); }

quern_status quern_config_act_bits(quern_config *c, const char *spec) { return by_role(c, "act-bits", spec, c->asked_act_bits); }

void qn_config_pin(quern_config *c, const char *name, int weight_bits, int act_bits)
{
	/* a new list: a merge that fails goes back to the old one */
	qn_pin pin = {NULL, weight_bits, act_bits}, *old = c->pins;
	c->pins = QN_NEW(&c->arena, qn_pin, c->n_pins + 1);
	size_t n = 0;
	for (size_t i = 0; i < c->n_pins; i++) {
		if (strcmp(old[i].name, name)) {
			c->pins[n++] = old[i];
			continue;
		}
		pin.weight_bits = weight_bits ? weight_bits : old[i].weight_bits;
		pin.act_bits = act_bits ? act_bits : old[i].act_bits;
	}
	pin.name = qn_arena_strdup(&c->arena, name);
	c->pins[n++] = pin;
	c->n_pins = n;
}

quern_status quern_config_layer(quern_config *c, const char *text)
{
	QN_ENTER(c->ctx, saved, buf);
	const char *equals = strrchr(text, '=');
	qn_status status = QUERN_OK;
	if (!equals || equals == text) {
		status = qn_fail(c->ctx, QUERN_ERR_CONFIG, "layer: '%s' is no NAME=BITS", text);
	} else {
		char *bits = qn_arena_strdup(&c->arena, equals + 1), *act = strchr(bits, '/');
		int64_t w = 0, x = 0;
		if (act)
			*act++ = '\0';
		status = number(c, "layer", bits, 1, 32, &w);
		if (status == QUERN_OK && act)
			status = number(c, "layer", act, 1, 32, &x);
		if (status == QUERN_OK)
			qn_config_pin(c, qn_arena_strndup(&c->arena, text, (size_t)(equals - text)), (int)w, (int)x);
	}
	QN_LEAVE(c->ctx, saved);
	return status;
}

static qn_status add_name(quern_config *c, const char *what, qn_name_list *list, const char *name)
{
	if (!*name)
		QN_FAIL(c->ctx, QUERN_ERR_CONFIG, "%s: an empty name matches no layer", what);
	QN_ENTER(c->ctx, saved, buf);
	QN_GROW(&c->arena, list->v, list->n, list->cap);
	list->v[list->n++] = qn_arena_strdup(&c->arena, name);
	QN_LEAVE(c->ctx, saved);
	return QUERN_OK;
}

quern_status quern_config_weight_16bits(quern_config *c, const char *name) { return add_name(c, "weight-16bits", &c->weight_16, name); }

quern_status quern_config_activation_16bits(quern_config *c, const char *name)
{
	return add_name(c, "activation-16bits", &c->act_16, name);
}

quern_status quern_config_embedding_bits(quern_config *c, int bits)
{
	if (bits < 1 || bits > 32)
		QN_FAIL(c->ctx, QUERN_ERR_CONFIG, "embedding-bits: %d is not in 1..32", bits);
	c->embedding_bits = bits;
	c->embedding_asked = true;
	return QUERN_OK;
}

static qn_status choose(quern_config *c, const char *what, const char *name, const char *const *names, size_t n, int *out)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(names[i], name)) {
			*out = (int)i;
			return QUERN_OK;
		}
	const char *near = qn_nearest(name, names, n);
	char known[256] = "";
	for (size_t i = 0, at = 0; i < n && at < sizeof known; i++)
		at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", names[i]);
	QN_FAIL(c->ctx, QUERN_ERR_CONFIG, "%s: '%s' is not known%s%s%s; known: %s", what, name, near ? ", did you mean '" : "", near ? near : "",
		near ? "'" : "", known);
}

static const char *const roundings[] = {"minmax", "signed", "mse", "importance", "gptq"};

const char *qn_rounding_name(qn_rounding r) { return roundings[r]; }

quern_status quern_config_rounding(quern_config *c, const char *name)
{
	int i;
	QN_TRY(choose(c, "rounding", name, roundings, QN_LEN(roundings), &i));
	c->rounding = (qn_rounding)i;
	c->rounding_asked = true;
	return QUERN_OK;
}

quern_status quern_config_preset(quern_config *c, const char *name)
{
	int i;
	QN_TRY(choose(c, "preset", name, qn_preset_names + 1, QN_PRESET_COUNT - 1, &i));
	c->preset = i + 1;
	return QUERN_OK;
}

quern_status quern_config_calibration(quern_config *c, const char *path)
{
	QN_ENTER(c->ctx, saved, buf);
	c->calib_path = qn_arena_strdup(&c->arena, path);
	QN_LEAVE(c->ctx, saved);
	return QUERN_OK;
}

quern_status quern_config_method(quern_config *c, int method)
{
	if (method < 0 || method > 3)
		QN_FAIL(c->ctx, QUERN_ERR_CONFIG, "method: %d is not in 0..3", method);
	c->calibration.method = method;
	return QUERN_OK;
}

quern_status quern_config_mode(quern_config *c, const char *name)
{
	static const char *const names[] = {"max", "maxPercentile", "histogram", "histogram-mse", "histogram-kl"};
	int i;
	QN_TRY(choose(c, "mode", name, names, QN_LEN(names), &i));
	c->calibration.mode = i < QN_CALIB_HISTOGRAM ? i : QN_CALIB_HISTOGRAM;
	c->calibration.hist_search_type = i < QN_CALIB_HISTOGRAM ? 0 : i - QN_CALIB_HISTOGRAM;
	return QUERN_OK;
}

quern_status quern_config_percentile(quern_config *c, double p)
{
	if (!(p > 0 && p <= 1))
		QN_FAIL(c->ctx, QUERN_ERR_CONFIG, "percentile: %g is not in (0, 1]", p);
	c->percentile = p;
	c->percentile_asked = true;
	return QUERN_OK;
}

quern_status quern_config_target(quern_config *c, const char *name)
{
	static const char *const names[] = {"tract", "khronos"};
	int i;
	QN_TRY(choose(c, "target", name, names, QN_LEN(names), &i));
	c->target = (qn_target)i;
	return QUERN_OK;
}

quern_status quern_config_set_symbol(quern_config *c, const char *text)
{
	const char *equals = strrchr(text, '=');
	int64_t v;
	if (!equals)
		QN_FAIL(c->ctx, QUERN_ERR_CONFIG, "set: '%s' is no SYMBOL=N", text);
	QN_TRY(number(c, "set", equals + 1, 0, INT32_MAX, &v));
	QN_ENTER(c->ctx, saved, buf);
	QN_GROW(&c->arena, c->sets, c->n_sets, c->cap_sets);
	c->sets[c->n_sets++] = (qn_set){qn_arena_strndup(&c->arena, text, (size_t)(equals - text)), v};
	QN_LEAVE(c->ctx, saved);
	return QUERN_OK;
}

void quern_config_strict(quern_config *c, bool strict) { c->strict = strict; }

void quern_config_equalize(quern_config *c, bool on) { c->equalize = on; }

void quern_config_dynamic_activations(quern_config *c, bool on) { c->dynamic_activations = on; }

static quern_status keep_path(quern_config *c, const char *path, const char **to)
{
	QN_ENTER(c->ctx, saved, buf);
	*to = *path ? qn_arena_strdup(&c->arena, path) : NULL;
	QN_LEAVE(c->ctx, saved);
	return QUERN_OK;
}

quern_status quern_config_save_bits(quern_config *c, const char *path) { return keep_path(c, path, &c->save_path); }

quern_status quern_config_report(quern_config *c, const char *path)
{
	const char *dot = strrchr(path, '.');
	if (*path && (!dot || (strcmp(dot, ".html") && strcmp(dot, ".json"))))
		QN_FAIL(c->ctx, QUERN_ERR_CONFIG, "report: '%s' ends neither in .html nor in .json", path);
	return keep_path(c, path, &c->report_path);
}

quern_status quern_config_load_bits(quern_config *c, const char *path) { return keep_path(c, path, &c->load_path); }
