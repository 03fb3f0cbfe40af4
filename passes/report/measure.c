/* measure.c - what each layer adds to the error, and what layers read, sample by sample.
 *
 * After the float and the compiled graph have run on a sample, the compiled graph runs once more, and each layer's result, once compared, is replaced by the
 * exact one: what is left is the error that the layer itself makes on exact inputs. Then each of these errors is added to the layer's result in the float
 * graph, one layer at a time, and what arrives at the outputs is that layer's part of the damage. */
#include "passes/report/measure.h"

#include "passes/stats.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_SAMPLES_ATTRIBUTED = 32 };

static qn_value *activation_of(const qn_layer *l) { return l->node->in[l->weight_in == 0]; }

static void watch_inputs(qn_measure *m)
{
	const qn_plan *p = &m->e->exact->plan;
	m->input = QN_NEW(m->arena, qn_input_stats *, m->e->exact->graph->n_values);
	for (size_t i = 0; i < p->n; i++) {
		const qn_layer *l = &p->layers[i];
		qn_value *v = l->node->n_in > 1 ? activation_of(l) : NULL;
		if (!v || v->fact.type != QN_F32 || l->k < 1 || m->input[v->id] || l->node->op != qn_op_find("quern", "Linear"))
			continue;
		qn_input_stats *s = QN_NEW(m->arena, qn_input_stats, 1);
		*s = (qn_input_stats){.value = v, .channels = l->k, .mask_floor = qn_mask_floor(v)};
		s->low = QN_NEW(m->arena, float, l->k);
		s->high = QN_NEW(m->arena, float, l->k);
		for (int64_t k = 0; k < l->k; k++) {
			s->low[k] = INFINITY;
			s->high[k] = -INFINITY;
		}
		m->input[v->id] = s;
	}
}

qn_measure *qn_measure_new(quern_evaluation *e, qn_arena *a)
{
	qn_measure *m = QN_NEW(a, qn_measure, 1);
	size_t n = e->exact->plan.n;
	*m = (qn_measure){.e = e, .arena = a, .own = QN_NEW(a, qn_damage, n), .alone = QN_NEW(a, double, n), .error = QN_NEW(a, const qn_tensor *, n),
		.logits_alone = qn_plan_logits_tell_all(&e->exact->plan, e->exact->graph)};
	m->of = QN_NEW(a, qn_eval_item *, e->got->graph->n_values);
	m->next = QN_NEW(a, qn_eval_item *, e->n);
	for (size_t i = e->n_outputs; i < e->n; i++) {
		m->next[i] = m->of[e->items[i].got->id];
		m->of[e->items[i].got->id] = &e->items[i];
	}
	watch_inputs(m);
	return m;
}

static qn_status see_exact(void *user, const qn_value *v, const qn_tensor *t)
{
	qn_input_stats *s = ((qn_measure *)user)->input[v->id];
	if (!s || t->type != QN_F32)
		return QUERN_OK;
	int64_t rows = qn_tensor_count(t) / s->channels;
	const float *x = t->data;
	for (int64_t r = 0; r < rows; r++, x += s->channels)
		for (int64_t k = 0; k < s->channels; k++) {
			if (!(x[k] > s->mask_floor))
				continue;
			s->low[k] = x[k] < s->low[k] ? x[k] : s->low[k];
			s->high[k] = x[k] > s->high[k] ? x[k] : s->high[k];
		}
	return QUERN_OK;
}

/* --- the error of the outputs ------------------------------------------------------------------------------------------------ */
/* Relative squared error, summed over the outputs that count: logits where they tell of every layer, else all. */
static double output_error(const qn_measure *m, qn_exec *exact, qn_exec *got, bool compiled, qn_arena *scratch)
{
	const quern_evaluation *e = m->e;
	double sum = 0;
	for (size_t i = 0; i < e->n_outputs; i++) {
		const qn_eval_item *it = &e->items[i];
		const qn_tensor *x = qn_exec_value(exact, it->exact), *y = qn_exec_value(got, compiled ? it->got : it->exact);
		qn_damage d = {0};
		if ((m->logits_alone && !it->logits) || !x || !y || !qn_dtype_is_float(x->type) || qn_damage_add(&d, scratch, x, y) >= 0)
			continue;
		sum += d.signal > 0 ? d.noise / d.signal : 0;
	}
	return sum;
}

