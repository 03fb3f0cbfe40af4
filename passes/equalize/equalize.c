/* equalize.c - factors between the channels of tensors and the weights that read them, where they cost nothing at run time.
 *
 * needs: widths. gives: smaller rounding errors; the graph computes what it did before, which is checked. Does nothing unless it is asked
 * for, or an allocation brings factors. Factors are those with which the layers' weights, rounded, make the smallest error: search.c. */
#include "passes/equalize/equalize.h"

#include "passes/config.h"
#include "passes/fold.h"
#include "passes/gptq/layer.h"
#include "passes/passes.h"

#include <math.h>

typedef struct equalizer {
	qn_graph *g;
	qn_pass_env *env;
	qn_plan *p;
	qn_equal_group *groups;
	size_t n, cap;
	qn_equal_undo **undo; /* by group; NULL: nothing was folded */
	qn_moments *moments;  /* by value id; NULL: no samples */
} equalizer;

bool qn_equal_is_own(const qn_plan *p, const qn_layer *l)
{
	if (!l || !l->node || l->weight_in != 1 || l->node->op != qn_op_find("quern", "Linear"))
		return false;
	const qn_value *w = l->node->in[1];
	return w->is_const && w->fact.type == QN_F32 && w->fact.shape.rank == 2 && !l->ready_weight && !qn_gptq_shares_weight(p, l);
}

/* --- which tensors ---------------------------------------------------------------------------------------------------------- */
static qn_equal_group *group_of(equalizer *q, const qn_value *x)
{
	for (size_t i = 0; i < q->n; i++)
		if (q->groups[i].x == x)
			return &q->groups[i];
	return NULL;
}

/* x is the norm's result itself. */
static void take_norm(equalizer *q, qn_equal_group *e, qn_node *norm)
{
	int64_t *same = QN_NEW(q->p->arena, int64_t, e->k);
	for (int64_t k = 0; k < e->k; k++)
		same[k] = k;
	e->norm = norm;
	e->channel = same;
}

/* All readers have to be layers that can take the factors. */
static void add_group(equalizer *q, qn_layer *first)
{
	qn_value *x = first->node->in[0];
	QN_GROW(q->env->scratch, q->groups, q->n, q->cap);
	qn_equal_group *e = &q->groups[q->n++];
	*e = (qn_equal_group){.x = x, .k = first->k, .error = NAN};
	if (x->producer && x->producer->out[0] == x && qn_fold_is_norm(x->producer))
		take_norm(q, e, x->producer);
	if (x->is_output)
		e->why = "it is an output of the graph";
	for (size_t i = 0; i < x->n_uses && !e->why; i++) {
		qn_node *n = x->uses[i].node;
		qn_layer *l = qn_plan_find(q->p, n);
		if (x->uses[i].input != 0 || !qn_equal_is_own(q->p, l))
			e->why = qn_arena_printf(
				q->p->arena, "'%s' (%s) reads it too%s", n->name, n->op->name, l ? ", whose weight is not its own" : "");
		else if (l->role == QN_ROLE_HEAD)
			e->why = "the errors of a head's rows do not count alike, so those of its weight do not tell";
		else if (e->n == QN_EQUAL_READERS)
			e->why = "too many layers read it";
		else
			e->readers[e->n++] = l;
	}
}

static void note(equalizer *q, const char *tensor, const qn_node *source, size_t layers, const char *why, double error)
{
	qn_plan *p = q->p;
	QN_GROW(p->arena, p->equalizations, p->n_equalizations, p->cap_equalizations);
	p->equalizations[p->n_equalizations++] = (qn_equalization){tensor, source->name, layers, why, error};
}

/* Whether a layer's result may be linear in it up to the layers that read it. Queries and keys go through a softmax. */
static bool may_make(const qn_layer *l)
{
	return l->role != QN_ROLE_QUERY && l->role != QN_ROLE_KEY && l->role != QN_ROLE_HEAD;
}

/* Where the channels of `from` come to: a norm, or the layer l. */
static qn_status find_readers(equalizer *q, qn_node *from, qn_layer *l)
{
	qn_arena a;
	qn_arena_init(&a, q->g->ctx);
	qn_equal_path path;
	qn_status status = qn_equal_follow(q->g, q->p, from, &a, &path);
	qn_arena_release(&a);
	QN_TRY(status);
	qn_equal_group *e = path.x ? group_of(q, path.x) : NULL;
	if (e && !e->norm && !e->maker) {
		e->norm = l ? NULL : from;
		e->maker = l;
		e->channel = path.channel;
	} else if (!path.x && !path.sum) {
		note(q, from->out[0]->name, from, 0, path.why, NAN);
	}
	return QUERN_OK;
}

