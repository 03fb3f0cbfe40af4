/* apply.c - the factors of a group into the constants around it. */
#include "passes/equalize/equalize.h"
#include "passes/fold.h"

#include <math.h>

/* 1 where a channel does not come to x. */
static void divide_source_by(qn_plan *p, qn_equal_group *e)
{
	int64_t n = qn_equal_channels(e);
	float *t = QN_NEW(p->arena, float, n);
	for (int64_t i = 0; i < n; i++)
		t[i] = 1;
	for (int64_t k = 0; k < e->k; k++)
		t[e->channel[k]] = e->s[k];
	e->t = t;
}

/* Whether the columns times s still have scales that f16 holds. */
static qn_status columns_fit(qn_graph *g, const qn_equal_group *e, bool *fit)
{
	*fit = true;
	for (size_t i = 0; i < e->n; i++) {
		qn_arena a;
		qn_arena_init(&a, g->ctx);
		const qn_tensor *t;
		qn_status status = qn_graph_load(g, e->readers[i]->node->in[1], &a, &t);
		const float *w = status == QUERN_OK ? qn_tensor_f32(&a, t) : NULL;
		for (int64_t k = 0; w && k < e->readers[i]->n * e->k; k++)
			*fit &= fabsf(w[k]) * e->s[k % e->k] < QN_FOLD_MOST_F16;
		qn_arena_release(&a);
		QN_TRY(status);
	}
	return QUERN_OK;
}

static qn_equal_undo *remember(const qn_equal_group *e, qn_arena *a)
{
	qn_equal_undo *u = QN_NEW(a, qn_equal_undo, 1);
	const qn_node *n = qn_equal_source(e);
	for (int i = 0; i < 2; i++)
		u->source[i] = qn_node_has_in(n, i + 1) ? n->in[i + 1] : NULL;
	for (size_t i = 0; i < e->n; i++)
		u->weights[i] = e->readers[i]->node->in[1];
	u->divided = e->maker ? e->maker->divided : NULL;
	return u;
}

qn_status qn_equal_apply(qn_graph *g, qn_plan *p, qn_equal_group *e, qn_arena *a, qn_equal_undo **undo)
{
	bool done = false, fit;
	*undo = NULL;
	qn_equal_undo *u = remember(e, a);
	QN_TRY(columns_fit(g, e, &fit));
	divide_source_by(p, e);
	if (fit && e->norm)
		QN_TRY(qn_fold_into_norm(g, e->norm, e->t, qn_equal_channels(e), &done));
	if (fit && e->maker)
		QN_TRY(qn_fold_into_rows(g, e->maker, e->t, &done));
	if (!done) {
		e->why = fit ? "the constants of what makes it cannot take factors" : "its layers' weights are too large to take factors";
		return QUERN_OK;
	}
	qn_value *s = qn_fold_vector(g, qn_arena_printf(g->arena, "%s.equalized", e->x->name), e->s, e->k, false);
	for (size_t i = 0; i < e->n; i++) {
		qn_fold_into_columns(g, e->readers[i], s);
		e->readers[i]->equalized = e->s;
	}
	*undo = u;
	return QUERN_OK;
}

void qn_equal_take_back(qn_graph *g, qn_equal_group *e, const qn_equal_undo *u)
{
	qn_node *n = qn_equal_source(e);
	for (int i = 0; i < 2; i++)
		if (u->source[i])
			qn_node_set_input(g, n, i + 1, u->source[i]);
	for (size_t i = 0; i < e->n; i++) {
		qn_node_set_input(g, e->readers[i]->node, 1, u->weights[i]);
		e->readers[i]->equalized = NULL;
	}
	if (e->maker)
		e->maker->divided = u->divided;
}