/* --- own errors ---------------------------------------------------------------------------------------------------------------- */
/* The exact result in the compiled graph's terms. */
static const qn_tensor *as_compiled(const quern_evaluation *e, const qn_eval_item *it, const qn_tensor *exact, qn_arena *a)
{
	const qn_layer *l = &e->got->plan.layers[it->layer];
	int64_t n = l->divided || l->order ? exact->dim[exact->rank - 1] : 0, count = qn_tensor_count(exact);
	if (!n)
		return exact;
	qn_tensor *t = qn_tensor_new(a, QN_F32, exact->rank, exact->dim);
	const float *v = qn_tensor_f32(a, exact);
	for (int64_t i = 0; i < count; i++) {
		int64_t channel = l->order ? l->order[i % n] : i % n;
		((float *)(uintptr_t)t->data)[i] = v[i - i % n + channel] / (l->divided ? l->divided[channel] : 1);
	}
	return t;
}

static void keep_error(qn_measure *m, const qn_eval_item *it, const qn_tensor *exact, const qn_tensor *got, bool keep, qn_arena *a)
{
	double before = m->own[it->layer].noise;
	qn_damage_add(&m->own[it->layer], a, exact, got);
	m->error[it->layer] = NULL;
	if (!keep || !(m->own[it->layer].noise > before))
		return;
	qn_tensor *t = qn_tensor_new(a, QN_F32, exact->rank, exact->dim);
	const float *x = qn_tensor_f32(a, exact), *y = qn_tensor_f32(a, got);
	int64_t n = qn_tensor_count(exact);
	for (int64_t i = 0; i < n; i++)
		((float *)(uintptr_t)t->data)[i] = y[i] - x[i];
	m->error[it->layer] = t;
}

static void repair(qn_measure *m, const qn_eval_pair *ran, const qn_value *v, bool keep, qn_arena *a)
{
	for (qn_eval_item *it = m->of[v->id]; it; it = m->next[it - m->e->items]) {
		const qn_tensor *exact = qn_exec_value(ran->exact, it->exact), *got = qn_exec_value(ran->got, it->got);
		keep_error(m, it, exact, qn_eval_undivided(m->e, it, got, a), keep, a);
		if (!m->next[it - m->e->items])
			qn_exec_override(ran->got, it->got, as_compiled(m->e, it, exact, a));
	}
}

static qn_status run_repaired(qn_measure *m, const qn_tensor *const *in, const qn_eval_pair *ran, bool keep, qn_arena *a)
{
	qn_status status = qn_exec_begin(ran->got, in);
	for (qn_node *n = m->e->got->graph->first; n && status == QUERN_OK; n = n->next) {
		if (!qn_exec_needs(n))
			continue;
		status = qn_exec_step(ran->got, n);
		for (int i = 0; i < n->n_out && status == QUERN_OK; i++)
			if (n->out[i])
				repair(m, ran, n->out[i], keep, a);
		if (status == QUERN_OK)
			qn_exec_finish(ran->got, n);
	}
	for (size_t i = m->e->n_outputs; i < m->e->n; i++)
		qn_exec_override(ran->got, m->e->items[i].got, NULL);
	return status;
}

/* --- one layer's error at a time --------------------------------------------------------------------------------------------- */
static qn_status step_from(qn_exec *x, qn_node *n)
{
	for (; n; n = n->next) {
		if (!qn_exec_needs(n))
			continue;
		QN_TRY(qn_exec_step(x, n));
		qn_exec_finish(x, n);
	}
	return QUERN_OK;
}

static const qn_tensor *sum_of(const qn_tensor *x, const qn_tensor *e, qn_arena *a)
{
	qn_tensor *t = qn_tensor_new(a, QN_F32, x->rank, x->dim);
	const float *v = qn_tensor_f32(a, x), *d = e->data;
	int64_t n = qn_tensor_count(x);
	for (int64_t i = 0; i < n; i++)
		((float *)(uintptr_t)t->data)[i] = v[i] + d[i];
	return t;
}