static qn_status find_groups(equalizer *q)
{
	for (size_t i = 0; i < q->p->n; i++) {
		qn_layer *l = &q->p->layers[i];
		if (qn_equal_is_own(q->p, l) && !group_of(q, l->node->in[0]))
			add_group(q, l);
	}
	for (qn_node *n = q->g->first; n; n = n->next) {
		bool norm = n->out[0] && !n->out[0]->is_const && qn_fold_is_norm(n);
		qn_layer *l = norm ? NULL : qn_plan_find(q->p, n);
		if ((norm && !group_of(q, n->out[0])) || (qn_equal_is_own(q->p, l) && may_make(l)))
			QN_TRY(find_readers(q, n, l));
	}
	return QUERN_OK;
}

/* --- which factors ------------------------------------------------------------------------------------------------------------ */
static bool has_narrow_reader(const qn_equal_group *e)
{
	bool any = false;
	for (size_t i = 0; i < e->n; i++)
		any |= e->readers[i]->form == QN_FORM_Q4_0 || e->readers[i]->form == QN_FORM_I8;
	return any;
}

static bool is_candidate(const qn_equal_group *e)
{
	return !e->why && !e->s && (e->norm || e->maker);
}

/* Those of an allocation: the same for all layers that read the tensor, and for channels that are one in its maker. */
static qn_status take_given(equalizer *q, qn_equal_group *e)
{
	const float *s = NULL;
	const qn_layer *giver = NULL;
	bool same = true;
	for (size_t i = 0; i < q->p->n; i++) {
		const qn_layer *l = &q->p->layers[i];
		if (!l->node || l->node->in[0] != e->x || !l->equalized)
			continue;
		s = l->equalized;
		giver = l;
	}
	if (!s)
		return QUERN_OK;
	for (size_t i = 0; i < e->n; i++)
		same &= e->readers[i]->equalized && !memcmp(e->readers[i]->equalized, s, (size_t)e->k * sizeof *s);
	float *of = e->channel ? QN_NEW(q->env->scratch, float, qn_equal_channels(e)) : NULL; /* by the source's channel */
	for (int64_t k = 0; of && k < e->k; k++)
		of[e->channel[k]] = s[k];
	for (int64_t k = 0; of && k < e->k; k++)
		same &= !(of[e->channel[k]] < s[k] || of[e->channel[k]] > s[k]);
	if (e->why || (!e->norm && !e->maker) || !same)
		QN_FAIL(q->g->ctx, QUERN_ERR_CONFIG,
			"layer '%s': the factors of 'equalized' cannot be folded: %s; take them out of the allocation", giver->name,
			e->why ? e->why
			: same ? "what makes the tensor cannot take them"
			       : "other layers that read the tensor, or channels that are one, have others");
	e->s = s;
	return QUERN_OK;
}

static qn_status read_moments(equalizer *q)
{
	bool any = false;
	q->moments = QN_NEW(q->env->scratch, qn_moments, q->g->n_values);
	for (size_t i = 0; i < q->n; i++) {
		if (!is_candidate(&q->groups[i]))
			continue;
		qn_moments *m = &q->moments[q->groups[i].x->id];
		m->sum = QN_NEW(q->env->scratch, double, q->groups[i].k);
		m->square = QN_NEW(q->env->scratch, double, q->groups[i].k);
		any = true;
	}
	return any ? qn_moments_read(q->g, q->env->samples, "equalize", q->moments) : QUERN_OK;
}

static qn_status choose(equalizer *q)
{
	for (size_t i = 0; i < q->n; i++) {
		QN_TRY(take_given(q, &q->groups[i]));
		if (is_candidate(&q->groups[i]) && !has_narrow_reader(&q->groups[i]))
			q->groups[i].why = "no layer that reads it has weights of up to 8 bits";
	}
	if (!q->p->config->equalize)
		return QUERN_OK;
	if (q->env->samples) {
		QN_TRY(qn_samples_sort(q->env->samples));
		QN_TRY(read_moments(q));
	}
	for (size_t i = 0; i < q->n; i++)
		if (is_candidate(&q->groups[i]))
			QN_TRY(qn_equal_search(q->g, q->p, &q->groups[i], q->moments ? &q->moments[q->groups[i].x->id] : NULL));
	return QUERN_OK;
}

