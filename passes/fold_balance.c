/* fold_balance.c - the factors of balanced tensors go into the graph, which computes the same as before.
 *
 * needs: scales. gives: layers that read x / m and have weights w m. 1 / m goes into the gain and bias of the normalization that makes x,
 * or into the rows and the bias of the linear layer that makes it, where nothing but those layers reads x; else a multiplication by a
 * constant vector is put in. Weights become recipes over the ones before. */
#include "passes/fold.h"
#include "passes/passes.h"

enum { MOST_READERS = 64 };

typedef struct fold {
	qn_graph *g;
	qn_plan *plan;
	qn_value *x;
	const float *m;
	int64_t k;
	qn_layer *reader[MOST_READERS];
	int n;
} fold;

static bool only_readers(const fold *f)
{
	size_t reads = 0;
	for (int i = 0; i < f->n; i++)
		for (int k = 0; k < f->reader[i]->node->n_in; k++)
			reads += f->reader[i]->node->in[k] == f->x;
	return !f->x->is_output && reads == f->x->n_uses;
}

static void multiply(const fold *f)
{
	qn_value *in[] = {f->x, qn_fold_vector(f->g, qn_arena_printf(f->g->arena, "%s.factors", f->x->name), f->m, f->k, true)};
	qn_value *y = qn_graph_apply(f->g, f->reader[0]->node, "Mul", qn_arena_printf(f->g->arena, "%s.balanced", f->x->name), in, 2);
	y->fact = (qn_fact){QN_F32, f->x->fact.shape, NULL};
	for (int i = 0; i < f->n; i++)
		qn_node_set_input(f->g, f->reader[i]->node, 0, y);
}

static qn_status fold_one(fold *f)
{
	bool done = false;
	qn_node *from = f->x->producer;
	if (from && from->out[0] == f->x && only_readers(f)) {
		QN_TRY(qn_fold_into_norm(f->g, from, f->m, f->k, &done));
		qn_layer *maker = qn_plan_find(f->plan, from);
		if (!done && maker)
			QN_TRY(qn_fold_into_rows(f->g, maker, f->m, &done));
	}
	if (!done)
		multiply(f);
	qn_value *m = qn_fold_vector(f->g, qn_arena_printf(f->g->arena, "%s.balance", f->x->name), f->m, f->k, false);
	for (int i = 0; i < f->n; i++)
		qn_fold_into_columns(f->g, f->reader[i], m);
	return QUERN_OK;
}

qn_status qn_pass_fold_balance(qn_graph *g, qn_pass_env *env)
{
	qn_plan *p = env->plan;
	bool *done = QN_NEW(env->scratch, bool, p->n + 1);
	for (size_t i = 0; i < p->n; i++) {
		qn_layer *l = &p->layers[i];
		if (done[i] || !l->node || !l->balance)
			continue;
		fold f = {.g = g, .plan = p, .x = l->node->in[0], .m = l->balance, .k = l->k};
		for (size_t j = i; j < p->n && f.n < MOST_READERS; j++) {
			qn_layer *o = &p->layers[j];
			bool same = o->node && !done[j] && o->balance && o->node->in[0] == f.x && o->k == f.k;
			if (!same || memcmp(o->balance, f.m, (size_t)f.k * sizeof *f.m))
				continue;
			done[j] = true;
			f.reader[f.n++] = o;
		}
		QN_TRY(fold_one(&f));
	}
	qn_graph_sweep(g);
	return QUERN_OK;
}