/* From the last layer to the first, so that what a layer reads is always exact: only what follows it is computed again. */
static qn_status attribute(qn_measure *m, const qn_tensor *const *in, const qn_eval_pair *ran)
{
	const quern_evaluation *e = m->e;
	if (!m->trial) {
		m->trial = qn_exec_new(ran->consts, m->arena);
		for (size_t i = 0; i < e->exact->graph->n_values; i++)
			if (e->exact->graph->values[i])
				qn_exec_hold(m->trial, e->exact->graph->values[i]);
	}
	QN_TRY(qn_exec_begin(m->trial, in));
	QN_TRY(step_from(m->trial, e->exact->graph->first));
	for (size_t i = e->n; i-- > e->n_outputs;) {
		const qn_eval_item *it = &e->items[i];
		if (!m->error[it->layer])
			continue;
		qn_arena scratch;
		qn_arena_init(&scratch, e->ctx);
		qn_exec_override(m->trial, it->exact, sum_of(qn_exec_value(ran->exact, it->exact), m->error[it->layer], &scratch));
		qn_status status = step_from(m->trial, e->exact->plan.layers[it->layer].node->next);
		if (status == QUERN_OK)
			m->alone[it->layer] += output_error(m, ran->exact, m->trial, false, &scratch);
		qn_exec_override(m->trial, it->exact, NULL);
		qn_arena_release(&scratch);
		QN_TRY(status);
	}
	m->attributed++;
	return QUERN_OK;
}

/* Multiply-adds of the attribution of one sample like this one. */
static double attribution_cost(const qn_measure *m, const qn_eval_pair *ran)
{
	const quern_evaluation *e = m->e;
	double after = 0, sum = 0;
	for (size_t i = e->n; i-- > e->n_outputs;) {
		const qn_tensor *t = qn_exec_value(ran->exact, e->items[i].exact);
		sum += after;
		after += t ? (double)qn_tensor_count(t) * (double)e->exact->plan.layers[e->items[i].layer].k : 0;
	}
	return sum + after;
}

static void begin(qn_measure *m, const qn_eval_pair *ran)
{
	double cost = attribution_cost(m, ran), most = cost > 0 ? QN_MOST_ATTRIBUTION / cost : MOST_SAMPLES_ATTRIBUTED;
	m->begun = true;
	m->most_attributed = most > MOST_SAMPLES_ATTRIBUTED ? MOST_SAMPLES_ATTRIBUTED : (size_t)most;
	if (!m->most_attributed)
		m->no_share = qn_arena_printf(m->arena, "trying each layer alone would take %.2g multiply-adds a sample, more than the %.2g that a report may take", cost,
			QN_MOST_ATTRIBUTION);
}

/* Evenly spread over the samples. */
static bool takes_shares(const qn_measure *m)
{
	size_t i = m->e->samples, n = m->e->samples_taken, most = m->most_attributed < n ? m->most_attributed : n;
	return (i + 1) * most / n > i * most / n;
}

static qn_status after(void *user, const qn_tensor *const *in, const qn_eval_pair *ran)
{
	qn_measure *m = user;
	if (!m->begun)
		begin(m, ran);
	qn_arena a;
	qn_arena_init(&a, m->e->ctx);
	bool shares = takes_shares(m);
	if (shares)
		m->together += output_error(m, ran->exact, ran->got, true, &a);
	qn_status status = run_repaired(m, in, ran, shares, &a);
	if (status == QUERN_OK && shares)
		status = attribute(m, in, ran);
	qn_arena_release(&a);
	return status;
}

void qn_measure_hook(qn_measure *m, qn_eval_plan *plan)
{
	plan->user = m;
	plan->see_exact = see_exact;
	plan->after = after;
}

/* --- what layers read ----------------------------------------------------------------------------------------------------------- */
static int rising(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

qn_spread qn_measure_spread(const qn_input_stats *s, const float *by, qn_arena *scratch, double *low, double *high)
{
	double *most = QN_NEW(scratch, double, s->channels);
	int64_t n = 0;
	*low = INFINITY, *high = -INFINITY;
	for (int64_t k = 0; k < s->channels; k++) {
		if (s->low[k] > s->high[k])
			continue;
		double l = (double)s->low[k] / (by ? (double)by[k] : 1), h = (double)s->high[k] / (by ? (double)by[k] : 1);
		*low = fmin(*low, l), *high = fmax(*high, h);
		most[n++] = fmax(fabs(l), fabs(h));
	}
	qn_spread p = {NAN, NAN, NAN, {NAN, NAN, NAN, NAN, NAN}};
	if (!n)
		return p;
	qsort(most, (size_t)n, sizeof *most, rising);
	p.low = most[(n - 1) / 10], p.median = most[(n - 1) / 2], p.high = most[(n - 1) * 9 / 10];
	for (int64_t i = 0; i < 5 && i < n; i++)
		p.top[i] = most[n - 1 - i];
	return p;
}
