/* units.c - which layers get a width together, and the widths to choose from. */
#include "passes/forms.h"
#include "passes/tied.h"
#include "passes/tune/tuner.h"

static const int widths[QN_MOST_CANDIDATES] = {4, 8, 16};
static const int NARROW_ACT = 8, WIDE_ACT = 16, FLOAT_ACT = 32;

/* Widths that the user gave hold; those of mixed precision by role are where the tuning starts from. */
static bool is_fixed(const qn_tuner *t, const qn_layer *l)
{
	const quern_config *c = t->config;
	if (l->weight_pinned || (l->role == QN_ROLE_EMBEDDING && !t->options->embeddings))
		return true;
	for (int i = 0; i < l->n_parts; i++)
		if (qn_role_is_asked(c, l->parts[i].role))
			return true;
	return qn_role_is_asked(c, l->role);
}

static bool is_linear(const qn_layer *l) { return l->node->op == qn_op_find("quern", "Linear"); }

/* Likewise of activations. Only int8 weights gain by narrow ones: other forms multiply floats, whatever they read. */
static bool act_is_open(const qn_tuner *t, const qn_unit *u)
{
	bool integers = false, open = false;
	for (int c = 0; c < u->n_candidates; c++)
		integers |= u->candidates[c].form == QN_FORM_I8;
	for (size_t i = 0; i < u->n; i++) {
		const qn_layer *l = u->layers[i];
		if (!is_linear(l))
			continue;
		open = true;
		bool asked = l->act_pinned || qn_role_act_is_asked(t->config, l->role), same = true;
		for (int k = 0; k < l->n_parts; k++) {
			asked |= qn_role_act_is_asked(t->config, l->parts[k].role);
			same &= !u->fixed || l->parts[k].form == QN_FORM_I8;
		}
		if (asked || !same)
			return false;
	}
	return integers && open;
}

bool qn_unit_tunes_act(const qn_tuner *t, const qn_unit *u)
{
	return t->options->activations && u->act_open && u->candidates[u->chosen].form == QN_FORM_I8;
}

/* As the layers read it: one that reads the transposed weight of another has codes of its own. */
static qn_status same_weight(qn_graph *g, qn_layer *a, qn_layer *b, bool *same)
{
	qn_value *x = a->node->in[a->weight_in], *y = b->node->in[b->weight_in];
	bool table = (a->role == QN_ROLE_EMBEDDING) != (b->role == QN_ROLE_EMBEDDING);
	qn_value *root = qn_value_root(x);
	bool alike = table || (root && root == qn_value_root(y));
	*same = x == y;
	return !*same && alike && a->n == b->n && a->k == b->k ? qn_same_matrix(g, x, y, same) : QUERN_OK;
}

static qn_status place(qn_tuner *t, qn_layer *l)
{
	qn_unit *u = NULL;
	for (size_t i = 0; i < t->n && !u; i++) {
		bool same;
		QN_TRY(same_weight(t->model->graph, t->units[i].layers[0], l, &same));
		u = same ? &t->units[i] : NULL;
	}
	if (!u) {
		QN_GROW(t->a, t->units, t->n, t->cap);
		u = &t->units[t->n++];
		*u = (qn_unit){0};
	}
	QN_GROW(t->a, u->layers, u->n, u->cap);
	u->layers[u->n++] = l;
	return QUERN_OK;
}

/* A layer as it would be with other widths. */
static qn_status with_bits(qn_tuner *t, const qn_layer *l, int bits, qn_layer *out)
{
	*out = *l;
	out->weight_bits = bits;
	out->parts = QN_NEW(t->a, qn_part, l->n_parts);
	for (int i = 0; i < l->n_parts; i++) {
		out->parts[i] = l->parts[i];
		out->parts[i].weight_bits = bits;
	}
	return qn_layer_give_form(t->model->graph, t->a, out);
}

static bool is_tied(const qn_unit *u)
{
	bool table = false, product = false;
	for (size_t i = 0; i < u->n; i++)
		*(u->layers[i]->role == QN_ROLE_EMBEDDING ? &table : &product) = true;
	return table && product;
}

/* Factors of balanced activations are those of what a layer reads, so each layer may have to have a weight of its own. */
static bool may_be_balanced(const qn_tuner *t, const qn_unit *u)
{
	bool narrow = false;
	for (size_t i = 0; i < u->n; i++)
		narrow |= is_linear(u->layers[i]) && (t->options->activations || u->layers[i]->act_bits <= QN_MOST_ACT_BITS);
	return narrow && !is_tied(u) && qn_method_balances(t->config->calibration.method);
}