/* --- into the graph, and proved ------------------------------------------------------------------------------------------------- */
static qn_status error_of(equalizer *q, const qn_equal_before *before, size_t i, double *error)
{
	return before ? qn_equal_outputs_error(q->g, before, error) : qn_equal_products_error(q->g, &q->groups[i], q->undo[i], error);
}

/* A group that changes results goes back to what it was. */
static qn_status judge(equalizer *q, const qn_equal_before *before, size_t i)
{
	double error;
	QN_TRY(error_of(q, before, i, &error));
	if (error <= QN_EQUAL_TOLERANCE)
		return QUERN_OK;
	qn_equal_group *e = &q->groups[i];
	qn_equal_take_back(q->g, e, q->undo[i]);
	q->undo[i] = NULL;
	e->why = qn_arena_printf(q->p->arena, "its factors would change results by %.1e", error);
	return QUERN_OK;
}

static qn_status fold_one(equalizer *q, size_t i)
{
	return q->groups[i].s && !q->groups[i].why ? qn_equal_apply(q->g, q->p, &q->groups[i], q->env->scratch, &q->undo[i]) : QUERN_OK;
}

/* All at once, which a good graph passes in one run; else everything goes back. */
static qn_status fold_together(equalizer *q, const qn_equal_before *before, bool *good)
{
	double error;
	for (size_t i = 0; i < q->n; i++)
		QN_TRY(fold_one(q, i));
	QN_TRY(qn_equal_outputs_error(q->g, before, &error));
	*good = error <= QN_EQUAL_TOLERANCE;
	for (size_t i = q->n; i-- > 0 && !*good;)
		if (q->undo[i]) {
			qn_equal_take_back(q->g, &q->groups[i], q->undo[i]);
			q->undo[i] = NULL;
		}
	return QUERN_OK;
}

/* Each is judged before the next one is folded, for a layer may read one tensor with factors and make another. */
static qn_status fold_in_turn(equalizer *q, const qn_equal_before *before)
{
	for (size_t i = 0; i < q->n; i++) {
		QN_TRY(fold_one(q, i));
		if (q->undo[i])
			QN_TRY(judge(q, before, i));
	}
	return QUERN_OK;
}

static qn_status fold(equalizer *q)
{
	bool any = false;
	for (size_t i = 0; i < q->n; i++)
		any |= q->groups[i].s && !q->groups[i].why;
	if (!any)
		return QUERN_OK;
	if (!q->env->samples || !qn_samples_count(q->env->samples))
		return fold_in_turn(q, NULL);
	qn_equal_before before;
	bool good;
	QN_TRY(qn_samples_sort(q->env->samples)); /* some of them are looked at */
	QN_TRY(qn_equal_run(q->g, q->env->samples, q->env->scratch, &before));
	QN_TRY(fold_together(q, &before, &good));
	return good ? QUERN_OK : fold_in_turn(q, &before);
}

static void tell(equalizer *q)
{
	size_t folded = 0, kept = 0;
	for (size_t i = 0; i < q->n; i++) {
		qn_equal_group *e = &q->groups[i];
		if (!e->norm && !e->maker)
			continue;
		if (!e->why && !e->s)
			e->why = "the allocation has no factors for it";
		note(q, e->x->name, qn_equal_source(e), e->n, e->why, e->error);
		folded += !e->why && e->s;
	}
	for (size_t i = 0; i < q->p->n_equalizations; i++) {
		const qn_equalization *e = &q->p->equalizations[i];
		kept += e->why != NULL;
		if (e->why)
			qn_log(q->g->ctx, QUERN_LOG_DEBUG, "equalize: '%s' stays as it is: %s", e->tensor, e->why);
	}
	qn_log(q->g->ctx, QUERN_LOG_INFO,
		"equalize: %zu tensors have factors, folded into what makes and what reads them; %zu stay as they are", folded, kept);
}

static bool is_given(const qn_plan *p)
{
	bool any = false;
	for (size_t i = 0; i < p->n; i++)
		any |= p->layers[i].equalized != NULL;
	return any;
}

qn_status qn_pass_equalize(qn_graph *g, qn_pass_env *env)
{
	equalizer q = {.g = g, .env = env, .p = env->plan};
	q.p->equalization_done = true;
	if (!q.p->config->equalize && !is_given(q.p))
		return QUERN_OK;
	QN_TRY(find_groups(&q));
	QN_TRY(choose(&q));
	q.undo = QN_NEW(env->scratch, qn_equal_undo *, q.n + 1);
	QN_TRY(fold(&q));
	tell(&q);
	qn_graph_sweep(g);
	return QUERN_OK;
}