static qn_status count_stored(const qn_tuner *t, qn_unit *u)
{
	for (size_t i = 0; i < u->n; i++) {
		bool same = false;
		for (size_t k = 0; k < i && !same && !may_be_balanced(t, u); k++)
			QN_TRY(qn_same_matrix(t->model->graph, u->layers[i]->node->in[u->layers[i]->weight_in], u->layers[k]->node->in[u->layers[k]->weight_in], &same));
		u->stored += !same;
	}
	return QUERN_OK;
}

static void add_candidate(qn_unit *u, int bits, const qn_layer *l)
{
	uint64_t bytes = l->bytes * u->stored;
	for (int i = 0; i < u->n_candidates; i++)
		if (u->candidates[i].bytes == bytes)
			return;
	bool exact = l->form == QN_FORM_F16 || l->form == QN_FORM_F32;
	u->candidates[u->n_candidates++] = (qn_candidate){.bits = bits, .form = l->form, .bytes = bytes, .known = exact};
}

static qn_status make_candidates(qn_tuner *t, qn_unit *u)
{
	qn_layer *l = u->layers[0], as;
	for (size_t i = 0; i < u->n; i++) {
		u->fixed |= is_fixed(t, u->layers[i]) && !(u->layers[i]->role == QN_ROLE_EMBEDDING && is_tied(u) && !u->layers[i]->weight_pinned);
		u->counts |= u->layers[i]->role != QN_ROLE_EMBEDDING || t->options->embeddings;
	}
	u->weights = (uint64_t)l->n * (uint64_t)l->k;
	QN_TRY(count_stored(t, u));
	if (u->fixed) {
		add_candidate(u, l->weight_bits, l);
		return QUERN_OK;
	}
	for (int i = 0; i < QN_MOST_CANDIDATES; i++) {
		if (widths[i] == 8 && is_tied(u)) /* gathers and products have no such form in common */
			continue;
		QN_TRY(with_bits(t, l, widths[i], &as));
		if (!as.reason)
			add_candidate(u, widths[i], &as);
	}
	if (!u->n_candidates)
		add_candidate(u, l->weight_bits, l);
	return QUERN_OK;
}

qn_status qn_units_make(qn_tuner *t)
{
	qn_plan *p = &t->model->plan;
	for (size_t i = 0; i < p->n; i++)
		if (p->layers[i].role)
			QN_TRY(place(t, &p->layers[i]));
	size_t open = 0;
	for (size_t i = 0; i < t->n; i++) {
		qn_unit *u = &t->units[i];
		QN_TRY(make_candidates(t, u));
		u->act_open = act_is_open(t, u);
		u->act = (qn_candidate){.bits = NARROW_ACT, .form = QN_FORM_I8};
		u->act_bits = WIDE_ACT;
		open += u->n_candidates > 1 || (u->act_open && t->options->activations);
		t->counted_weights += u->counts ? u->weights * u->stored : 0;
		t->uncounted_bytes += u->counts ? 0 : u->candidates[0].bytes;
	}
	if (!open)
		QN_FAIL(t->ctx, QUERN_ERR_CONFIG, "there is nothing to tune: %s", !t->n ? "no layer has a role" :
			"every layer has its width fixed by the options, or only one that it can have");
	return QUERN_OK;
}

qn_status qn_units_apply(const qn_tuner *t, quern_model *m)
{
	for (size_t i = 0; i < t->n; i++) {
		const qn_unit *u = &t->units[i];
		for (size_t k = 0; k < u->n; k++) {
			qn_layer *l = &m->plan.layers[u->layers[k] - t->model->plan.layers];
			if (t->options->activations && u->act_open && is_linear(u->layers[k]))
				l->act_bits = qn_unit_tunes_act(t, u) ? u->act_bits : FLOAT_ACT;
			if (u->fixed)
				continue;
			l->weight_bits = u->candidates[u->chosen].bits;
			for (int j = 0; j < l->n_parts; j++)
				l->parts[j].weight_bits = l->weight_bits;
			l->origin = QN_FROM_TUNED;
			QN_TRY(qn_layer_give_form(m->graph, &m->arena, l));
		}
	}
	return QUERN_OK;
}
